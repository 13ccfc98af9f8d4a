"""Commands that are no requests: time passes, the server restarts, the disk fails, somebody looks.

One function a command; each is given the broker and the words behind the command's name. Those that
break or show what no client can reach make a file one that `needs: core`.
"""

from collections.abc import Callable

from coterie.conformance.core_broker import START_MS, CoreBroker, Seen
from coterie.conformance.core_lines import record_text, state_text, timer_texts
from coterie.conformance.transcript import TranscriptError
from coterie.conformance.words import Words, duration_ms, unquoted
from coterie.protocol.errors import ErrorCode

Stage = Callable[[CoreBroker, Words], list[Seen]]


def _tick(broker: CoreBroker, words: Words) -> list[Seen]:
    (duration,) = words.bare
    return broker.tick(duration_ms(duration))


def _config(broker: CoreBroker, words: Words) -> list[Seen]:
    """`config group.max.size=2`: from now on; a broker over TCP is started with it."""
    for setting in words.bare:
        name, _, value = setting.partition("=")
        field, number = _CONFIG_FIELDS.get(name, name.replace(".", "_")), duration_or_number(value)
        if name == "offsets.retention.minutes":
            number *= 60_000
        if field not in broker.config._fields:
            raise TranscriptError(f"no setting is called {name}")
        broker.config = broker.config._replace(**{field: number})
    broker.coordinator.config = broker.config
    for shard in broker.coordinator.shards:
        shard.config = broker.config
    return []


_CONFIG_FIELDS = {
    "offset.metadata.max.bytes": "offset_metadata_max_size",
    "offsets.retention.minutes": "offsets_retention_ms",
}


def duration_or_number(text: str) -> int:
    """The value of a setting: a plain number, or a duration in milliseconds."""
    return int(text) if text.lstrip("-").isdigit() else duration_ms(text)


def _hangs_up(broker: CoreBroker, words: Words) -> list[Seen]:
    """`hangs-up c1`: its connection is closed; the coordinator is not told."""
    for client in words.bare:
        for pending in broker.waiting:
            if pending.client == client:
                pending.gone = True
    return []


def _topic_deleted(broker: CoreBroker, words: Words) -> list[Seen]:
    topics = [(topic, broker.names.forget_topic(topic)) for topic in words.bare]
    return broker.carry_out(broker.coordinator.topics_deleted(topics, broker.now_ms))


def _topic_forgotten(broker: CoreBroker, words: Words) -> list[Seen]:
    """`topic-forgotten T`: deleted and made again, and the coordinator has not heard of it yet."""
    for topic in words.bare:
        broker.names.forget_topic(topic)
    return []


def _restart(broker: CoreBroker, _words: Words) -> list[Seen]:
    return broker.restart()


def _fsync_fails(broker: CoreBroker, words: Words) -> list[Seen]:
    """`fsync-fails [ERROR]`: the next append fails with it, KAFKA_STORAGE_ERROR if not said."""
    broker.failing = ErrorCode[words.bare[0]] if words.bare else ErrorCode.KAFKA_STORAGE_ERROR
    return []


def _hold_appends(broker: CoreBroker, _words: Words) -> list[Seen]:
    broker.holding = True
    return []


def _release_appends(broker: CoreBroker, words: Words) -> list[Seen]:
    """`release-appends [N]`: the oldest N become durable; without N all, and none is held again."""
    count = int(words.bare[0]) if words.bare else len(broker.held)
    released, broker.held = broker.held[:count], broker.held[count:]
    if not words.bare:
        broker.holding = False
    return broker.acknowledge(released) + broker.due()


def _fail_appends(broker: CoreBroker, words: Words) -> list[Seen]:
    """`fail-appends ERROR`: everything held fails; nothing is held from now on."""
    held, broker.held, broker.holding = broker.held, [], False
    seen: list[Seen] = []
    for partition in dict.fromkeys(append.partition for append in held):
        effects = broker.coordinator.append_failed(
            partition, ErrorCode[words.bare[0]], broker.now_ms
        )
        seen += broker.carry_out(effects)
    return seen + broker.due()


def _unload(broker: CoreBroker, words: Words) -> list[Seen]:
    """`unload GROUP [epoch=N]`: the partition of the group moves away."""
    epoch = words.take("epoch", "")
    partition = broker.coordinator.partition_for(words.bare[0])
    broker.held = [append for append in broker.held if append.partition != partition]
    return broker.carry_out(
        broker.coordinator.unload(partition, int(epoch) if epoch else None, broker.now_ms)
    )


def _begin_load(broker: CoreBroker, words: Words) -> list[Seen]:
    """`begin-load GROUP epoch=N`: the partition of the group comes back, its log is read."""
    partition = broker.coordinator.partition_for(words.bare[0])
    if not broker.coordinator.begin_load(partition, int(words.take("epoch", "1"))):
        return [Seen([f"log+ not loaded: the epoch is not newer, partition {partition}"])]
    for key, value in broker.log.get(partition, []):
        broker.coordinator.replay(partition, key, value)
    return []


def _finish_load(broker: CoreBroker, words: Words) -> list[Seen]:
    partition = broker.coordinator.partition_for(words.bare[0])
    return broker.carry_out(broker.coordinator.finish_load(partition, broker.now_ms))


def _load(broker: CoreBroker, words: Words) -> list[Seen]:
    """`load GROUP epoch=N`: both at once."""
    seen = _begin_load(broker, words)
    return seen or _finish_load(broker, words)


def _record(broker: CoreBroker, words: Words) -> list[Seen]:
    """`record GROUP key=HEX value=HEX|null`: bytes that another broker wrote, read at a restart."""
    partition = broker.coordinator.partition_for(words.bare[0])
    key = bytes.fromhex(words.take("key", ""))
    text = words.take("value", "null")
    value = None if text == "null" else bytes.fromhex(text)
    broker.log.setdefault(partition, []).append((key, value))
    return [Seen([f"log+ {record_text(key, value, START_MS)}"])]


def _compact(broker: CoreBroker, words: Words) -> list[Seen]:
    """`compact GROUP`: keep the last record of each key, in order."""
    partition = broker.coordinator.partition_for(words.bare[0])
    latest = {key: at for at, (key, _) in enumerate(broker.log.get(partition, []))}
    broker.log[partition] = [
        record for at, record in enumerate(broker.log.get(partition, [])) if latest[record[0]] == at
    ]
    return []


def _log(broker: CoreBroker, words: Words) -> list[Seen]:
    """`log GROUP`: what stands in the log of the group's partition."""
    partition = broker.coordinator.partition_for(words.bare[0])
    records = broker.log.get(partition, [])
    return [
        Seen([f"log {number} {record_text(key, value, START_MS)}"])
        for number, (key, value) in enumerate(records)
    ]


def _state(broker: CoreBroker, words: Words) -> list[Seen]:
    (group,) = map(unquoted, words.bare)
    return [Seen([state_text(group, broker.coordinator.group(group))])]


def _timers(broker: CoreBroker, words: Words) -> list[Seen]:
    (group,) = words.bare
    coordinator = broker.coordinator
    return [Seen(timer_texts(group, coordinator.group(group), coordinator.purgatory, START_MS))]


# What a driver for a running broker can do too; the rest makes a file need the core.
SHARED = frozenset({"tick", "config", "hangs-up", "topic-deleted", "given"})

# Looks at the core and changes nothing: a driver for a broker passes over these.
LOOKS = frozenset({"log", "state", "timers"})

STAGE: dict[str, Stage] = {
    "tick": _tick,
    "config": _config,
    "hangs-up": _hangs_up,
    "topic-deleted": _topic_deleted,
    "topic-forgotten": _topic_forgotten,
    "restart": _restart,
    "crash": _restart,
    "fsync-fails": _fsync_fails,
    "hold-appends": _hold_appends,
    "release-appends": _release_appends,
    "fail-appends": _fail_appends,
    "unload": _unload,
    "load": _load,
    "begin-load": _begin_load,
    "finish-load": _finish_load,
    "record": _record,
    "compact": _compact,
    "log": _log,
    "state": _state,
    "timers": _timers,
}
