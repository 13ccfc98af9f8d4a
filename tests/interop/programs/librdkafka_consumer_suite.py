"""librdkafka's own tests of consumers pass with the consumer protocol (KIP-848).

The suite is that of `librdkafka_suite`: all tests that subscribe, whole and not in the quick mode,
in which most of these have nothing left. A consumer without `group.protocol` gets "consumer"; tests
of the classic protocol alone leave themselves out.
"""

from tests.interop.model import Surroundings
from tests.interop.programs import librdkafka_suite as suite

# The suite expects each change to be assigned with the next heartbeat, as it was up to Kafka 4.2,
# and a member without a heartbeat to be removed after 6 s. With heartbeats of 5 s some tests take
# longer than they may.
CONFIG = {
    **suite.CONFIG,
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.min.heartbeat.interval.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.consumer.min.session.timeout.ms": "6000",
    "group.consumer.session.timeout.ms": "6000",
}
# The largest test takes as long as it may on a machine without other work.
_PATIENCE = 3.0


def run(around: Surroundings) -> None:
    """Run the tests."""
    choices = [suite.Choice(number, is_quick=False) for number in suite.sources("subscribe(")]
    suite.run_suite(around, "consumer", choices, suite.EXPLAINED, _PATIENCE)
