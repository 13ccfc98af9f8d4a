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
BROKERS = suite.BROKERS
# Many tests have deadlines that a loaded machine misses.
_PATIENCE = 3.0
# Its stress test now and then waits for a member that does not say that it never took partitions
# (docs/clients.md); the quick mode leaves it out.
_WITH_STRESS = "0113"


def run(around: Surroundings) -> None:
    """Run the tests."""
    choices = [
        suite.Choice(number, is_quick=number == _WITH_STRESS)
        for number in suite.sources("subscribe(")
    ]
    suite.run_suite(around, "consumer", choices, suite.EXPLAINED, _PATIENCE)
