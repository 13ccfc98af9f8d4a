"""`coterie topics produce`, against a scripted broker."""

from typing import Any

import pytest

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.produce import (
    ProduceRequest,
    ProduceResponse,
    ProduceResponsePartition,
    ProduceResponseTopic,
)
from coterie.protocol.records import decode_records, read_header
from tests.unit.cli.command import rows_of, run
from tests.unit.client.fake_broker import FakeBroker


def producing(error: int = 0) -> Any:
    """Respond to Produce."""

    def respond(request: Any, _: int) -> ProduceResponse:
        (topic,) = request.topic_data
        part = ProduceResponsePartition(
            index=topic.partition_data[0].index, error_code=error, base_offset=-1 if error else 7
        )
        return ProduceResponse(
            responses=[
                ProduceResponseTopic(
                    name=topic.name, topic_id=topic.topic_id, partition_responses=[part]
                )
            ]
        )

    return respond


def broker(error: int = 0) -> FakeBroker:
    """Return a broker with a topic of two partitions."""
    return FakeBroker({ApiKey.PRODUCE: producing(error)}, topics={"t": 2})


@pytest.mark.parametrize(
    ("words", "key", "value"),
    [
        ((), None, b""),
        (("--key", "k", "--value", "v"), b"k", b"v"),
        (("--key", "00ff", "--key-format", "hex", "--value-format", "null"), b"\x00\xff", None),
        (("--value", '{"a": 1}', "--value-format", "json"), None, b'{"a": 1}'),
        (("--value=--hyphens",), None, b"--hyphens"),
    ],
)
def test_a_record_is_appended(
    words: tuple[str, ...], key: bytes | None, value: bytes | None
) -> None:
    with broker() as responding:
        more = ("--partition", "1", "--header", "a=b=c")
        result = run(responding, "topics", "produce", "t", *more, *words)
        (sent,) = responding.seen(ApiKey.PRODUCE)
    assert result.stdout == "Appended a record to t-1 at offset 7.\n"
    assert isinstance(sent, ProduceRequest)
    data = bytes(sent.topic_data[0].partition_data[0].records or b"")
    (record,) = decode_records(data, read_header(data))
    assert (record.key, record.value, record.headers) == (key, value, (("a", b"b=c"),))


def test_json_has_the_offset() -> None:
    with broker() as responding:
        result = run(responding, "topics", "produce", "t", "--json")
    assert rows_of(result) == {"topic": "t", "partition": 0, "offset": 7, "error": None}


def test_a_refused_record_is_an_error() -> None:
    with broker(ErrorCode.MESSAGE_TOO_LARGE) as responding:
        result = run(responding, "topics", "produce", "t")
    assert result.exit_code == 1
    assert "A record for t-0: MESSAGE_TOO_LARGE" in result.stderr


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--value", "{", "--value-format", "json"), "no json"),
        (("--key", "xyz", "--key-format", "hex"), "no hex"),
        (("--header", "nothing"), "NAME=TEXT"),
    ],
)
def test_what_is_no_record_is_a_usage_error(words: tuple[str, ...], text: str) -> None:
    result = run(None, "topics", "produce", "t", *words)
    assert result.exit_code == 2
    assert text in result.stderr
