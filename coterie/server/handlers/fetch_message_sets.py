"""Fetch before version 4: batches are converted to messages [data-plane/fetched-messages]."""

from collections.abc import Generator

from coterie.protocol.errors import ErrorCode, MalformedFrame
from coterie.protocol.message_sets import NotConvertible, messages_of_batches
from coterie.protocol.messages.fetch import (
    FetchRequest,
    FetchResponse,
    FetchResponsePartition,
    FetchResponseTopic,
)
from coterie.server.handlers.fetch import LargeFetch
from coterie.server.handlers.fetch_partitions import FetchResult
from coterie.server.logs.fetching import READ_UNCOMMITTED, FetchPartition, read_partition
from coterie.server.network.delayed_response import Exchange
from coterie.server.services import Services

_MAGIC_1_SINCE = 2
_FIRST_BATCH_SINCE = 3


def handle(broker: Services, request: FetchRequest, connection: Exchange) -> None:
    """Answer later, in steps: a conversion takes long."""
    _FetchOfMessages(broker, request, connection).begin()


class _FetchOfMessages(LargeFetch):
    """A fetch whose response has messages instead of batches."""

    def __init__(self, broker: Services, request: FetchRequest, connection: Exchange) -> None:
        super().__init__(broker, request, connection)
        version = connection.version
        self._magic = 1 if version >= _MAGIC_1_SINCE else 0
        self._limits_first = version < _FIRST_BATCH_SINCE

    def _read(self) -> Generator[None, None, FetchResult]:
        response = FetchResponse(responses=[])
        size_bytes, answer_now = 0, False
        allowed_bytes = min(self._request.max_bytes, self._broker.fetch_max_bytes)
        for asked, partitions in self.wanted:
            answered = FetchResponseTopic(topic=asked.topic, partitions=[])
            response.responses.append(answered)
            for each in partitions:
                first = self._limits_first or not size_bytes
                left_bytes = max(allowed_bytes - size_bytes, 0)
                found = read_partition(each, left_bytes, READ_UNCOMMITTED, first=first)
                size_bytes += found.size_bytes
                answer_now = answer_now or found.answer_now
                answered.partitions.append(found.response)
                yield
            yield
        return FetchResult(response, size_bytes, answer_now)

    def _complete(self, result: FetchResult) -> Generator[None, None, FetchResponse]:
        for (_, partitions), answered in zip(self.wanted, result.response.responses, strict=True):
            for wanted, found in zip(partitions, answered.partitions, strict=True):
                if found.records:
                    yield from self._convert(wanted, found, found.records)
        return result.response

    def _convert(
        self, wanted: FetchPartition, found: FetchResponsePartition, batches: bytes
    ) -> Generator[None, None, None]:
        """Replace the batches of a partition by messages."""
        if self._limits_first and len(batches) > wanted.max_bytes:
            # The client sees an incomplete message, and asks for more bytes.
            found.records = batches[: max(wanted.max_bytes, 0)]
            return
        messages: list[bytes] = []
        try:
            for converted in messages_of_batches(batches, self._magic, wanted.offset):
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
