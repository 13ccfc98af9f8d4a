"""A broker in virtual time on a disk that records what it does, and a client that waits for it.

The whole broker runs: coordinators, flusher, logs, cleaner. It is killed and stopped; the disk
stays. Moments are counted in operations of the disk.
"""

from collections.abc import Mapping
from typing import Any

from coterie.protocol.errors import ErrorCode
from coterie.server.broker import Broker
from tests.crash.disk import RecordingFileSystem
from tests.unit.server.manual import COMMIT, NEVER, Client, make_broker
from tests.unit.server.manual_loop import ManualLoop
from tests.unit.server.virtual import VirtualEnvironment

# How long a segment takes new batches.
ROLL_MS = 1_000
_SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "log.roll.ms": str(ROLL_MS),
    "journal.enable": "false",
}
_SEED = 7
# What a client sends again.
AGAIN = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
)
_AGAIN_MS = 20
# Longer than any timeout of a request.
_PATIENCE_MS = 300_000


def start_broker(
    filesystem: Any, loop: ManualLoop, settings: Mapping[str, str], *, flush: bool
) -> Broker:
    """Start a broker on a disk, with its background work; its coordinators are loaded."""
    broker = make_broker(
        {**_SETTINGS, **settings},
        flush=COMMIT if flush else NEVER,
        filesystem=filesystem,
        loop=loop,
        environment=VirtualEnvironment(loop, _SEED),
    )
    broker.maintenance.start()
    return broker


def answer_to(client: Client, request: Any, version: int) -> Any:
    """Send a request and let time pass until it is answered."""
    loop = client.loop
    client.send(request, version)
    loop.turn()
    give_up_ms = loop.now_ms + _PATIENCE_MS
    while not (answers := client.answers()):
        assert loop.now_ms < give_up_ms, f"{request} is not answered"
        loop.jump()
    ((_, answer),) = answers
    return answer


class BrokerRun:
    """A broker that is killed and started again."""

    def __init__(self, settings: Mapping[str, str], *, flush: bool) -> None:
        """Start on an empty disk."""
        self._flush = flush
        self._settings = settings
        self.filesystem = RecordingFileSystem()
        self.loop = ManualLoop()
        self.start()

    @property
    def done(self) -> int:
        """How many operations the disk has done."""
        return len(self.filesystem.operations)

    def start(self) -> None:
        """Start the broker."""
        self.broker = start_broker(self.filesystem, self.loop, self._settings, flush=self._flush)
        self.client = Client(self.broker)

    def die(self) -> None:
        """Kill the broker's process, and start another one."""
        self.broker._data._lock.release()
        self.loop.forget()
        self.start()

    def stop(self) -> None:
        """Stop the broker in order, and start another one."""
        self.broker._data.close()
        self.loop.forget()
        self.start()

    def roll(self) -> None:
        """Let the next append to each log begin a segment."""
        self.loop.advance(2 * ROLL_MS)

    def ask_all(self, request: Any, version: int) -> Any:
        """Return the answer to a request, whose errors the caller looks at."""
        return answer_to(self.client, request, version)

    def ask(self, request: Any, version: int) -> Any:
        """Return the answer to a request, which is sent again while the coordinator is busy."""
        while (answer := self.ask_all(request, version)).error_code in AGAIN:
            self.loop.advance(_AGAIN_MS)
        assert not answer.error_code, f"{request} is answered with {answer}"
        return answer
