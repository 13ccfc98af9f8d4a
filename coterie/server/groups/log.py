"""Reading a `__consumer_offsets` partition back in small slices (spec section 14.3).

The log is gathered by key first and what is left of it decoded then: `coordinator/loading.py` says
how. Each slice takes some milliseconds, so that whoever shares the event loop is not kept waiting.
"""

from collections.abc import Callable, Iterator
from itertools import islice

from coterie.coordinator.loading import NewestRecords
from coterie.storage.log import Log

Replay = Callable[[bytes | None, bytes | None], None]

# What is read, checked and gathered at a time: a thousand batches of one commit each, about 3 ms.
SLICE_BYTES = 128 << 10
# What is decoded and replayed at a time: about 3 ms.
SLICE_RECORDS = 400


class LogReplay:
    """One reading of one log.

    Attributes:
        newest: what the log has added up to so far.
        bytes_read, size_bytes: how far the reading is, and how far it will go.
    """

    __slots__ = ("_log", "_replay", "_slices", "bytes_read", "newest", "size_bytes")

    def __init__(self, log: Log, replay: Replay) -> None:
        """Nothing is read yet.

        Args:
            log: of the partition; nothing is appended meanwhile.
            replay: told key and value of each record that is left, after all have been read.
        """
        self.newest = NewestRecords()
        self.bytes_read = 0
        self.size_bytes = log.size_bytes
        self._log = log
        self._replay = replay
        self._slices = self._work()

    def step(self) -> bool:
        """Do some milliseconds of the work; False when there was nothing left to do.

        Raises:
            CorruptLog: a batch is damaged.
            MalformedFrame: a record is not what its type says, or of an unknown value version.
        """
        return next(self._slices, self) is None

    def _work(self) -> Iterator[None]:
        for data in self._log.chunks(chunk_bytes=SLICE_BYTES):
            self.newest.absorb(data)
            self.bytes_read += len(data)
            yield
        survivors = self.newest.survivors()
        while batch := list(islice(survivors, SLICE_RECORDS)):
            for key, value in batch:
                self._replay(key, value)
            yield
