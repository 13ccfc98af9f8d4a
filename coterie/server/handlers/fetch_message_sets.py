"""Fetch before version 4: batches are converted to messages [data-plane/fetched-messages]."""

from collections.abc import Iterable

from coterie.protocol.errors import ErrorCode, MalformedFrame
from coterie.protocol.message_sets import NotConvertible, messages_of_batches
from coterie.protocol.messages.fetch import FetchRequest, FetchResponsePartition
from coterie.server.handlers.plain_fetch import CheckedFetch, Refuse, Wanted
from coterie.server.logs.fetching import FetchPartition, Read
from coterie.server.network.delayed_response import Exchange
from coterie.server.services import Services

_MAGIC_1_SINCE = 2
_FIRST_BATCH_SINCE = 3


def _refuse_nothing(_: Wanted) -> Iterable[None]:
    return ()


def handle(
    broker: Services,
    request: FetchRequest,
    connection: Exchange,
    refuse: Refuse = _refuse_nothing,
) -> None:
    """Answer later, in steps: a conversion takes long.

    Args:
        broker: the broker.
        request: the request.
        connection: where it came from.
        refuse: refuses partitions that the client may not read.
    """
    FetchOfMessages(refuse, broker, request, connection).answer()


class FetchOfMessages(CheckedFetch):
    """A fetch whose response has messages instead of batches."""

    # Each partition may bring a batch, however large it is.
    _read_at_once = 1

    __slots__ = ()

    def _new_read(self) -> Read:
        read = super()._new_read()
        read.cuts_batches = self._connection.version < _FIRST_BATCH_SINCE
        return read

    def _is_large(self) -> bool:
        return True

    def _render(self) -> Iterable[None]:
        for wanted, found in self._read.found:
            if found.records:
                yield from self._convert(wanted, found, found.records)
        yield from super()._render()

    def _convert(
        self, wanted: FetchPartition, found: FetchResponsePartition, batches: bytes
    ) -> Iterable[None]:
        """Replace the batches of a partition by messages."""
        if self._read.cuts_batches and len(batches) > wanted.max_bytes:
            # The client sees an incomplete message, and asks for more bytes.
            found.records = batches[: max(wanted.max_bytes, 0)]
            return
        magic = 1 if self._connection.version >= _MAGIC_1_SINCE else 0
        messages: list[bytes] = []
        try:
            for converted in messages_of_batches(batches, magic, wanted.offset):
                messages.append(converted)
                yield
        except MalformedFrame as error:
            if not messages:
                unsupported = isinstance(error, NotConvertible)
                found.error_code = (
                    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
                    if unsupported
                    else ErrorCode.CORRUPT_MESSAGE
                )
                found.high_watermark = -1
        found.records = b"".join(messages)
