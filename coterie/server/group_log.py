"""Reading a `__consumer_offsets` partition back, record by record (spec section 14.3).

Batches of a transaction count from their commit marker on, in the order of the markers; a log that
a real broker wrote may have some.
"""

from collections.abc import Callable, Iterator

from protocol.records import (
    BatchHeader,
    decode_records,
    iterate_batches,
    iterate_pairs,
    read_marker,
)
from storage.log import Log

Pair = tuple[bytes | None, bytes | None]
Replay = Callable[[bytes | None, bytes | None], None]


def replay_log(log: Log, replay: Replay) -> Iterator[None]:
    """Give every record of `log` to `replay(key, value)`; pauses after each chunk, for others'
    sake.

    Raises:
        CorruptLog: a batch is damaged.
        MalformedFrame: a record is not what its type says.
    """
    pending: dict[int, list[Pair]] = {}
    for data in log.chunks():
        for header, pairs in iterate_pairs(data):
            if header is not None and header.is_control:
                _end_transaction(data, header, pending, replay)
            elif header is not None and header.is_transactional:
                pending.setdefault(header.producer_id, []).extend(pairs)
            else:
                for key, value in pairs:
                    replay(key, value)
        yield


def _end_transaction(
    data: bytes, header: BatchHeader, pending: dict[int, list[Pair]], replay: Replay
) -> None:
    position = next(at for at, each in iterate_batches(data) if each == header)
    for record in decode_records(data, header, position):
        marker = read_marker(record)
        if marker is None:
            continue
        for key, value in pending.pop(header.producer_id, []):
            if marker.commit:
                replay(key, value)
