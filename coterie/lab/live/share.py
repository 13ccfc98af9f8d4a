"""Share groups (KIP-932) live: the share consumer of librdkafka, and how its group is measured.

The client does not say which partitions it has, so the coordinator is asked several times a second.
Records are not owned with a partition: it is read as long as any member has it, as in the model.
"""

import time
from collections.abc import Iterable
from contextlib import closing, suppress
from importlib.metadata import version
from pathlib import Path

from coterie.client.errors import ClientError
from coterie.client.share_groups import describe_share_groups
from coterie.lab.errors import WrongInput
from coterie.lab.gaps import WAITING
from coterie.lab.live.clients import PROCESS_STEPS, LiveClient, LiveRun, PodProcess, need_module
from coterie.lab.live.libraries import library_command
from coterie.lab.live.measure import Replay
from coterie.lab.machines.share_group import ALL
from coterie.processes.lines import Line, Partition, Writer

_ASK_EVERY_S = 0.5
# The first release with a share consumer.
_LEAST = (2, 16)


class SharedReplay(Replay):
    """The lines of a share group; in the ledger all members together are one reader."""

    def apply(self, line: Line) -> None:
        """Apply one line, and note which partitions are read now."""
        super().apply(line)
        self._note_readers()

    def _take(self, member: str, partitions: Iterable[Partition]) -> None:
        if member not in self._gone:
            self.owned.setdefault(member, set()).update(partitions)

    def _give_up(self, member: str, partitions: Iterable[Partition]) -> None:
        self.owned.setdefault(member, set()).difference_update(partitions)

    def _note_readers(self) -> None:
        """Let the ledger have those partitions read that a member has whose process runs."""
        read = {
            each
            for member, partitions in self.owned.items()
            if member not in self._absent | self._gone
            for each in partitions
        }
        now = {self._partition(each) for each in read} & self._known
        before = self.ledger.readers().get(ALL, set())
        for partition in sorted(now - before):
            self.ledger.start(ALL, partition, 0)
        for partition in sorted(before - now):
            self.ledger.stop(ALL, partition, WAITING)


class ConfluentShare(LiveClient):
    """Members of a share group."""

    summary = "confluent-kafka: librdkafka's share consumer (KIP-932)"
    machines = ("share",)
    logs_in = True
    steps = PROCESS_STEPS | {"slow_poll", "poison", "topic_grows", "broker_dies", "cut"}
    replay = SharedReplay

    def __init__(self) -> None:
        self._files: dict[str, Path] = {}
        self._known: dict[str, set[Partition]] = {}
        self._asked_s = 0.0

    def check(self) -> None:
        """Check that the library is installed, and has a share consumer."""
        need_module("confluent_kafka", "confluent-kafka")
        found = version("confluent-kafka")
        if tuple(int(each) for each in found.split(".")[:2]) < _LEAST:
            raise WrongInput(
                f"confluent-kafka {found} has no share consumer: install 2.16 or later."
            )
        self.software = f"confluent-kafka {found}"

    def prepare(self, run: LiveRun) -> None:
        """Check that the broker has share groups.

        Raises:
            WrongInput: it has none.
        """
        with run.cluster() as cluster:
            try:
                describe_share_groups(cluster, [run.group])
            except ClientError as error:
                raise WrongInput(
                    f"The broker at {run.bootstrap} has no share groups: {error}"
                ) from None

    def command(self, run: LiveRun, member: PodProcess) -> list[str]:
        """Return the command line of a member."""
        return library_command(run, member, "confluent-share")

    def started(self, run: LiveRun, member: PodProcess, child: object) -> None:  # noqa: ARG002
        """Remember where the lines of a member are."""
        self._files[member.identity] = member.lines

    def observe(self, run: LiveRun) -> None:
        """Write which partitions each member has, as its coordinator says."""
        now_s = time.monotonic()
        if now_s - self._asked_s < _ASK_EVERY_S:
            return
        self._asked_s = now_s
        # While the broker is away there is nothing new to write.
        with suppress(ClientError), run.cluster() as cluster:
            for group in describe_share_groups(cluster, [run.group]).values():
                for member in group.members:
                    has = {
                        (topic, number)
                        for topic, numbers in (member.assignment or {}).items()
                        for number in numbers
                    }
                    self._note(member.client_id, has)

    def _note(self, identity: str, has: set[Partition]) -> None:
        path = self._files.get(identity)
        if path is None or self._known.get(identity) == has:
            return
        self._known[identity] = has
        with closing(Writer(str(path))) as writer:
            writer.write("taken", partitions=sorted(has))
