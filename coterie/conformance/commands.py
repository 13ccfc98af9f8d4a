"""The commands of transcripts that are not requests: time, settings, faults, inspection.

One function per command; it gets the broker and the arguments of the command. A file that uses a
command outside of CLIENT_COMMANDS and INSPECTION_COMMANDS `needs: core`.
"""

from collections.abc import Callable
from copy import copy
from typing import Any, NamedTuple

from coterie.conformance.core_broker import CoreBroker, PendingMarker
from coterie.conformance.core_lines import pair_text, record_text, state_text, timer_texts
from coterie.conformance.harness import START_MS
from coterie.conformance.recorded_group_lines import recorded_state_text, recorded_timer_texts
from coterie.conversation.syntax import Arguments, TranscriptError, parse_duration_ms, unquote
from coterie.coordinator.groups.classic.group import classic
from coterie.coordinator.groups.config import GroupConfig
from coterie.coordinator.groups.pending_offsets import TransactionEnd
from coterie.coordinator.groups.recorded.group import RecordedGroup
from coterie.protocol.control_records import Marker
from coterie.protocol.errors import ErrorCode

# The beginnings of the names of settings of one type of groups.
TYPE_PREFIXES = ("group.consumer.", "group.share.", "group.streams.")

CONFIG_FIELDS = {
    "offset.metadata.max.bytes": "offset_metadata_max_size",
    "offsets.retention.minutes": "offsets_retention_ms",
}


def _tick(broker: CoreBroker, arguments: Arguments) -> None:
    """`tick 3s`: time passes."""
    (duration,) = arguments.positional
    broker.wait(parse_duration_ms(duration))


def _config(broker: CoreBroker, arguments: Arguments) -> None:
    """`config group.max.size=2`: change a setting; a broker over TCP must be started with it."""
    for setting in arguments.positional:
        name, _, text = setting.partition("=")
        if name.startswith(TYPE_PREFIXES):
            broker.config = with_type_setting(broker.config, name, text)
            continue
        field = CONFIG_FIELDS.get(name, name.replace(".", "_"))
        value: Any = setting_value(text)
        if name == "offsets.retention.minutes":
            value *= 60_000
        if field not in broker.config._fields:
            raise TranscriptError(f"no setting is called {name}")
        broker.config = broker.config._replace(**{field: value})
    broker.coordinator.config = broker.config
    for shard in broker.coordinator.shards:
        shard.config = broker.config


class GroupSetting(NamedTuple):
    """A setting of one group, by Kafka's name of it, and its value as a broker takes it."""

    group: str
    name: str
    value: str


def group_setting(text: str) -> GroupSetting | None:
    """Return the setting of `group.consumer.assignment.interval.ms:g=0`; None if it has no group.

    A group calls it `consumer.assignment.interval.ms`.
    """
    name, _, value = text.partition("=")
    name, of_group, group = name.partition(":")
    if not of_group:
        return None
    text = str(setting_value(value)) if value[:1].isdigit() else value
    return GroupSetting(group, name.removeprefix("group."), text)


def with_type_setting(config: GroupConfig, name: str, text: str) -> GroupConfig:
    """Return settings in which one of a type of groups is another one.

    A setting of one group has its name behind a colon:
    `group.consumer.assignment.interval.ms:g=0`.

    Raises:
        TranscriptError: there is no such setting.
    """
    name, _, group_id = name.partition(":")
    kind, field = type_and_field(name)
    of_type: Any = getattr(config, kind)
    table = copy(of_type.settings)
    table.own = dict(of_type.settings.own)
    if field in table.default._fields:
        values: Any = {field: setting_value(text)}
        if group_id:
            table.own[group_id] = table.of(group_id)._replace(**values)
        else:
            table.default = table.default._replace(**values)
    elif field in of_type._fields:
        texts: Any = {"assignors": tuple(text.split(",")), "migration_policy": text}
        values = {field: texts[field] if field in texts else setting_value(text)}
        of_type = of_type._replace(**values)
    else:
        raise TranscriptError(f"no setting is called {name}")
    return config._replace(**{kind: of_type._replace(settings=table)})


def type_and_field(name: str) -> tuple[str, str]:
    """Return the type of groups in the name of a setting, and the rest with underscores."""
    _, kind, rest = name.split(".", 2)
    return kind, rest.replace(".", "_")


def is_type_setting(name: str) -> bool:
    """Return whether `config` knows a setting as one of a type of groups."""
    if not name.startswith(TYPE_PREFIXES):
        return False
    kind, field = type_and_field(name)
    of_type: Any = getattr(GroupConfig(), kind)
    return field in of_type.settings.default._fields + of_type._fields and field != "settings"


def setting_value(text: str) -> int:
    """Return the value of a setting: a plain number, or a duration in milliseconds."""
    return int(text) if text.lstrip("-").isdigit() else parse_duration_ms(text)


def _disconnect(broker: CoreBroker, arguments: Arguments) -> None:
    """`disconnect c1`: close its connection, which the coordinator does not notice."""
    for client in arguments.positional:
        for pending in broker.waiting:
            if pending.client == client:
                pending.disconnected = True


def _create_topic(broker: CoreBroker, arguments: Arguments) -> None:
    """`create-topic T N`: create a topic with N partitions."""
    topic, count = arguments.positional
    broker.put_topic(topic, broker.names.topic_id(topic), int(count))


def _grow_topic(broker: CoreBroker, arguments: Arguments) -> None:
    """`grow-topic T N`: give a topic more partitions, so that it has N."""
    _create_topic(broker, arguments)


def _delete_topic(broker: CoreBroker, arguments: Arguments) -> None:
    """`delete-topic T`: delete a topic; the coordinator deletes its offsets."""
    for topic in arguments.positional:
        broker.remove_topic(topic, broker.names.forget_topic(topic))


def _recreate_topic(broker: CoreBroker, arguments: Arguments) -> None:
    """`recreate-topic T`: delete and create a topic before the coordinator learns of it."""
    for topic in arguments.positional:
        broker.names.forget_topic(topic)


def _restart(broker: CoreBroker, _arguments: Arguments) -> None:
    """`restart`: stop abruptly and load the durable records again."""
    broker.restart()


def _fail_next_append(broker: CoreBroker, arguments: Arguments) -> None:
    """`fail-next-append [ERROR]`: by default with KAFKA_STORAGE_ERROR."""
    (error,) = arguments.positional or ["KAFKA_STORAGE_ERROR"]
    broker.failing = ErrorCode[error]


def _hold_appends(broker: CoreBroker, _arguments: Arguments) -> None:
    """`hold-appends`: appends are neither acknowledged nor failed from now on."""
    broker.holding = True


def _release_appends(broker: CoreBroker, arguments: Arguments) -> None:
    """`release-appends [N]`: acknowledge the oldest N; without N all, and stop holding."""
    broker.release_appends(int(arguments.positional[0]) if arguments.positional else None)


def _fail_appends(broker: CoreBroker, arguments: Arguments) -> None:
    """`fail-appends ERROR`: fail everything that is held, and stop holding."""
    (error,) = arguments.positional
    broker.fail_pending(ErrorCode[error])


def _partition_of(broker: CoreBroker, arguments: Arguments) -> int:
    """Return the partition of the group that the command names."""
    (group,) = arguments.positional
    return broker.coordinator.partition_for(group)


def _hold_state(broker: CoreBroker, _arguments: Arguments) -> None:
    """`hold-state`: the share coordinator answers nothing from now on."""
    broker.holding_state = True


def _answer_state(broker: CoreBroker, arguments: Arguments) -> None:
    """`answer-state [ERROR]`: it answers what was held, by default without an error."""
    broker.holding_state = False
    broker.answer_state(
        ErrorCode[arguments.positional[0]] if arguments.positional else ErrorCode.NONE
    )


def _unload(broker: CoreBroker, arguments: Arguments) -> None:
    """`unload G [epoch=N]`: the partition of the group moves to another broker."""
    epoch = arguments.take("epoch", "")
    partition = _partition_of(broker, arguments)
    broker.logs[partition].take_pending()
    broker.carry_out(
        broker.coordinator.unload(partition, int(epoch) if epoch else None, broker.now_ms)
    )


def _begin_load(broker: CoreBroker, arguments: Arguments) -> None:
    """`begin-load G epoch=N`: the partition of the group comes back and its log is read."""
    partition = _partition_of(broker, arguments)
    if not broker.begin_load(partition, int(arguments.take("epoch", "1"))):
        broker.show(f"log+ not loaded: the epoch is not newer, partition {partition}")


def _finish_load(broker: CoreBroker, arguments: Arguments) -> None:
    """`finish-load G`: serve the partition whose log was read."""
    broker.finish_load(_partition_of(broker, arguments))


def _load(broker: CoreBroker, arguments: Arguments) -> None:
    """`load G epoch=N`: begin and finish a load."""
    partition = _partition_of(broker, arguments)
    if broker.begin_load(partition, int(arguments.take("epoch", "1"))):
        broker.finish_load(partition)
    else:
        broker.show(f"log+ not loaded: the epoch is not newer, partition {partition}")


def _record(broker: CoreBroker, arguments: Arguments) -> None:
    """`record G key=HEX value=HEX|null`: add a record of another broker, for a later load."""
    key = bytes.fromhex(arguments.take("key", ""))
    text = arguments.take("value", "null")
    value = None if text == "null" else bytes.fromhex(text)
    broker.logs[_partition_of(broker, arguments)].durable.append((key, value))
    broker.show(f"log+ {record_text(key, value, START_MS, broker.names)}")


def _compact(broker: CoreBroker, arguments: Arguments) -> None:
    """`compact G`: keep the last record of each key, in order."""
    log = broker.logs[_partition_of(broker, arguments)]
    last = {key: at for at, (key, _) in enumerate(log.durable)}
    log.durable = [pair for at, pair in enumerate(log.durable) if last[pair[0]] == at]


def _log(broker: CoreBroker, arguments: Arguments) -> None:
    """`log G`: show the durable records of the group's partition."""
    pairs = broker.logs[_partition_of(broker, arguments)].durable
    for number, pair in enumerate(pairs):
        broker.show(f"log {number} {pair_text(pair, START_MS, broker.names)}")


def _marker(broker: CoreBroker, arguments: Arguments) -> None:
    """`marker G commit|abort producer=N [epoch=N]`: end a transaction in the group's partition."""
    group, result = arguments.positional
    if result not in ("commit", "abort"):
        raise TranscriptError(f"{result!r} is neither commit nor abort")
    end = TransactionEnd(
        int(arguments.take("producer", "1")),
        int(arguments.take("epoch", "0")),
        Marker(result == "commit", 0),
    )
    partition = broker.coordinator.partition_for(group)
    broker.end_transaction(partition, end, PendingMarker())


def _state(broker: CoreBroker, arguments: Arguments) -> None:
    """`state G`: show the group as the core holds it."""
    (group_id,) = map(unquote, arguments.positional)
    group = broker.coordinator.group(group_id)
    if isinstance(group, RecordedGroup):
        broker.show(recorded_state_text(group))
    else:
        broker.show(state_text(group_id, classic(group)))


def _timers(broker: CoreBroker, arguments: Arguments) -> None:
    """`timers G`: show the timers of the group."""
    (group_id,) = arguments.positional
    group, purgatory = broker.coordinator.group(group_id), broker.coordinator.purgatory
    if isinstance(group, RecordedGroup):
        broker.show(*recorded_timer_texts(group, purgatory, START_MS))
    else:
        broker.show(*timer_texts(group_id, classic(group), purgatory, START_MS))


# What a driver for a running broker can do as well.
CLIENT_COMMANDS = frozenset(
    {"tick", "config", "disconnect", "create-topic", "grow-topic", "delete-topic", "given"}
)

# Commands that show the core and change nothing; a driver for a running broker skips them.
INSPECTION_COMMANDS = frozenset({"log", "state", "timers"})

COMMANDS: dict[str, Callable[[CoreBroker, Arguments], None]] = {
    "tick": _tick,
    "config": _config,
    "disconnect": _disconnect,
    "create-topic": _create_topic,
    "grow-topic": _grow_topic,
    "delete-topic": _delete_topic,
    "recreate-topic": _recreate_topic,
    "restart": _restart,
    "fail-next-append": _fail_next_append,
    "hold-appends": _hold_appends,
    "release-appends": _release_appends,
    "fail-appends": _fail_appends,
    "hold-state": _hold_state,
    "answer-state": _answer_state,
    "unload": _unload,
    "load": _load,
    "begin-load": _begin_load,
    "finish-load": _finish_load,
    "record": _record,
    "compact": _compact,
    "marker": _marker,
    "log": _log,
    "state": _state,
    "timers": _timers,
}
