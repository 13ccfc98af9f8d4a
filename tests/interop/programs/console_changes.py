"""The console changes a broker of ours, or Kafka: each verb, its preview, effect and refusals.

A preview changes nothing; carrying it out does what it said, and so does its command line. What is
refused is refused in the preview, with the error that this broker gives.
"""

import time
from typing import Any

import confluent_kafka
from confluent_kafka.admin import AdminClient

from coterie.client.configs import describe_settings
from coterie.client.groups import describe_groups
from coterie.client.topics import describe_topics
from tests.console.changing import AnyChanging, Row, console_of
from tests.interop.model import Failed, Surroundings
from tests.live.records import produce, read_partition
from tests.unit.cli.live_member import join, leave

_LIMIT_S = 120.0
# Of a reset, with a value; what is committed before is 4 and 5, of ten records each.
_RULES = (
    ("earliest", None, [0, 0]), ("latest", None, [10, 10]), ("current", None, [4, 5]),
    ("offset", "7", [7, 7]), ("shift", "-2", [2, 3]),
    ("datetime", "2020-01-01T00:00:00.000", [0, 0]), ("duration", "PT1H", [0, 0]),
    ("group", "", [8, 9]),
)  # fmt: skip


def run(around: Surroundings) -> None:
    """Make each change.

    Raises:
        Failed: a preview says something else than what happens.
    """
    with console_of(around.bootstrap) as (console, cluster):
        changing = AnyChanging(around.bootstrap, console, cluster)
        for each in (_topics, _records, _settings, _offsets, _groups, _members, _transactions):
            each(around, changing)


def _topics(around: Surroundings, changing: AnyChanging) -> None:
    name = around.name("made")
    fields = {"topic": name, "partitions": 2, "configs": {"retention.ms": "60000"}}
    shown = changing.preview("create-topic", **fields)
    _same("a preview creates nothing", _exists(changing, name), wanted=False)
    _same("created", _carried(changing, shown)[0]["created"], wanted=True)
    _until("the topic exists", lambda: _exists(changing, name))
    _refused(changing.preview("create-topic", **fields), "TOPIC_ALREADY_EXISTS")
    for wrong, error in (
        ({"topic": "a/b"}, "INVALID_TOPIC_EXCEPTION"),
        ({"topic": around.name("few"), "replication_factor": 30}, "INVALID_REPLICATION_FACTOR"),
        ({"topic": around.name("odd"), "configs": {"no.such": "1"}}, "INVALID_CONFIG"),
    ):
        _refused(changing.preview("create-topic", **wrong), error)
    produce(around.bootstrap, name, [(b"k", b"v")] * 3)
    reader = around.name("reader")
    changing.commit(reader, 1, topic=name)
    shown = changing.preview("delete-topics", topics=[name, around.name("nothing")])
    row = shown["rows"][0]
    _same("what is lost", [row["records"], row["groups"]], [3, [reader]])
    _same("refused", len(shown["refused"]), 1)
    _same("deleted", _carried(changing, shown, name)[0]["deleted"], wanted=True)
    _until("the topic is gone", lambda: not _exists(changing, name))
    _recreated(changing, name)


def _recreated(changing: AnyChanging, name: str) -> None:
    """Create and delete a topic by the command lines of their previews."""
    _until(
        "the name is free",
        lambda: changing.preview("create-topic", topic=name, partitions=1)["token"] is not None,
    )
    changing.command(changing.preview("create-topic", topic=name, partitions=1))
    _until("the topic exists again", lambda: _exists(changing, name))
    changing.command(changing.preview("delete-topics", topics=[name]))
    _until("the topic is gone again", lambda: not _exists(changing, name))


def _records(around: Surroundings, changing: AnyChanging) -> None:
    topic = around.name("orders")
    _made(changing, topic)
    fields = {"topic": topic, "partition": 1, "headers": {"source": "console"}}
    given = {"key": "00ff", "key_format": "hex", "value": '{"a": 1}', "value_format": "json"}
    shown = changing.preview("produce", **fields, **given)
    _same("a preview produces nothing", read_partition(around.bootstrap, topic, 1, 0), [])
    _same("offset", _carried(changing, shown)[0]["offset"], 0)
    changing.command(shown)
    rows = [(each.key, each.value) for each in read_partition(around.bootstrap, topic, 1)]
    _same("records", rows, [(b"\x00\xff", b'{"a": 1}')] * 2)
    _refused(changing.preview("produce", topic=topic, partition=9, value="x"), "they are 0 to 1")
    absent = around.name("absent")
    _refused(changing.preview("produce", topic=absent, value="x"), "UNKNOWN_TOPIC_OR_PARTITION")
    _same("no preview makes a topic", _exists(changing, absent), wanted=False)


def _settings(around: Surroundings, changing: AnyChanging) -> None:
    topic = around.name("orders")
    node = str(changing.cluster.brokers()[0].node_id)
    for kind, name, key, value, source in (
        ("topics", topic, "max.message.bytes", "60000", "topic"),
        ("topics", topic, "retention.ms", "60000", "topic"),
        ("brokers", node, "log.retention.ms", "70000", "broker"),
        ("groups", around.name("billing"), "consumer.session.timeout.ms", "46000", "group"),
    ):
        shown = changing.preview("alter-settings", kind=kind, name=name, set={key: value})
        row = shown["rows"][0]
        before = _setting(changing, kind, name, key)
        _same(f"{key} before", [row["value"], row["source"]], before)
        _same(f"{key} new", [row["new_value"], row["new_source"]], [value, source])
        _same(f"{key} altered", _carried(changing, shown)[0]["altered"], wanted=True)
        _until(
            f"{key} is altered",
            lambda k=kind, n=name, y=key, w=[value, source]: _setting(changing, k, n, y) == w,
        )
        back = changing.preview("alter-settings", kind=kind, name=name, delete=[key])
        row = back["rows"][0]
        _same(f"{key} to delete", [row["value"], row["source"]], [value, source])
        changing.command(back)
        _until(
            f"{key} is deleted",
            lambda k=kind, n=name, y=key, w=before: _setting(changing, k, n, y) == w,
        )
    for wrong in ({"retention.ms": "soon"}, {"no.such": "1"}):
        shown = changing.preview("alter-settings", kind="topics", name=topic, set=wrong)
        _same(f"token for {wrong}", shown["token"], None)
        _same(f"refused {wrong}", len(shown["refused"]), 1)


def _offsets(around: Surroundings, changing: AnyChanging) -> None:
    topic = around.name("counted")
    _made(changing, topic)
    for index in range(2):
        for number in range(10):
            fields = {"topic": topic, "partition": index, "value": str(number)}
            _carried(changing, changing.preview("produce", **fields))
    model = around.name("model")
    changing.commit(model, 8, 9, topic=topic)
    for to, value, new in _RULES:
        group = around.name(f"reset-{to}")
        changing.commit(group, 4, 5, topic=topic)
        given = {"value": model if to == "group" else value} if value is not None else {}
        shown = changing.preview("reset-offsets", group=group, to=to, **given)
        _same(f"{to}: shown", [row["new_offset"] for row in shown["rows"]], new)
        _same(f"{to}: before", list(changing.committed(group).values()), [4, 5])
        _carried(changing, shown)
        _same(f"{to}: after", list(changing.committed(group).values()), new)
        changing.commit(group, 4, 5, topic=topic)
        changing.command(shown)
        _same(f"{to}: by the command", list(changing.committed(group).values()), new)
    moved = changing.preview("reset-offsets", group=model, to="earliest")
    changing.commit(model, 6, topic=topic)
    done = changing.carry_out(moved)
    _same("offsets have moved", done["carried_out"], wanted=False)
    shown = changing.preview("delete-offsets", group=model, topics=[f"{topic}:1"])
    _same("deleted", _carried(changing, shown, model)[0]["deleted"], wanted=True)
    _same("left", changing.committed(model), {(topic, 0): 6})
    _refused(
        changing.preview("delete-offsets", group=model, topics=[f"{topic}:1"]),
        "Nothing is committed",
    )


def _groups(around: Surroundings, changing: AnyChanging) -> None:
    topic = around.name("counted")
    old, busy = around.name("old"), around.name("busy")
    for by_command in (False, True):
        changing.commit(old, 4, 5, topic=topic)
        shown = changing.preview("delete-groups", groups=[old, around.name("nobody")])
        _same("refused", len(shown["refused"]), 1)
        if by_command:
            changing.command(shown)
        else:
            _same("deleted", _carried(changing, shown, old)[0]["deleted"], wanted=True)
        _same("gone", describe_groups(changing.cluster, [old])[old].exists, wanted=False)
    changing.commit(busy, 4, 5, topic=topic)
    deletion = changing.preview("delete-groups", groups=[busy])
    reset = changing.preview("reset-offsets", group=busy, to="earliest")
    owned: Any = {"group_id": busy, topic: [0, 1]}
    member_id = join(changing.cluster, **owned)
    for shown, confirm in ((reset, None), (deletion, busy)):
        done = changing.carry_out(shown, confirm)
        _same("a member has joined", done["carried_out"], wanted=False)
        _refused(done["preview"], "1 member")
    _refused(changing.preview("delete-offsets", group=busy, topics=[topic]), "still subscribed")
    leave(changing.cluster, member_id, group_id=busy)


def _members(around: Surroundings, changing: AnyChanging) -> None:
    group, topic = around.name("crowd"), around.name("counted")
    for by_command, instance in ((False, None), (True, None), (False, "static")):
        owned: Any = {"instance": instance, "group_id": group, topic: [0, 1]}
        member_id = join(changing.cluster, **owned)
        shown = changing.preview("expel-members", group=group, members=[member_id, "x"])
        _same("partitions", shown["rows"][0]["partition_count"], 2)
        _same("refused", [each["subject"] for each in shown["refused"]], ["x"])
        if by_command:
            changing.command(shown)
        else:
            _same("removed", _carried(changing, shown)[0]["removed"], wanted=True)
        _same("members", describe_groups(changing.cluster, [group])[group].members, [])


def _transactions(around: Surroundings, changing: AnyChanging) -> None:
    topic, name = around.name("paid"), around.name("pay")
    _made(changing, topic)
    _refused(
        changing.preview("abort-transaction", transactional_id=around.name("nobody")),
        "TRANSACTIONAL_ID_NOT_FOUND",
    )
    config = {"bootstrap.servers": around.bootstrap, "transactional.id": name, "log_level": 2}
    for by_command in (False, True):
        producer = confluent_kafka.Producer(config)
        producer.init_transactions(_LIMIT_S)
        producer.begin_transaction()
        producer.produce(topic, b"open", partition=0)
        producer.flush(_LIMIT_S)
        shown = changing.preview("abort-transaction", transactional_id=name)
        row = shown["rows"][0]
        _same("transaction", [row["state"], row["partitions"]], ["Ongoing", {topic: [0]}])
        if by_command:
            changing.command(shown)
        else:
            _same("was open", _carried(changing, shown)[0]["was_open"], wanted=True)
        try:
            producer.commit_transaction(_LIMIT_S)
        except confluent_kafka.KafkaException:
            pass
        else:
            raise Failed("the producer was not fenced")
    fields = {"topic": topic, "partition": 0, "start_offset": 999}
    _refused(changing.preview("abort-hanging-transaction", **fields), "No transaction is open")
    _hanging(around, changing, topic)


def _hanging(around: Surroundings, changing: AnyChanging, topic: str) -> None:
    """Abort the part of an open transaction in a partition, as if its coordinator had lost it."""
    name = around.name("hangs")
    config = {"bootstrap.servers": around.bootstrap, "transactional.id": name, "log_level": 2}
    producer = confluent_kafka.Producer(config)
    producer.init_transactions(_LIMIT_S)
    producer.begin_transaction()
    delivered: list[Any] = []
    producer.produce(
        topic, b"open", partition=1, on_delivery=lambda _, each: delivered.append(each)
    )
    producer.flush(_LIMIT_S)
    fields = {"topic": topic, "partition": 1, "start_offset": delivered[0].offset()}
    shown = changing.preview("abort-hanging-transaction", **fields)
    _same("confirm", shown["confirm"], f"{topic}-1")
    _same("aborted", _carried(changing, shown, f"{topic}-1")[0]["aborted"], wanted=True)
    _refused(changing.preview("abort-hanging-transaction", **fields), "No transaction is open")
    admin = AdminClient({"bootstrap.servers": around.bootstrap})
    admin.delete_topics([topic])[topic].result()


def _made(changing: AnyChanging, topic: str) -> None:
    _carried(changing, changing.preview("create-topic", topic=topic, partitions=2))
    _until(f"{topic} exists", lambda: _exists(changing, topic))


def _exists(changing: AnyChanging, topic: str) -> bool:
    (found,) = describe_topics(changing.cluster, [topic])
    return not found.error and all(each.leader is not None for each in found.partitions)


def _setting(changing: AnyChanging, kind: str, name: str, key: str) -> list[str | None]:
    (described,) = describe_settings(changing.cluster, kind, [name], [key])
    (found,) = described.settings
    return [found.value, found.source]


def _carried(changing: AnyChanging, shown: Row, confirm: str | None = None) -> list[Row]:
    if shown["token"] is None:
        raise Failed(f"{shown['title']}: refused: {shown['refused']}")
    done = changing.carry_out(shown, confirm)
    _same(f"{shown['title']}: carried out", done["carried_out"], wanted=True)
    rows: list[Row] = done["rows"]
    return rows


def _refused(shown: Row, text: str) -> None:
    causes = " ".join(each["cause"] for each in shown["refused"])
    if shown["token"] is not None or text not in causes:
        raise Failed(f"{shown['title']}: '{text}' is wanted, not '{causes}'")


def _same(what: str, found: Any, wanted: Any) -> None:
    if found != wanted:
        raise Failed(f"{what}: {found}, and it should be {wanted}")


def _until(what: str, holds: Any) -> None:
    give_up_s = time.monotonic() + _LIMIT_S
    while not holds():
        if time.monotonic() > give_up_s:
            raise Failed(f"not within {_LIMIT_S:.0f} s: {what}")
        time.sleep(0.1)
