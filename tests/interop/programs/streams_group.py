"""Kafka Streams counts words exactly once in a streams group (KIP-1071): instances come and go.

`group.protocol=streams` and `processing.guarantee=exactly_once_v2`. A second instance joins, the
first leaves and comes back, the second is killed, and so is the broker. The broker creates the
internal topics and assigns the tasks; it keeps a standby task of each if it is ours. What
`streams` checks is checked here too.
"""

from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from coterie.processes import Child
from tests.interop.model import Failed, Surroundings
from tests.interop.programs import streams
from tests.interop.programs.streams import Counting, WordCount

CONFIG = {
    **streams.CONFIG,
    "group.streams.min.session.timeout.ms": "6000",
    "group.streams.session.timeout.ms": "6000",
    "group.streams.min.heartbeat.interval.ms": "1000",
    "group.streams.heartbeat.interval.ms": "1000",
    "group.streams.num.standby.replicas": "1",
}
_LIMIT_S = 90.0
# What Kafka Streams wants of its internal topics, by the ends of their names.
_CLEANUP = {"-changelog": "compact", "-repartition": "delete"}


def run(around: Surroundings) -> None:
    """Count words while instances come and go."""
    counting = Counting(around)
    application = WordCount(around, counting, around.bootstrap, {"group.protocol": "streams"})
    counting.feed(500)
    first = application.start("first")
    _wait_until_it_runs(first)
    counting.wait(missing=1000)
    second = application.start("second")
    counting.feed(300)
    _wait_until_it_runs(second)
    counting.wait(missing=500)
    first.end()
    counting.feed(300)
    counting.wait(missing=500)
    first = application.start("first")
    _wait_until_it_runs(first)
    second.kill()
    counting.feed(300)
    counting.wait(missing=500)
    if around.owns_broker:
        around.kill_broker()
    counting.feed(300)
    counting.wait(missing=0)
    counting.check()
    _check_internal_topics(around.bootstrap, application.name)
    around.note(f"{counting.expected.total()} words, counted once")


def _wait_until_it_runs(instance: Child) -> None:
    instance.wait_for_line("state RUNNING", _LIMIT_S)


def _check_internal_topics(bootstrap: str, application: str) -> None:
    """Check that the internal topics have the partitions of the input, and their settings."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = admin.list_topics(timeout=_LIMIT_S).topics
    internal = {name: each for name, each in topics.items() if name.startswith(f"{application}-")}
    found = {end: name for end in _CLEANUP for name in internal if name.endswith(end)}
    if len(found) != len(_CLEANUP) or len(internal) != len(_CLEANUP):
        raise Failed(f"the internal topics are {sorted(internal)}")
    for end, name in found.items():
        resource = ConfigResource(ResourceType.TOPIC, name)
        settings = admin.describe_configs([resource])[resource].result(_LIMIT_S)
        cleanup, partitions = settings["cleanup.policy"].value, len(internal[name].partitions)
        if (cleanup, partitions) != (_CLEANUP[end], streams.PARTITIONS):
            raise Failed(f"{name} has {partitions} partitions and the cleanup policy {cleanup}")
