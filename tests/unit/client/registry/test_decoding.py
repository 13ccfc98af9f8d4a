"""Parts of records by a schema registry: real HTTP, values written by fastavro and Protobuf."""

import base64
import datetime
import decimal
import io
import json
import socket
from collections.abc import Iterator
from typing import Any

import fastavro
import pytest
from google.protobuf import descriptor_pool, message_factory, timestamp_pb2
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto

from coterie.client.registry.address import RegistryAddress
from coterie.client.registry.decoding import Decoded, Registry
from coterie.client.registry.schemas import MOST_REFERENCES
from coterie.client.registry.wire import BadIndexes, message_indexes
from tests.registry import Schema, TestRegistry, framed, registry

ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"]},
        {"name": "raw", "type": "bytes"},
        {
            "name": "price",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        },
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "ratio", "type": "double"},
        {"name": "tags", "type": {"type": "map", "values": {"type": "array", "items": "string"}}},
    ],
}
ADDRESS = {
    "type": "record",
    "name": "Address",
    "namespace": "shop",
    "fields": [{"name": "city", "type": "string"}, {"name": "land", "type": "shop.Land"}],
}
LAND = {"type": "enum", "name": "Land", "namespace": "shop", "symbols": ["DE", "FR"]}
CUSTOMER = {
    "type": "record",
    "name": "Customer",
    "namespace": "shop",
    "fields": [{"name": "home", "type": "shop.Address"}, {"name": "work", "type": "shop.Address"}],
}
# A list: its tail makes it recursive.
NODE = {
    "type": "record",
    "name": "Node",
    "fields": [{"name": "next", "type": ["null", "Node"]}],
}
NULLS = {"type": "array", "items": "null"}


@pytest.fixture
def peer() -> Iterator[TestRegistry]:
    with registry() as running:
        yield running


def reader(peer: TestRegistry) -> Registry:
    return Registry(RegistryAddress.of(peer.url))


def read(peer: TestRegistry, data: bytes) -> Decoded:
    found = reader(peer).decode(data)
    assert found is not None
    return found


def avro(schema: Any, value: Any) -> bytes:
    """Return a value as fastavro writes it."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def test_a_record_of_avro_with_logical_types(peer: TestRegistry) -> None:
    number = peer.register("orders-value", Schema(json.dumps(ORDER)))
    at = datetime.datetime(2026, 11, 29, 2, 30, tzinfo=datetime.UTC)
    value = {
        "id": 2**53 + 1,
        "note": None,
        "raw": b"\xff\x00",
        "price": decimal.Decimal("12.30"),
        "at": at,
        "ratio": float("inf"),
        "tags": {"a": ["b", "c"]},
    }
    found = read(peer, framed(number, avro(ORDER, value)))
    assert (found.kind, found.name, found.error) == ("AVRO", "shop.Order", None)
    assert json.loads(found.text) == {
        "id": 2**53 + 1,
        "note": None,
        "raw": "ff00",
        "price": "12.30",
        "at": at.isoformat(),
        "ratio": "inf",
        "tags": {"a": ["b", "c"]},
    }
    assert found.row() == {"id": number, "type": "AVRO", "name": "shop.Order", "error": None}


def test_references_of_references(peer: TestRegistry) -> None:
    peer.register("land", Schema(json.dumps(LAND)))
    needs_land = [("shop.Land", "land", 1)]
    peer.register("shop/address", Schema(json.dumps(ADDRESS), references=needs_land))
    both = [("shop.Address", "shop/address", 1), *needs_land]
    number = peer.register("customers", Schema(json.dumps(CUSTOMER), references=both))
    place = {"city": "Köln", "land": "DE"}
    whole = json.loads(json.dumps(CUSTOMER))
    whole["fields"][0]["type"] = json.loads(json.dumps(ADDRESS))
    whole["fields"][0]["type"]["fields"][1]["type"] = LAND
    found = read(peer, framed(number, avro(whole, {"home": place, "work": place})))
    assert found.value == {"home": place, "work": place}
    assert peer.asked == [
        f"/schemas/ids/{number}",
        "/subjects/shop%2Faddress/versions/1",
        "/subjects/land/versions/1",
    ]


def test_a_schema_that_needs_too_many_others_is_refused(peer: TestRegistry) -> None:
    for each in range(MOST_REFERENCES + 1):
        peer.register(f"s{each}", Schema('"int"', references=[("next", f"s{each + 1}", 1)]))
    found = read(peer, framed(1, b"\x02"))
    assert found.error == f"Schema 1 cannot be used: it needs more than {MOST_REFERENCES} others."


def test_a_text_and_json(peer: TestRegistry) -> None:
    text = peer.register("keys", Schema('"string"'))
    found = read(peer, framed(text, avro("string", "käse")))
    assert (found.text, found.is_structured, found.name) == ("käse", False, "string")
    titled = peer.register("json", Schema('{"title": "Order", "type": "object"}', "JSON"))
    found = read(peer, framed(titled, b'{"id": 12345678901234567890}'))
    assert (found.text, found.name) == ('{"id": 12345678901234567890}', "Order")


def protobuf_files() -> tuple[FileDescriptorProto, FileDescriptorProto]:
    """Return a file with a type in another one, and the file that it imports."""
    kind = FieldDescriptorProto
    money = FileDescriptorProto(name="money.proto", package="shop", syntax="proto3")
    money.message_type.add(name="Money").field.add(
        name="cents", number=1, type=kind.TYPE_INT64, label=kind.LABEL_OPTIONAL
    )
    orders = FileDescriptorProto(name="orders.proto", package="shop", syntax="proto3")
    orders.dependency.extend(
        ["money.proto", "google/protobuf/timestamp.proto", "confluent/meta.proto"]
    )
    orders.message_type.add(name="First")
    outer = orders.message_type.add(name="Outer")
    inner = outer.nested_type.add(name="Inner")
    one = kind.LABEL_OPTIONAL
    inner.field.add(name="unit_price", number=1, type=kind.TYPE_MESSAGE, label=one,
                    type_name=".shop.Money")  # fmt: skip
    inner.field.add(name="at", number=2, type=kind.TYPE_MESSAGE, label=one,
                    type_name=".google.protobuf.Timestamp")  # fmt: skip
    inner.field.add(name="name", number=3, type=kind.TYPE_STRING, label=one)
    return money, orders


def inner_message(**fields: Any) -> bytes:
    """Return a message of the type in another one, as Protobuf writes it."""
    money, orders = protobuf_files()
    orders.dependency.remove("confluent/meta.proto")
    pool = descriptor_pool.DescriptorPool()
    for each in (timestamp_pb2.DESCRIPTOR.serialized_pb, money.SerializeToString(),
                 orders.SerializeToString()):  # fmt: skip
        pool.AddSerializedFile(each)
    message_type = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Outer.Inner"))
    data: bytes = message_type(**fields).SerializeToString()
    return data


def test_protobuf_finds_the_type_by_its_indexes_and_the_imports(peer: TestRegistry) -> None:
    money, orders = protobuf_files()
    peer.register("money", Schema("no text is read", "PROTOBUF", descriptor=money))
    number = peer.register(
        "orders-value",
        Schema("syntax...", "PROTOBUF", [("money.proto", "money", 1)], orders),
    )
    fields = {"unit_price": {"cents": 250}, "at": {"seconds": 1}, "name": "tea"}
    # Two indexes, 1 and 0, as zigzag varints.
    found = read(peer, framed(number, inner_message(**fields), b"\x04\x02\x00"))
    assert found.error is None
    assert found.value == {
        "unit_price": {"cents": "250"},
        "at": "1970-01-01T00:00:01Z",
        "name": "tea",
    }
    assert found.name == "shop.Outer.Inner"
    first = read(peer, framed(number, b"", b"\x00"))
    assert (first.name, first.value) == ("shop.First", {})


@pytest.mark.parametrize(
    ("indexes", "text"),
    [
        (b"\x02\x12", "the schema has no message type 9"),
        (b"\x04\x02", "the indexes of the message type are cut off"),
        (b"\x01", "-1 indexes of a message type"),
        (b"\xff\xff\xff\xff\xff\x01", "the indexes of the message type are cut off"),
    ],
)
def test_indexes_that_lead_nowhere(peer: TestRegistry, indexes: bytes, text: str) -> None:
    money, _ = protobuf_files()
    number = peer.register("money", Schema("", "PROTOBUF", descriptor=money))
    found = read(peer, framed(number, b"", indexes))
    assert found.error == f"The bytes do not fit schema {number}: {text}."


def test_indexes_are_those_of_the_specification() -> None:
    assert message_indexes(b"\x00rest") == ((0,), b"rest")
    assert message_indexes(b"\x02\x80\x01rest") == ((64,), b"rest")
    with pytest.raises(BadIndexes):
        message_indexes(b"")


def test_a_registry_without_descriptors_and_a_missing_import_are_said(peer: TestRegistry) -> None:
    _, orders = protobuf_files()
    text = peer.register("text", Schema('syntax = "proto3";', "PROTOBUF"))
    assert "does not know ?format=serialized" in str(read(peer, framed(text, b"", b"\0")).error)
    alone = peer.register("alone", Schema("", "PROTOBUF", descriptor=orders))
    found = read(peer, framed(alone, b"", b"\0"))
    assert found.error == (
        f"Schema {alone} cannot be used: the registry does not name the import money.proto."
    )


@pytest.mark.parametrize(
    ("schema", "body"),
    [
        (NODE, b"\x02" * 200_000 + b"\x00"),
        (NULLS, b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00"),
        ("string", b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
        ("string", b"\x04a"),
        ("int", b"\x02\x02"),
        ("string", b"\x02\xff"),
    ],
)
def test_bytes_that_do_not_fit_their_schema_end_in_a_reason(
    peer: TestRegistry, schema: Any, body: bytes
) -> None:
    number = peer.register("odd", Schema(json.dumps(schema)))
    found = read(peer, framed(number, body))
    assert found.value is None
    assert str(found.error).startswith(f"The bytes do not fit schema {number}: ")
    assert len(str(found.error)) < 400


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        (Schema("{"), "cannot be used"),
        (Schema('{"type": "nothing"}'), "cannot be used"),
        (Schema("message Order", "THRIFT"), "of an unknown kind: THRIFT"),
    ],
)
def test_a_schema_that_cannot_be_used_is_said(
    peer: TestRegistry, schema: Schema, text: str
) -> None:
    number = peer.register("odd", schema)
    assert text in str(read(peer, framed(number, b"\0")).error)


def test_bytes_without_the_form_ask_nobody(peer: TestRegistry) -> None:
    small_long = (5).to_bytes(8, "big")
    for data in (None, b"", b"\0\0\0\0", b"text that is longer", small_long, b'{"a": 1}'):
        assert reader(peer).decode(data) is None
    assert peer.asked == []


def test_schemas_are_read_once_and_unknown_ids_rarely(peer: TestRegistry) -> None:
    number, decode = peer.register("n", Schema('"int"')), reader(peer).decode
    for _ in range(3):
        for each in (number, 77):
            decode(framed(each, b"\x02"))
    assert peer.asked == [f"/schemas/ids/{number}", "/schemas/ids/77"]
    unknown = decode(framed(77, b"\x02"))
    assert unknown is not None
    assert unknown.error == (
        "The schema registry answers schema 77 with HTTP 404: Schema not found."
    )
    peer.is_ill = True
    ill = decode(framed(78, b"\x02"))
    assert ill is not None
    assert "HTTP 500: the store is away" in str(ill.error)
    # What is known stays known.
    known = decode(framed(number, b"\x02"))
    assert known is not None
    assert known.value == 1


def test_a_registry_that_is_away_is_asked_once_for_all_ids() -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        address = f"127.0.0.1:{unused.getsockname()[1]}"
    decode = Registry(RegistryAddress.of(f"http://user:secret@{address}")).decode
    errors = {str(each.error) for n in range(1, 500) if (each := decode(framed(n, b"")))}
    assert errors == {f"No schema registry reached at http://{address}: Connection refused."}


def test_user_and_password_are_sent_and_never_shown(peer: TestRegistry) -> None:
    number = peer.register("n", Schema('"int"'))
    peer.authorization = "Basic " + base64.b64encode(b"me:p@ss/word").decode()
    secret = peer.url.replace("//", "//me:p%40ss%2Fword@") + "/"
    address = RegistryAddress.of(secret)
    assert address.shown == peer.url
    found = Registry(address).decode(framed(number, b"\x02"))
    assert found is not None
    assert found.value == 1
    refused = Registry(RegistryAddress.of(peer.url)).decode(framed(number, b"\x02"))
    assert refused is not None
    assert "HTTP 401: Unauthorized" in str(refused.error)
    for url in ("ftp://me:secret@h:1", "http://me:secret@h:x", "http://me:secret@:1", "me:secret"):
        with pytest.raises(ValueError, match="a URL such as http") as caught:
            RegistryAddress.of(url)
        assert "secret" not in str(caught.value)


def test_a_path_before_the_api_is_kept(peer: TestRegistry) -> None:
    Registry(RegistryAddress.of(f"{peer.url}/apis/ccompat/v7/")).decode(framed(1, b""))
    assert peer.asked == ["/apis/ccompat/v7/schemas/ids/1"]
