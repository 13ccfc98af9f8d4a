"""What requests are written as can be read again."""

import pytest

from coterie.conversation.names import Names
from coterie.conversation.requests import build_request, request_arguments
from coterie.conversation.syntax import TranscriptError, parse_request_line
from coterie.protocol.wire import Message

OFFSETS = 'member=m offsets={sales-0: 42 epoch 3 "a note", sales-1: 7}'


def built(text: str) -> tuple[Message, str | None]:
    """Return the request of a line, and what it is written as."""
    line = parse_request_line(f"c1> {text}")
    assert line is not None
    names = Names()
    request = build_request(line, names)
    return request, request_arguments(request, line.version, names)


@pytest.mark.parametrize(
    "text",
    [
        f"TxnOffsetCommit v3 transaction=t group=g producer=7 epoch=1 generation=2 {OFFSETS}",
        'OffsetFetch v8 groups={"a:b": all, plain: sales-0 sales-1, none: []}',
        "OffsetFetch v7 group=orders partitions=[sales-0] stable=true",
        'LeaveGroup v5 group=orders members=[c1-1, /i1, c1-2/i2] reason="going home"',
        "LeaveGroup v2 group=orders member=c1-1",
        'SyncGroup v5 group=orders member=c1-1 generation=1 type=null protocol=""',
    ],
)
def test_a_request_is_written_as_it_was_read(text: str) -> None:
    api, version, arguments = text.split(" ", 2)
    assert built(f"{api} {version} {arguments}")[1] == arguments


def test_a_field_that_a_version_does_not_carry_is_not_written() -> None:
    request, text = built("JoinGroup v0 rebalance=3s")
    assert text == 'group=orders member="" session=10s protocols=[range]'
    assert request.encode(0)


@pytest.mark.parametrize(
    "text",
    [
        "LeaveGroup v3 member=c1-1",
        "LeaveGroup v2 members=[c1-1]",
        "OffsetFetch v8 groups={orders: all} group=orders",
        "OffsetFetch v8 groups={orders: all} partitions=[sales-0]",
        "Heartbeat v4 generatoin=1",
    ],
)
def test_arguments_of_another_form_and_misspelt_ones_are_refused(text: str) -> None:
    with pytest.raises(TranscriptError, match="unknown here"):
        built(text)


def test_a_version_with_one_group_has_no_map_of_two() -> None:
    with pytest.raises(TranscriptError, match="one group"):
        built("OffsetFetch v7 groups={a: all, b: all}")
