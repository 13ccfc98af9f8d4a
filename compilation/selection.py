"""The modules that mypyc compiles. They are found by a walk over packages."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

# Packages that are compiled as a whole, and two modules. Of the server, those that requests pass
# through.
PACKAGES = (
    "protocol",
    "storage",
    "assignors",
    "coordinator",
    "server/authorization",
    "server/coordinators",
    "server/network",
    "server/groups",
    "server/handlers",
    "server/logs",
    "server/metadata",
    "server/controller.py",
    "server/services.py",
)

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

# What most requests pass through, as packages and modules. It is a tenth of the C source: the
# second level of optimisation takes the C compiler twice as long as the first.
HOT = (
    "coordinator.groups.classic",
    "coordinator.groups.group_requests",
    "coordinator.groups.offsets",
    "coordinator.groups.shard",
    "coordinator.kernel",
    "protocol.messages.consumer_group_heartbeat",
    "protocol.java_hash",
    "protocol.messages.heartbeat",
    "protocol.messages.join_group",
    "protocol.messages.journal_records",
    "protocol.messages.log_records",
    "protocol.messages.record_types",
    "protocol.messages.offset_commit",
    "protocol.messages.sync_group",
    "protocol.primitives",
    "protocol.record_batch",
    "protocol.record_check",
    "protocol.record_writer",
    "protocol.wire_bytes",
    "server.coordinators",
    "server.groups.event_log",
    "server.groups.journal",
    "server.groups.runtime",
    "server.handlers.group_requests",
    "server.handlers.produce",
    "server.logs.fetching",
    "server.logs.partition",
    "server.logs.received_batches",
    "server.network.channel",
    "server.network.connection",
    "server.network.delayed_response",
    "server.network.receive_buffer",
    "server.network.route",
    "storage.batches",
    "storage.index",
    "storage.log",
    "storage.segment",
    "storage.segment_digests",
)

# What administrators ask for now and then, by the verb in the name of the module: a sixth of the C
# source. Listings of groups and offsets, and deletions of groups, are asked for more often.
_RARE = re.compile(
    r"___(?:alter|create|describe|elect|expire|incremental|renew|unregister|update)_\w+\.c"
    r"|___delete_(?!groups)\w+\.c"
    r"|___list_(?!groups|offsets)\w+\.c"
    r"|___messages___\w+_describe\.c"
)
_NAMED_EXCEPTION = re.compile(r"^ *except .* as \w+:", re.MULTILINE)


def compiled_modules(package: Path) -> Iterator[Path]:
    """Yield the files that are compiled, relative to the package."""
    for name in PACKAGES:
        place = package / name
        for path in [place] if place.suffix else sorted(place.rglob("*.py")):
            module = path.relative_to(package)
            if path.name != "__init__.py" and module.as_posix() not in INTERPRETED:
                yield module


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


def is_rare(c_file: str) -> bool:
    """Return whether a C file is compiled quickly, because little time is spent in it.

    Args:
        c_file: its name, as mypyc forms it from that of the module.
    """
    return _RARE.search(c_file) is not None


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
