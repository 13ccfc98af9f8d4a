"""The client libraries of Python, against Coterie or Kafka."""

import json
import sys
from importlib.metadata import version

from coterie.client.cluster import Cluster
from coterie.client.connection import Deadline
from coterie.client.errors import VersionUnsupported
from coterie.lab.errors import WrongInput
from coterie.lab.live.clients import PROCESS_STEPS, LiveClient, LiveRun, MemberProcess, need_module
from coterie.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest

_KIP_848 = "consumer"
_COMMIT_MS = 5_000
_SESSION_MS, _HEARTBEAT_MS, _REBALANCE_MS = 45_000, 3_000, 300_000


class Library(LiveClient):
    """Members of one library."""

    steps = PROCESS_STEPS | {
        "slow_poll", "kill_leader", "topic_grows", "broker_dies", "coordinator_moves", "cut"
    }  # fmt: skip

    def __init__(
        self, module: str, package: str, program: str, summary: str, machines: tuple[str, ...]
    ) -> None:
        self._module, self._package, self._program = module, package, program
        self.summary = summary
        self.machines = machines

    def check(self) -> None:
        """Check that the library is installed."""
        need_module(self._module, self._package)
        self.software = f"{self._package} {version(self._package)}"

    def prepare(self, run: LiveRun) -> None:
        """Check that the broker serves the protocol."""
        if run.machine != _KIP_848:
            return
        with Cluster(run.bootstrap) as cluster:
            connection = cluster.any_broker(Deadline(cluster.timeout_s))
            try:
                connection.version_for(ConsumerGroupDescribeRequest)
            except VersionUnsupported:
                raise WrongInput(
                    f"The broker at {run.bootstrap} does not serve the protocol of KIP-848 yet:"
                    " name a Kafka 4 with --bootstrap-server, or choose another --machine."
                ) from None

    def command(self, run: LiveRun, member: MemberProcess) -> list[str]:
        """Return the command line of a member."""
        parameters = run.parameters
        options = {
            "bootstrap": run.bootstrap,
            "group": run.group,
            "topics": list(run.counts),
            "client_id": member.identity,
            "instance": member.instance,
            "machine": run.machine,
            "session_ms": parameters.session_ms or _SESSION_MS,
            "heartbeat_ms": parameters.heartbeat_ms or _HEARTBEAT_MS,
            "rebalance_ms": parameters.rebalance_ms or _REBALANCE_MS,
            "commit_ms": parameters.commit_ms or _COMMIT_MS,
            "poll_gap_ms": parameters.poll_gap_ms,
            "metadata_age_ms": parameters.metadata_age_ms,
            "lines": str(member.lines),
        }
        module = f"coterie.lab.live.members.{self._program}"
        return [sys.executable, "-m", module, json.dumps(options)]


def aiokafka() -> Library:
    """Return the client for aiokafka."""
    return Library(
        "aiokafka", "aiokafka", "aiokafka_member", "aiokafka: pure Python", ("eager-3", "static")
    )


def kafka_python() -> Library:
    """Return the client for kafka-python."""
    return Library(
        "kafka", "kafka-python", "kafka_python_member", "kafka-python: pure Python",
        ("eager-3", "static", "cooperative"),
    )  # fmt: skip


def confluent() -> Library:
    """Return the client for confluent-kafka."""
    return Library(
        "confluent_kafka", "confluent-kafka", "confluent_member", "confluent-kafka: librdkafka",
        ("eager-3", "static", "cooperative", _KIP_848),
    )  # fmt: skip
