"""The meaning of the declarations of protocol/wire.py, shown by messages that are declared here."""

import struct as struct_module
import traceback

import pytest

from coterie.protocol.compile import source_of
from coterie.protocol.errors import MalformedFrame
from coterie.protocol.messages.fetch import FetchResponse
from coterie.protocol.messages.heartbeat import HeartbeatRequest
from coterie.protocol.messages.join_group import JoinGroupResponse
from coterie.protocol.schema import FieldType, carries_records, minimum_size
from coterie.protocol.wire import (
    ABSENT_ONLY,
    ZERO_UUID,
    Boolean,
    Bytes,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    Message,
    Records,
    String,
    Struct,
    Uint16,
    Uuid,
    field,
    message,
    since,
    struct,
    until,
)
from tests.codecs import slow


@struct
class Point(Struct):
    """Two numbers."""

    x: Int32
    y: Int32 = since(2, default=-1)


@message(versions=(0, 3), flexible=3)
class Everything(Message):
    """Every wire type."""

    boolean: Boolean
    int8: Int8
    int16: Int16
    uint16: Uint16
    int32: Int32
    int64: Int64
    float64: Float64
    uuid: Uuid
    string: String
    data: Bytes
    records: Records | None
    point: Point
    numbers: list[Int64]
    names: list[String]
    ids: list[Uuid]
    points: list[Point]


_EVERYTHING = Everything(
    boolean=True,
    int8=-2,
    int16=-3,
    uint16=65535,
    int32=-4,
    int64=-5,
    float64=-0.5,
    uuid=bytes(range(16)),
    string="é",
    data=b"\x00\xff",
    records=None,
    point=Point(x=1, y=2),
    numbers=[1, -1],
    names=["", "a"],
    ids=[ZERO_UUID],
    points=[Point(x=3, y=4)],
)

_FIXED = "01 fe fffd ffff fffffffc fffffffffffffffb bfe0000000000000"
_UUID = "000102030405060708090a0b0c0d0e0f"


def _hex(*parts: str) -> str:
    return "".join(parts).replace(" ", "")


def test_every_type_in_the_plain_encoding() -> None:
    assert _EVERYTHING.encode(2).hex() == _hex(
        _FIXED,
        _UUID,
        "0002 c3a9",
        "00000002 00ff",
        "ffffffff",
        "00000001 00000002",
        "00000002 0000000000000001 ffffffffffffffff",
        "00000002 0000 0001 61",
        "00000001" + "00" * 16,
        "00000001 00000003 00000004",
    )
    assert Everything.decode(_EVERYTHING.encode(2), 2) == _EVERYTHING


def test_every_type_in_the_flexible_encoding() -> None:
    assert _EVERYTHING.encode(3).hex() == _hex(
        _FIXED,
        _UUID,
        "03 c3a9",
        "03 00ff",
        "00",
        "00000001 00000002 00",
        "03 0000000000000001 ffffffffffffffff",
        "03 01 02 61",
        "02" + "00" * 16,
        "02 00000003 00000004 00",
        "00",
    )
    assert Everything.decode(_EVERYTHING.encode(3), 3) == _EVERYTHING


def test_a_field_of_later_versions_is_omitted_and_decoded_as_its_default() -> None:
    again = Everything.decode(_EVERYTHING.encode(1), 1)
    assert again.point == Point(x=1, y=-1)
    assert again.points == [Point(x=3, y=-1)]
    assert len(_EVERYTHING.encode(2)) - len(_EVERYTHING.encode(1)) == 8


@message(versions=(0, 5), flexible=4)
class Versioned(Message):
    """Fields of some versions only."""

    early: String = until(1, default="gone")
    middle: Int16 = since(2, last=3, default=7)
    late: list[Int32] = since(3, factory=list)
    later_null: String | None = field(nullable_since=2)
    null_list: list[Int32] | None = field(default=None)


def test_a_version_carries_only_its_fields() -> None:
    full = Versioned(early="e", middle=1, late=[5], later_null="x", null_list=None)
    assert full.encode(0).hex() == _hex("0001 65", "0001 78", "ffffffff")
    assert full.encode(2).hex() == _hex("0001", "0001 78", "ffffffff")
    assert full.encode(3).hex() == _hex("0001", "00000001 00000005", "0001 78", "ffffffff")
    assert full.encode(4).hex() == _hex("02 00000005", "02 78", "00", "00")
    read = Versioned.decode(full.encode(4), 4)
    assert (read.early, read.middle, read.late, read.null_list) == ("gone", 7, [5], None)


def test_a_null_before_its_version_is_encoded_as_empty_and_refused_by_the_decoder() -> None:
    absent = Versioned(later_null=None)
    assert absent.encode(1).hex() == _hex("0004 676f6e65", "0000", "ffffffff")
    assert absent.encode(2).hex() == _hex("0007", "ffff", "ffffffff")
    assert Versioned.decode(absent.encode(2), 2).later_null is None
    with pytest.raises(MalformedFrame, match=r"Versioned\.later_null is null"):
        Versioned.decode(bytes.fromhex(_hex("0000", "ffff", "ffffffff")), 1)


@pytest.mark.parametrize("version", [-1, 6])
def test_an_undeclared_version_is_a_programming_error(version: int) -> None:
    with pytest.raises(ValueError, match="Versioned has versions 0 to 5"):
        Versioned.decoder(version)


@message(versions=(0, 1), flexible=0)
class Tagged(Message):
    """Tagged fields."""

    plain: Int8
    second: Int32 = since(0, tag=1, default=-1)
    first: String = since(0, tag=0, default="")
    list_tag: list[Int16] = since(0, tag=2, factory=list)
    struct_tag: Point | None = since(0, tag=3, default=None, nullable_since=ABSENT_ONLY)
    null_text: String | None = since(0, tag=200, default=None)
    newer: Boolean = since(1, tag=4, default=False)


def test_tagged_fields_at_their_defaults_are_omitted() -> None:
    assert Tagged(plain=1).encode(1).hex() == "0100"
    assert Tagged.decode(b"\x01\x00", 1) == Tagged(plain=1)


def test_tagged_fields_are_encoded_in_the_order_of_their_tags() -> None:
    full = Tagged(
        plain=1,
        first="a",
        second=2,
        list_tag=[3],
        struct_tag=Point(x=4),
        null_text="b",
        newer=True,
    )
    assert full.encode(1).hex() == _hex(
        "01",
        "06",
        "00 02 02 61",
        "01 04 00000002",
        "02 03 02 0003",
        "03 05 00000004 00",
        "04 01 01",
        "c801 02 02 62",
    )
    assert Tagged.decode(full.encode(1), 1) == full
    older = Tagged.decode(full.encode(0), 0)
    assert older.newer is False
    assert older.null_text == "b"


def test_unknown_tags_between_known_ones_are_skipped() -> None:
    data = bytes.fromhex(_hex("01", "04", "00 02 02 61", "01 04 00000002", "63 03 ffffff", "64 00"))
    assert Tagged.decode(data, 1) == Tagged(plain=1, first="a", second=2)


def test_a_tag_of_a_newer_version_is_skipped_by_an_older_one() -> None:
    assert Tagged.decode(bytes.fromhex("01 01 04 01 01"), 0).newer is False


def test_a_tag_of_a_wrong_size_is_malformed() -> None:
    with pytest.raises(MalformedFrame, match=r"Tagged\.second"):
        Tagged.decode(bytes.fromhex("01 01 01 05 00000002 00"), 1)
    with pytest.raises(MalformedFrame, match=r"Tagged tag claims 127 bytes where 4 are left"):
        Tagged.decode(bytes.fromhex("01 01 01 7f 00000002"), 1)


@message(versions=(0, 0), flexible=0)
class Nullable(Message):
    """A structure that may be null (KIP-893)."""

    point: Point | None = None
    points: list[Point] | None = None
    texts: list[String | None]


def test_a_nullable_structure_begins_with_a_mark() -> None:
    assert Nullable(texts=[]).encode(0).hex() == _hex("ff", "00", "01", "00")
    full = Nullable(point=Point(x=1), points=[], texts=[None, "a"])
    assert full.encode(0).hex() == _hex("01 00000001 00", "01", "03 00 02 61", "00")
    assert Nullable.decode(full.encode(0), 0) == full
    assert Nullable.decode(Nullable(texts=[]).encode(0), 0) == Nullable(texts=[])


@message(versions=(0, 0), flexible=None, element_budget=10)
class Bounded(Message):
    """A message with a low element limit."""

    one: list[Int8] = field(factory=list)
    other: list[Int8] = field(factory=list)


def test_all_arrays_of_a_message_share_its_element_limit() -> None:
    assert Bounded.decode(Bounded(one=[1] * 3, other=[2] * 7).encode(0), 0).one == [1, 1, 1]
    with pytest.raises(MalformedFrame, match=r"one with 11 elements exceeds"):
        Bounded.decode(Bounded(one=[1] * 11).encode(0), 0)
    with pytest.raises(MalformedFrame, match=r"other with 8 elements exceeds"):
        Bounded.decode(Bounded(one=[1] * 3, other=[2] * 8).encode(0), 0)


@message(versions=(0, 0), flexible=None, open_ended=True)
class OpenEnded(Message):
    """A message to which newer versions append fields."""

    number: Int16


def test_bytes_after_an_open_ended_message_are_skipped() -> None:
    assert OpenEnded.decode(b"\x00\x01newer", 0).number == 1
    with pytest.raises(MalformedFrame):
        OpenEnded.decode(b"\x00", 0)


@message(versions=(0, 0), flexible=None)
class Empty(Message):
    """No fields, as in some requests."""


def test_a_message_without_fields_has_no_bytes() -> None:
    assert Empty().encode(0) == b""
    assert Empty.decode(b"", 0) == Empty()
    assert Empty.framer(0)(Empty(), 7).hex() == "0000000400000007"
    with pytest.raises(MalformedFrame, match="1 bytes left over"):
        Empty.decode(b"\x00", 0)


def test_the_constructor_takes_keywords_and_sets_defaults() -> None:
    made = Versioned(later_null="x")
    assert (made.early, made.middle, made.late, made.null_list) == ("gone", 7, [], None)
    with pytest.raises(TypeError, match="later_null"):
        Versioned()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="positional"):
        Versioned("x")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unknown"):
        Versioned(later_null="x", unknown=1)  # type: ignore[call-arg]


def test_default_lists_are_not_shared() -> None:
    one, two = Versioned(later_null=""), Versioned(later_null="")
    one.late.append(1)
    assert two.late == []
    read = Versioned.decode(one.encode(0), 0)
    read.late.append(2)
    assert Versioned.decode(one.encode(0), 0).late == []


@message(versions=(0, 1), flexible=None)
class NullableList(Message):
    """A list with a default that may also be null."""

    items: list[Int8] | None = since(0, factory=list)


def test_a_null_is_not_replaced_by_a_default_list() -> None:
    assert NullableList().items == []
    assert NullableList(items=None).items is None
    assert NullableList(items=None).encode(0).hex() == "ffffffff"


def test_instances_have_slots_and_compare_by_value() -> None:
    request = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    assert request == HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    assert request != HeartbeatRequest(group_id="g", generation_id=2, member_id="m")
    assert request != "g"
    assert not hasattr(request, "__dict__")
    with pytest.raises(AttributeError):
        request.group = "x"  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match="unhashable"):
        hash(request)
    assert repr(request) == (
        "HeartbeatRequest(group_id='g', generation_id=1, member_id='m', group_instance_id=None)"
    )


@pytest.mark.parametrize(
    ("kind", "version", "size"),
    [
        (FieldType(struct=Point), 1, 4),
        (FieldType(struct=Point), 2, 8),
        (FieldType(struct=Point), 3, 9),  # with a byte for its tags
        (FieldType(struct=Everything), 2, 42 + 2 + 4 + 4 + 8 + 4 * 4),
        (FieldType(struct=Everything), 3, 42 + 1 + 1 + 1 + 9 + 4 + 1),
        (FieldType(struct=Tagged), 1, 2),
        (FieldType(struct=Nullable), 0, 1 + 1 + 1 + 1),
        (FieldType(element=FieldType(struct=Point)), 2, 4),
    ],
)
def test_the_minimum_size_of_an_element_is_computed(
    kind: FieldType, version: int, size: int
) -> None:
    flexible = kind.struct in (Tagged, Nullable) or version == 3
    assert minimum_size(kind, version, flexible=flexible) == size


def test_only_frames_with_records_add_up_the_lengths_of_their_pieces() -> None:
    assert carries_records(FetchResponse)
    assert not carries_records(JoinGroupResponse)
    assert "sum(map(len, out))" in source_of(FetchResponse, "frame", 12)[0]
    assert "sum(map(len, out))" not in source_of(JoinGroupResponse, "frame", 7)[0]


def test_codecs_are_compiled_once() -> None:
    assert HeartbeatRequest.decoder(3) is HeartbeatRequest.decoder(3)
    assert HeartbeatRequest.decoder(3) is not HeartbeatRequest.decoder(4)


def test_a_traceback_shows_the_line_of_the_compiled_codec() -> None:
    with pytest.raises((struct_module.error, IndexError)) as caught:
        HeartbeatRequest.decoder(0)(b"\x00\x01g", 0, 3)
    text = "".join(traceback.format_exception(caught.value))
    assert "<coterie HeartbeatRequest v0 decode>" in text
    assert "m.generation_id" in text


def test_all_names_in_a_source_are_bound() -> None:
    source, names = source_of(Everything, "decode", 3)
    exec(compile(source, "<test>", "exec"), names)
    assert names["decode"](_EVERYTHING.encode(3), 0, len(_EVERYTHING.encode(3))) == _EVERYTHING


def test_a_decoder_starts_and_ends_at_the_given_positions() -> None:
    data = _EVERYTHING.encode(3)
    assert Everything.decoder(3)(b"before" + data + b"behind", 6, 6 + len(data)) == _EVERYTHING


@pytest.mark.parametrize("size", [0, 1, 126, 127, 128, 16_383, 16_384, 20_000])
def test_lengths_around_the_limits_of_varint_sizes(size: int) -> None:
    request = HeartbeatRequest(group_id="x" * size, generation_id=1, member_id="m")
    assert request.encode(4) == slow.encode(request, 4)
    assert HeartbeatRequest.decode(request.encode(4), 4) == request
    array = Versioned(late=[1] * size, later_null="")
    assert array.encode(4) == slow.encode(array, 4)
    assert Versioned.decode(array.encode(4), 4) == array
