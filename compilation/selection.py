"""The modules that mypyc compiles. They are found by a walk over packages."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

# Packages that are compiled except for what is interpreted, and modules. Of the server, those that
# requests pass through.
PACKAGES = (
    "protocol",
    "storage",
    "assignors",
    "coordinator",
    "server/authorization",
    "server/clock.py",
    "server/coordinators",
    "server/network",
    "server/groups",
    "server/handlers",
    "server/logs",
    "server/metadata",
    "server/services.py",
)

# The packages of which a broker may import modules while it serves.
_OF_BROKERS = ("protocol", "storage", "assignors", "coordinator", "security", "server")

INTERPRETED = {
    "coordinator/kernel/loading.py": "derives a class from bytes",
    "protocol/compile_decode.py": "makes source that the interpreter runs",
    "protocol/compile_encode.py": "makes source that the interpreter runs",
    "protocol/declare.py": "builds classes anew; declarations of tests need it",
    "protocol/messages/consumer_group_records.py": "only tools decode these records",
    "protocol/messages/share_group_records.py": "only tools decode these records",
    "protocol/messages/streams_group_records.py": "only tools decode these records",
    "protocol/spliced.py": "derives a class from list",
    "server/logs/cleanable_logs.py": "a named tuple with a field of type Exception",
    "server/network/http_application.py": "the base of interpreted classes, and no hot path",
    "server/network/http_errors.py": "no hot path",
    "server/network/http_exchange.py": "no hot path",
    "server/network/http_server.py": "derives a class from one of uvicorn",
    "server/network/json_values.py": "no hot path",
}

# What most requests pass through, as packages and modules: those that execute a five-hundredth of
# the instructions of a broker, or more, under the load of a benchmark (callgrind). All others
# together execute less than a hundredth. Fetches of many partitions are in no such load. At this
# level the C compiler takes twice as long.
HOT = (
    "coordinator.groups.classic.group",
    "coordinator.groups.classic.heartbeat",
    "coordinator.groups.classic.join",
    "coordinator.groups.classic.member",
    "coordinator.groups.classic.rebalance",
    "coordinator.groups.classic.step",
    "coordinator.groups.classic.sync",
    "coordinator.groups.group_partitions",
    "coordinator.groups.group_requests",
    "coordinator.groups.offsets",
    "coordinator.groups.partition_state",
    "coordinator.groups.recorded.heartbeat",
    "coordinator.groups.recorded.requests",
    "coordinator.groups.replay",
    "coordinator.groups.service",
    "coordinator.groups.shard",
    "coordinator.groups.step",
    "coordinator.kernel",
    "protocol.java_hash",
    "protocol.messages.consumer_group_heartbeat",
    "protocol.messages.fetch",
    "protocol.messages.heartbeat",
    "protocol.messages.join_group",
    "protocol.messages.journal_records",
    "protocol.messages.log_records",
    "protocol.messages.offset_commit",
    "protocol.messages.offset_fetch",
    "protocol.messages.produce",
    "protocol.messages.sync_group",
    "protocol.record_check",
    "protocol.record_writer",
    "protocol.wire_bytes",
    "server.clock",
    "server.coordinators.appends",
    "server.coordinators.runtime",
    "server.groups.event_log",
    "server.groups.journal",
    "server.groups.runtime",
    "server.handlers.group_requests",
    "server.handlers.offset_commit",
    "server.handlers.plain_fetch",
    "server.handlers.session_fetch",
    "server.logs.fetch_sessions",
    "server.logs.fetching",
    "server.network.channel",
    "server.network.connection",
    "server.network.delayed_response",
    "server.network.receive_buffer",
    "storage.batches",
    "storage.index",
    "storage.filesystem",
    "storage.log",
    "storage.log_config",
    "storage.log_reader",
    "storage.open_files",
    "storage.segment",
    "storage.segment_digests",
)

# What is asked for now and then, mostly by administrators, stays interpreted: it was a third of the
# C source. Listings and descriptions of groups, which tools ask for again and again, are compiled.
# All structures of an interpreted message have to be interpreted: its codec fills empty objects.
_RARE = re.compile(
    # The verb in the name of an API.
    r"(?:protocol/messages|server/handlers)"
    r"/(?:(?:add_raft|alter|create|elect|expire|incremental|remove|renew|unregister|update)_\w+"
    r"|delete_(?!groups)\w+|describe_(?!groups)\w+|list_(?!groups|offsets)\w+"
    r"|write_txn_markers)\.py"
    r"|protocol/messages/(?:\w+_describe|connect_protocol|get_telemetry_\w+|push_telemetry"
    r"|initialize_share_\w+|read_share_group_state_summary|sasl_\w+|security_records)\.py"
    r"|server/handlers/(?:acls|altered_resources|client_quotas|cluster_members|delegation_tokens"
    r"|scram_credentials|security|share_offsets|share_state|telemetry"
    r"|topic_changes)\.py"
    r"|server/authorization/(?:administration|configs|making|tokens)\.py"
    # Of a broker: settings, topics that change, and logs that are opened.
    r"|server/logs/log_opener\.py"
    r"|server/metadata/(?:prepared_topics|settings_file|stored_settings|topic_changes|topic_rules)"
    r"\.py"
    r"|storage/(?:directory|meta_properties|properties|topic_directories)\.py"
    # Of groups: descriptions.
    r"|coordinator/groups/(?:consumer|recorded|share|streams)/describe\.py"
    r"|coordinator/groups/share/offsets\.py"
    r"|coordinator/transactions/listing\.py"
    # Formats that only old clients have.
    r"|protocol/(?:message_sets|record_legacy|resources)\.py"
)
_NAMED_EXCEPTION = re.compile(r"^ *except .* as \w+:", re.MULTILINE)


def compiled_modules(package: Path) -> Iterator[Path]:
    """Yield the files that are compiled, relative to the package."""
    for name in PACKAGES:
        place = package / name
        for path in [place] if place.suffix else sorted(place.rglob("*.py")):
            module = path.relative_to(package)
            if path.name != "__init__.py" and not _is_interpreted(module.as_posix()):
                yield module


def interpreted_modules(package: Path) -> Iterator[Path]:
    """Yield the other files of the same packages, and of those that brokers import with them."""
    compiled = set(compiled_modules(package))
    for name in _OF_BROKERS:
        for path in sorted((package / name).rglob("*.py")):
            module = path.relative_to(package)
            # Python finds the directory of a package.
            if path.name != "__init__.py" and module not in compiled:
                yield module


def _is_interpreted(module: str) -> bool:
    return module in INTERPRETED or _RARE.fullmatch(module) is not None


def is_of_a_module(c_file: str) -> bool:
    """Return whether mypyc wrote a C file from a module; the others are its own library.

    Args:
        c_file: its name.
    """
    return c_file.startswith("__native_")


def is_hot(c_file: str) -> bool:
    """Return whether a C file is optimised for speed.

    Args:
        c_file: its name, as mypyc forms it from that of the module, or that of a file of mypyc.
    """
    begin, end = "__native_coterie___", ".c"
    if not is_of_a_module(c_file):
        return True
    module = c_file.removeprefix(begin).removesuffix(end).replace("___", ".")
    return any(f"{module}.".startswith(f"{name}.") for name in HOT)


def reused_names(source: str) -> list[str]:
    """Return the functions that catch exceptions of several types under one name.

    mypyc gives the name one type, that of the first clause, and refuses others at run time.
    """
    if len(_NAMED_EXCEPTION.findall(source)) < 2:
        return []
    found = []
    for function in ast.walk(ast.parse(source)):
        if not isinstance(function, ast.FunctionDef):
            continue
        types: dict[str, set[str]] = {}
        for clause in ast.walk(function):
            if isinstance(clause, ast.ExceptHandler) and clause.name and clause.type is not None:
                types.setdefault(clause.name, set()).add(ast.unparse(clause.type))
        if any(len(each) > 1 for each in types.values()):
            found.append(function.name)
    return found
