"""Bytes that are almost a message (incomplete, flipped, too long) raise only `MalformedFrame`.

The frames are the same in every run. The server decodes frames at their place in its buffer, so
that is tried, too: the bytes after a frame must not complete it.

Rules: [record-batch/bounded-decoding].
"""

import pytest

from coterie.protocol.errors import DECODE_ERRORS, MalformedFrame
from coterie.protocol.wire import Message
from tests.codecs.catalogue import MESSAGES, REQUESTS, pair_id, versions_of
from tests.codecs.instances import RandomValues, build, project

_LONGEST = 400
_NEXT_FRAME = b"\x00\x01\x02\x00\x00\x00\x7f\xff" * 4


def _frames(cls: type[Message], version: int) -> list[bytes]:
    """Return two messages of moderate size, one of them with elements in most arrays."""
    found = []
    for number in range(30):
        message = project(build(cls, RandomValues(("damage", cls.__name__, number))), version)
        found.append(message.encode(version))
    found.sort(key=len)
    # All messages of some deep structures are longer: the shortest is taken.
    fitting = [data for data in found if len(data) <= _LONGEST] or found[:1]
    return [fitting[len(fitting) // 2], fitting[-1]]


@pytest.mark.parametrize("cls", MESSAGES, ids=pair_id)
def test_an_incomplete_message_is_malformed(cls: type[Message]) -> None:
    for version in versions_of(cls):
        for data in _frames(cls, version):
            for size in range(len(data)):
                with pytest.raises(MalformedFrame):
                    cls.decode(data[:size], version)


@pytest.mark.parametrize("cls", REQUESTS, ids=pair_id)
def test_the_next_frame_does_not_complete_an_incomplete_message(cls: type[Message]) -> None:
    for version in versions_of(cls):
        decode = cls.decoder(version)
        for data in _frames(cls, version):
            buffer = data + _NEXT_FRAME
            for end in range(len(data)):
                with pytest.raises(DECODE_ERRORS):
                    decode(buffer, 0, end)


@pytest.mark.parametrize("cls", [cls for cls in MESSAGES if not cls.open_ended], ids=pair_id)
def test_a_message_with_bytes_left_over_is_malformed(cls: type[Message]) -> None:
    for version in versions_of(cls):
        for data in _frames(cls, version):
            with pytest.raises(MalformedFrame, match="left over"):
                cls.decode(data + b"\x00", version)


@pytest.mark.parametrize("cls", MESSAGES, ids=pair_id)
def test_a_flipped_bit_makes_another_message_or_none(cls: type[Message]) -> None:
    refused = 0
    for version in versions_of(cls):
        for data in _frames(cls, version)[:1]:
            for bit in range(len(data) * 8):
                damaged = bytearray(data)
                damaged[bit // 8] ^= 1 << bit % 8
                try:
                    message = cls.decode(bytes(damaged), version)
                except MalformedFrame:
                    refused += 1
                else:
                    assert cls.decode(message.encode(version), version) == message
    assert refused, "no flip was noticed"
