"""Settings that clients notice; each test starts a broker of its own."""

import time
from collections.abc import Callable

import confluent_kafka
import kafka
import kafka.admin
import pytest
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
)

from tests.live import libraries
from tests.live.broker_process import OUR_MIN_SESSION_MS, BrokerProcess
from tests.live.conftest import create_topic
from tests.live.deadlines import eventually
from tests.live.group_log import GroupLog
from tests.live.groups import GroupView
from tests.live.members import Members, wait_assigned

# On a busy machine each of three members that are ready to join may need seconds for it.
DELAY_S = 5.0
LIMIT_S = 30.0


@pytest.fixture
def start_members(request: pytest.FixtureRequest) -> Callable[[BrokerProcess], Members]:
    """A function that returns the members of a broker, which are ended with the test."""

    def start(server: BrokerProcess) -> Members:
        members = Members(server.bootstrap)
        request.addfinalizer(members.close)
        return members

    return start


def test_initial_rebalance_delay_gathers_members(
    start_broker: Callable[..., BrokerProcess],
    start_members: Callable[[BrokerProcess], Members],
    name: str,
) -> None:
    """With an initial delay, members that start together are in the first generation.

    It completes no earlier than the delay and has all three members. Without the delay there would
    be a generation for each member that joins. All processes run before the first member joins,
    because on a busy machine one of them may take longer to start than the delay.
    """
    delay = {"group.initial.rebalance.delay.ms": str(int(DELAY_S * 1000))}
    server = start_broker(delay)
    create_topic(server.bootstrap, name, 3)
    members = start_members(server)
    options = {"group": name, "topic": name, "join": "when-ordered"}
    three = [members.start(library, **options) for library in libraries.NAMES]
    for member in three:
        member.wait_for("ready")
    began = time.monotonic()
    for member in three:
        member.join()
    wait_assigned(three, name, 3)
    assert time.monotonic() - began > DELAY_S
    records = [record for record in GroupLog(server.bootstrap, name).groups() if record]
    with_members = [record for record in records if record.members]
    assert [record.generation for record in with_members] == [1]
    assert with_members[0].members.keys() == {member.member_id for member in three}


def test_group_max_size(
    start_broker: Callable[..., BrokerProcess],
    start_members: Callable[[BrokerProcess], Members],
    name: str,
) -> None:
    """With group.max.size=2 the third member gets GROUP_MAX_SIZE_REACHED; the others continue."""
    server = start_broker({"group.max.size": "2"})
    create_topic(server.bootstrap, name, 4)
    members = start_members(server)
    pair = [members.start(library, group=name, topic=name) for library in ("confluent", "aiokafka")]
    wait_assigned(pair, name, 4)
    generation = pair[0].generation
    third = members.start("kafka-python", group=name, topic=name)
    third.wait_for("error", code="GROUP_MAX_SIZE_REACHED")
    group = GroupView(server.bootstrap, name)
    assert group.member_ids() == {member.member_id for member in pair}
    assert pair[0].generation == generation


def test_session_timeout_out_of_bounds(
    start_broker: Callable[..., BrokerProcess],
    start_members: Callable[[BrokerProcess], Members],
    name: str,
) -> None:
    """A session timeout below the minimum or above the maximum is refused."""
    server = start_broker({"group.max.session.timeout.ms": "20000"})
    create_topic(server.bootstrap, name, 1)
    members = start_members(server)
    for session_timeout_ms in (OUR_MIN_SESSION_MS - 1, 20_001):
        member = members.start(
            "kafka-python",
            group=name,
            topic=name,
            session_timeout_ms=session_timeout_ms,
            heartbeat_interval_ms=100,
        )
        member.wait_for("error", code="INVALID_SESSION_TIMEOUT")
    fits = members.start("aiokafka", group=name, topic=name, session_timeout_ms=20_000)
    wait_assigned([fits], name, 1)


def test_no_automatic_topics(start_broker: Callable[..., BrokerProcess], name: str) -> None:
    """With auto.create.topics.enable=false neither producers nor consumers create a topic."""
    server = start_broker({"auto.create.topics.enable": "false"})
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": server.bootstrap, "topic.metadata.propagation.max.ms": 500}
    )
    errors: list[str] = []

    def delivered(error: confluent_kafka.KafkaError | None, _: confluent_kafka.Message) -> None:
        errors.append("" if error is None else error.name())

    producer.produce(name, b"lost", on_delivery=delivered)
    producer.flush(30)
    assert errors in (["UNKNOWN_TOPIC_OR_PART"], ["_UNKNOWN_TOPIC"])
    create_topic(server.bootstrap, f"{name}-made", 1)
    library = libraries.BY_NAME["aiokafka"]
    sent = library.produce(server.bootstrap, f"{name}-made", [libraries.Message(b"kept")])
    assert sent == [0]


def test_settings_without_effect_are_described(start_broker: Callable[..., BrokerProcess]) -> None:
    """Clients see every setting that Kafka has, with the address of the broker among them."""
    server = start_broker({"num.io.threads": "4", "zookeeper.connect": "localhost:2181"})
    resource = ConfigResource(ConfigResource.Type.BROKER, "1")
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    configs = admin.describe_configs([resource])[resource].result(LIMIT_S)
    assert configs["advertised.listeners"].value == f"PLAINTEXT://{server.bootstrap}"
    static, default = ConfigSource.STATIC_BROKER_CONFIG.value, ConfigSource.DEFAULT_CONFIG.value
    threads = configs["num.io.threads"]
    assert (threads.value, threads.source) == ("4", static)
    assert [each.value for each in threads.synonyms.values()] == ["8"]
    removed = configs["zookeeper.connect"]
    assert (removed.value, removed.is_sensitive, removed.source) == (None, True, static)
    assert (configs["log.retention.ms"].value, configs["log.retention.ms"].source) == (
        None,
        default,
    )
    admin = kafka.KafkaAdminClient(bootstrap_servers=server.bootstrap)
    try:
        broker = kafka.admin.ConfigResource(kafka.admin.ConfigResourceType.BROKER, "1")
        found = admin.describe_configs([broker], config_filter="all")["broker"]["1"]
    finally:
        admin.close()
    assert len(found) == len(configs) >= 340
    assert found["num.io.threads"]["value"] == "4"


def test_altered_settings_of_the_broker(
    start_broker: Callable[..., BrokerProcess], name: str
) -> None:
    """A topic follows the broker's altered settings, which survive a restart."""
    server = start_broker({})
    create_topic(server.bootstrap, name, 1)
    topic = ConfigResource(ConfigResource.Type.TOPIC, name)
    admin = AdminClient({"bootstrap.servers": server.bootstrap})

    def alter(operation: AlterConfigOpType, value: str | None) -> None:
        entry = ConfigEntry("log.retention.ms", value, incremental_operation=operation)
        change = ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=[entry])
        admin.incremental_alter_configs([change])[change].result(LIMIT_S)

    def retention() -> tuple[str, int]:
        entry = admin.describe_configs([topic])[topic].result(LIMIT_S)["retention.ms"]
        return entry.value, entry.source

    altered = ("43200000", ConfigSource.DYNAMIC_BROKER_CONFIG.value)
    alter(AlterConfigOpType.SET, "43200000")
    eventually(lambda: retention() == altered, "altered", evidence=retention)
    server.stop()
    server.start()
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    assert retention() == altered
    alter(AlterConfigOpType.DELETE, None)
    default = ("604800000", ConfigSource.DEFAULT_CONFIG.value)
    eventually(lambda: retention() == default, "deleted", evidence=retention)
