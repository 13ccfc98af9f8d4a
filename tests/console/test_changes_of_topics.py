"""Changes of topics, records, settings and transactions in a console."""

from collections.abc import Iterator
from typing import Any

import confluent_kafka
import pytest

from coterie.client.configs import describe_settings
from tests.console.changing import Changing, changing_console, refused
from tests.unit.cli.live_member import join, leave


@pytest.fixture(scope="module")
def changing() -> Iterator[Changing]:
    """A console of a broker with a topic."""
    with changing_console(orders=2) as running:
        yield running


# --- topics ---------------------------------------------------------------------------------------


def test_topic_is_created(changing: Changing) -> None:
    fields = {"topic": "new", "partitions": 3, "configs": {"retention.ms": "60000"}}
    shown = changing.preview("create-topic", **fields)
    assert "new" not in changing.kafka.topics
    assert shown["rows"][0]["partition_count"] == 3
    assert changing.carry_out(shown)["rows"] == [{"topic": "new", "created": True, "error": None}]
    assert changing.kafka.topics["new"] == 3
    changing.kafka.delete_topic("new")
    changing.command(shown)
    assert changing.kafka.topics["new"] == 3
    again = changing.preview("create-topic", **fields)
    assert again["token"] is None
    assert "TOPIC_ALREADY_EXISTS" in again["refused"][0]["cause"]


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"topic": "a/b"}, "INVALID_TOPIC_EXCEPTION"),
        ({"topic": "few", "replication_factor": 3}, "INVALID_REPLICATION_FACTOR"),
        ({"topic": "odd", "configs": {"no.such": "1"}}, "INVALID_CONFIG"),
    ],
)
def test_topic_that_the_broker_refuses(changing: Changing, fields: Any, text: str) -> None:
    shown = changing.preview("create-topic", **fields)
    assert shown["token"] is None
    assert text in shown["refused"][0]["cause"]


def test_topics_are_deleted_with_what_is_lost(changing: Changing) -> None:
    changing.kafka.topic("lost", partitions=2, records=["a", "b", "c"])
    changing.commit("reader", 1, topic="lost")
    member_id = join(changing.cluster, group_id="subscriber", lost=[0, 1])
    shown = changing.preview("delete-topics", topics=["lost", "nothing", "__consumer_offsets"])
    (row,) = shown["rows"]
    assert (row["partition_count"], row["records"]) == (2, 3)
    assert row["groups"] == ["reader", "subscriber"]
    (lost,) = shown["warnings"]
    assert lost == "lost: 2 partitions with 3 records, which reader, subscriber read."
    assert [each["subject"] for each in shown["refused"]] == ["nothing", "__consumer_offsets"]
    refused(changing.asked("delete-topics", {"token": shown["token"]}), 400, "confirm")
    # Another group reads it now: what is lost is not what was shown.
    changing.commit("late", 1, topic="lost")
    done = changing.carry_out(shown, "lost")
    assert not done["carried_out"]
    assert "lost" in changing.kafka.topics
    done = changing.carry_out(done["preview"], "lost")
    assert done["rows"] == [{"topic": "lost", "deleted": True, "error": None}]
    assert "lost" not in changing.kafka.topics
    leave(changing.cluster, member_id, group_id="subscriber")


# --- records --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "key", "value"),
    [
        ({"value": "latté"}, None, "latté".encode()),
        ({"key": "k", "value": "v"}, b"k", b"v"),
        ({"key": "00ff", "key_format": "hex", "value": '{"a": 1}', "value_format": "json"},
         b"\x00\xff", b'{"a": 1}'),
        ({"key": "k", "value_format": "null"}, b"k", None),
        ({"key": "", "value": ""}, b"", b""),
        ({"key": "-k", "value": "--value=v\n"}, b"-k", b"--value=v\n"),
    ],
)  # fmt: skip
def test_record_is_produced(
    changing: Changing, fields: Any, key: bytes | None, value: bytes | None
) -> None:
    headers = {"source": "console"}
    shown = changing.preview("produce", topic="orders", partition=1, headers=headers, **fields)
    before = changing.kafka.records("orders", partition=1)
    (done,) = changing.carry_out(shown)["rows"]
    # The command line does the same.
    changing.command(shown)
    record, other = changing.kafka.records("orders", partition=1)[len(before) :]
    assert (record.key, record.value, record.offset) == (key, value, done["offset"])
    assert record.headers == (("source", b"console"),)
    assert (other.key, other.value, other.headers) == (key, value, record.headers)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"value": "{", "value_format": "json"}, "value: no json"),
        ({"value": "xyz", "value_format": "hex"}, "value: no hex"),
        ({"value": "x", "value_format": "avro"}, "value_format: one of"),
        ({"headers": {"a": 1}}, "headers.a: text"),
        ({"partition": -1}, "partition: -1"),
    ],
)
def test_wrong_record(changing: Changing, fields: Any, text: str) -> None:
    refused(changing.asked("produce/preview", {"topic": "orders", **fields}), 400, text)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"topic": "nothing"}, "UNKNOWN_TOPIC_OR_PARTITION"),
        ({"topic": "orders", "partition": 2}, "they are 0 to 1"),
        ({"topic": "__consumer_offsets"}, "Only the broker"),
    ],
)
def test_record_for_nowhere(changing: Changing, fields: Any, text: str) -> None:
    changing.commit("makes the topic of offsets", 0)
    shown = changing.preview("produce", value="x", **fields)
    assert shown["token"] is None
    assert text in shown["refused"][0]["cause"]


# --- settings -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "name", "key", "value", "source", "default"),
    [
        ("topics", "orders", "max.message.bytes", "60000", "topic", "1048588"),
        # The broker's setting is in hours.
        ("topics", "orders", "retention.ms", "60000", "topic", None),
        ("brokers", "1", "log.retention.ms", "70000", "broker", None),
        ("groups", "billing", "consumer.session.timeout.ms", "46000", "group", "6000"),
    ],
)
def test_settings_are_altered(
    changing: Changing,
    kind: str,
    name: str,
    key: str,
    value: str,
    source: str,
    default: str | None,
) -> None:
    shown = changing.preview("alter-settings", kind=kind, name=name, set={key: value})
    (row,) = shown["rows"]
    old = row["value"]
    assert (row["key"], row["new_value"], row["new_source"]) == (key, value, source)
    assert row["source"] != source
    assert changing.carry_out(shown)["rows"][0]["altered"]
    assert setting(changing, kind, name, key) == (value, source)
    back = changing.preview("alter-settings", kind=kind, name=name, delete=[key])
    (row,) = back["rows"]
    assert (row["value"], row["source"], row["new_value"]) == (value, source, default)
    changing.command(back)
    assert setting(changing, kind, name, key)[0] == old
    # The setting has changed since the preview.
    assert not changing.carry_out(back)["carried_out"]


def setting(changing: Changing, kind: str, name: str, key: str) -> tuple[str | None, str | None]:
    (described,) = describe_settings(changing.cluster, kind, [name], [key])
    (found,) = described.settings
    return found.value, found.source


def test_wrong_settings(changing: Changing) -> None:
    fields = {"kind": "topics", "name": "orders"}
    shown = changing.preview("alter-settings", **fields, set={"retention.ms": "soon"})
    assert shown["token"] is None
    assert "INVALID_CONFIG" in shown["refused"][0]["cause"]
    shown = changing.preview("alter-settings", **fields, set={"no.such": "1"})
    assert shown["token"] is None
    refused(changing.asked("alter-settings/preview", fields), 400, "at least one")
    both = {"set": {"a": "1"}, "delete": ["a"]}
    refused(changing.asked("alter-settings/preview", {**fields, **both}), 400, "a is set, too")


# --- transactions ---------------------------------------------------------------------------------


def test_transactions_are_aborted(changing: Changing) -> None:
    config = {
        "bootstrap.servers": changing.kafka.bootstrap_servers,
        "transactional.id": "pay",
        "log_level": 2,
    }
    producer = confluent_kafka.Producer(config)
    producer.init_transactions()
    none_open = changing.preview("abort-transaction", transactional_id="pay")
    assert none_open["token"] is None
    producer.begin_transaction()
    producer.produce("orders", b"open", partition=0)
    producer.flush()
    shown = changing.preview("abort-transaction", transactional_id="pay")
    (row,) = shown["rows"]
    assert (row["state"], row["partitions"]) == ("Ongoing", {"orders": [0]})
    assert changing.carry_out(shown)["rows"][0]["was_open"]
    with pytest.raises(confluent_kafka.KafkaException):
        producer.commit_transaction()


def test_open_transaction_is_aborted_in_its_partition(changing: Changing) -> None:
    changing.kafka.topic("hanging", partitions=1)
    config = {
        "bootstrap.servers": changing.kafka.bootstrap_servers,
        "transactional.id": "hangs",
        "log_level": 2,
    }
    producer = confluent_kafka.Producer(config)
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce("hanging", b"open", partition=0)
    producer.flush()
    fields = {"topic": "hanging", "partition": 0}
    nothing = changing.preview("abort-hanging-transaction", **fields, start_offset=7)
    assert (nothing["token"], nothing["rows"]) == (None, [])
    shown = changing.preview("abort-hanging-transaction", **fields, start_offset=0)
    assert shown["confirm"] == "hanging-0"
    assert changing.carry_out(shown, "hanging-0")["rows"][0]["aborted"]
    after = changing.preview("abort-hanging-transaction", **fields, start_offset=0)
    assert after["token"] is None


def test_unknown_transactional_id(changing: Changing) -> None:
    shown = changing.preview("abort-transaction", transactional_id="nobody")
    assert shown["token"] is None
    assert "TRANSACTIONAL_ID_NOT_FOUND" in shown["refused"][0]["cause"]
