"""The client libraries of Python, against Coterie or Kafka."""

from importlib.metadata import version

from coterie.client.connection import Deadline
from coterie.client.errors import VersionUnsupported
from coterie.lab.errors import WrongInput
from coterie.lab.live.clients import PROCESS_STEPS, LiveClient, LiveRun, PodProcess, need_module
from coterie.processes.member_process import member_command
from coterie.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest

_KIP_848 = "consumer"
_COMMIT_MS = 5_000
# The default of all three.
_MAX_POLL_RECORDS = 500
_SESSION_MS, _HEARTBEAT_MS, _REBALANCE_MS = 45_000, 3_000, 300_000


class Library(LiveClient):
    """Members of one library."""

    logs_in = True
    steps = PROCESS_STEPS | {
        "slow_poll", "kill_leader", "topic_grows", "broker_dies", "coordinator_moves", "cut"
    }  # fmt: skip

    def __init__(
        self, module: str, package: str, library: str, summary: str, machines: tuple[str, ...]
    ) -> None:
        self._module, self._package, self._library = module, package, library
        self.summary = summary
        self.machines = machines
        if library == "confluent":
            self.steps = self.steps | {"poison"}

    def check(self) -> None:
        """Check that the library is installed."""
        need_module(self._module, self._package)
        self.software = f"{self._package} {version(self._package)}"

    def prepare(self, run: LiveRun) -> None:
        """Check that the broker serves the protocol."""
        if run.machine != _KIP_848:
            return
        with run.cluster() as cluster:
            connection = cluster.any_broker(Deadline(cluster.timeout_s))
            try:
                connection.version_for(ConsumerGroupDescribeRequest)
            except VersionUnsupported:
                raise WrongInput(
                    f"The broker at {run.bootstrap} does not serve the protocol of KIP-848:"
                    " name one that does with --bootstrap-server, or choose another --machine."
                ) from None

    def command(self, run: LiveRun, member: PodProcess) -> list[str]:
        """Return the command line of a member."""
        return library_command(run, member, self._library)


def library_command(run: LiveRun, member: PodProcess, library: str) -> list[str]:
    """Return the command line of a member of a library."""
    parameters = run.parameters
    options = {
        "library": library,
        "bootstrap": run.bootstrap,
        "group": run.group,
        "topic": list(run.counts),
        "client_id": member.identity,
        "instance": member.instance,
        "group_protocol": _KIP_848 if run.machine == _KIP_848 else "classic",
        "assignor": "cooperative-sticky" if run.machine == "cooperative" else "range",
        "session_timeout_ms": parameters.session_ms or _SESSION_MS,
        "heartbeat_interval_ms": parameters.heartbeat_ms or _HEARTBEAT_MS,
        "max_poll_interval_ms": parameters.rebalance_ms or _REBALANCE_MS,
        "max_poll_records": _MAX_POLL_RECORDS,
        "commit_interval_ms": parameters.commit_ms or _COMMIT_MS,
        # It calls back in a thread of its own, which must not wait for a commit.
        "auto_commit": library == "kafka-python",
        "poll_gap_ms": parameters.poll_gap_ms,
        "metadata_max_age_ms": parameters.metadata_age_ms,
        "command_config": run.command_config,
        "lines": member.lines,
    }
    return member_command(options)


def aiokafka() -> Library:
    """Return the client for aiokafka."""
    return Library(
        "aiokafka", "aiokafka", "aiokafka", "aiokafka: pure Python", ("eager-3", "static")
    )


def kafka_python() -> Library:
    """Return the client for kafka-python."""
    return Library(
        "kafka", "kafka-python", "kafka-python", "kafka-python: pure Python",
        ("eager-3", "static", "cooperative"),
    )  # fmt: skip


def confluent() -> Library:
    """Return the client for confluent-kafka."""
    return Library(
        "confluent_kafka", "confluent-kafka", "confluent", "confluent-kafka: librdkafka",
        ("eager-3", "static", "cooperative", _KIP_848),
    )  # fmt: skip
