"""Secrets are in no recording, and payloads only if they are wanted."""

from pathlib import Path
from struct import pack
from typing import Any

import pytest
from click.testing import CliRunner

from coterie.cli.main import main
from coterie.conversation.batches import read_batch_headers
from coterie.protocol.api_keys import ApiKey
from coterie.protocol.apis import request_class
from coterie.protocol.messages.fetch import (
    FetchRequest,
    FetchResponse,
    FetchResponsePartition,
    FetchResponseTopic,
)
from coterie.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestConfig,
    IncrementalAlterConfigsRequestResource,
)
from coterie.protocol.messages.produce import (
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
)
from coterie.protocol.messages.share_fetch import (
    ShareFetchPartitionResponse,
    ShareFetchRequest,
    ShareFetchResponse,
    ShareFetchTopicResponse,
)
from coterie.protocol.messages.share_session_parts import ShareLeader
from coterie.protocol.record_writer import encode_batch
from coterie.recording.files import read
from coterie.recording.format import Entry, Flag, Kind
from coterie.recording.recorder import Observation
from coterie.server.config.keys import GROUP_RESOURCE
from tests.unit.recording.written import START_MS, header, opened, request, response, write

BATCH = encode_batch([(b"k1", b"mellon"), (b"k2", None)], 7, START_MS)


def raw(api: int, version: int, body: bytes, number: int = 1) -> Observation:
    frame = pack(">hhih", api, version, number, 2) + b"c1" + body
    return Observation(Kind.REQUEST, 1, START_MS, len(frame).to_bytes(4) + frame)


def answer(body: bytes, number: int = 1) -> Observation:
    frame = number.to_bytes(4) + body
    return Observation(Kind.RESPONSE, 1, START_MS, len(frame).to_bytes(4) + frame)


def recorded(tmp_path: Path, *observed: Observation, **options: Any) -> list[Entry]:
    path = write(tmp_path / "r", [opened(), *observed], head=header(**options))
    assert b"mellon" not in Path(path).read_bytes() or options
    return read(path).entries[1:]


@pytest.mark.parametrize("api", [36, 38, 39, 40, 41, 51, 58, 93, 200])
def test_secret_and_unknown_apis_have_no_body(tmp_path: Path, api: int) -> None:
    """[recording/secrets]"""
    asked, answered = recorded(tmp_path, raw(api, 1, b"\0mellon"), answer(b"\0mellon"))
    assert asked.flags is answered.flags is Flag.REDACTED
    assert asked.data[:8] == pack(">hhi", api, 1, 1)
    assert answered.data == (1).to_bytes(4)


def test_a_recording_with_a_login_is_replayed(tmp_path: Path) -> None:
    path = write(
        tmp_path / "r", [opened(), raw(36, 1, b"\0mellon"), answer(b"\0mellon")], head=header()
    )
    shown = CliRunner().invoke(main, ["replay", str(path)], catch_exceptions=False)
    assert "SaslAuthenticate v1 (redacted" in shown.output
    missed = CliRunner().invoke(main, ["replay", str(path), "--group", "g"], catch_exceptions=False)
    assert "No request of the recording is about group 'g'" in missed.output


def test_tokens_without_header_are_left_out(tmp_path: Path) -> None:
    """After SaslHandshake v0 a client sends the tokens of its mechanism as frames."""
    token = b"\0user\0mellon"
    sent = Observation(Kind.REQUEST, 1, START_MS, len(token).to_bytes(4) + token)
    later = raw(18, 0, b"", number=3)
    entries = recorded(
        tmp_path, raw(17, 0, b"\0\x05PLAIN"), answer(b"\0\0"), sent,
        Observation(Kind.RESPONSE, 1, START_MS, (6).to_bytes(4) + b"mellon"), later, answer(b"", 3),
    )  # fmt: skip
    assert [e.flags for e in entries] == [0, 0, Flag.REDACTED, Flag.REDACTED, 0, 0]


def test_secret_settings_are_replaced(tmp_path: Path) -> None:
    values = {
        "ssl.keystore.password": "[hidden]",
        "listener.name.external.scram-sha-256.sasl.jaas.config": "[hidden]",
        "nobody.knows.this": "[hidden]",
        "num.partitions": "mellon3",
    }
    sent = {name: "mellon" if value == "[hidden]" else "3" for name, value in values.items()}
    configs = [
        IncrementalAlterConfigsRequestConfig(name=name, config_operation=0, value=value)
        for name, value in sent.items()
    ]
    resource = IncrementalAlterConfigsRequestResource(
        resource_type=4, resource_name="1", configs=configs
    )
    of_group = IncrementalAlterConfigsRequestResource(
        resource_type=GROUP_RESOURCE,
        resource_name="orders",
        configs=[
            IncrementalAlterConfigsRequestConfig(name=name, config_operation=0, value="4")
            for name in ("consumer.session.timeout.ms", "nobody.knows.this")
        ],
    )
    message = IncrementalAlterConfigsRequest(resources=[resource, of_group], validate_only=False)
    (entry,) = recorded(tmp_path, request(message, 1))
    assert entry.flags is Flag.HIDDEN
    found = request_class(ApiKey.INCREMENTAL_ALTER_CONFIGS).decode(entry.data, 1, 13)
    assert isinstance(found, IncrementalAlterConfigsRequest)
    assert [each.value for resource in found.resources for each in resource.configs] == [
        "[hidden]", "[hidden]", "[hidden]", "3", "4", "[hidden]",
    ]  # fmt: skip


def test_version_of_settings_that_is_not_known_has_no_body(tmp_path: Path) -> None:
    (entry,) = recorded(tmp_path, raw(44, 9, b"mellon"))
    assert entry.flags is Flag.REDACTED


def produce() -> ProduceRequest:
    partition = ProduceRequestPartition(index=0, records=BATCH + BATCH)
    topic = ProduceRequestTopic(name="sales", partition_data=[partition])
    return ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[topic])


def fetched() -> FetchResponse:
    partition = FetchResponsePartition(
        partition_index=0, error_code=0, high_watermark=9, aborted_transactions=None, records=BATCH
    )
    return FetchResponse(responses=[FetchResponseTopic(topic="sales", partitions=[partition])])


def test_of_payloads_only_batch_headers_are_kept(tmp_path: Path) -> None:
    """[recording/payloads]"""
    fetch = FetchRequest(max_wait_ms=1, min_bytes=1, topics=[])
    asked, _, answered = recorded(
        tmp_path,
        request(produce(), 9),
        request(fetch, 12, 2),
        response(ApiKey.FETCH, fetched(), 12, 2),
    )
    assert asked.flags is answered.flags is Flag.WITHOUT_PAYLOADS
    message: Any = request_class(ApiKey.PRODUCE).decode(asked.data, 9, 13)
    headers = read_batch_headers(message.topic_data[0].partition_data[0].records)
    assert [(h.base_offset, h.record_count, h.length_bytes) for _, h in headers] == 2 * [
        (7, 2, len(BATCH))
    ]


def test_of_shared_records_only_batch_headers_are_kept(tmp_path: Path) -> None:
    """[recording/payloads]"""
    fetch = ShareFetchRequest(
        group_id="g",
        member_id="m",
        share_session_epoch=0,
        max_wait_ms=1,
        min_bytes=1,
        max_records=1,
        batch_size=1,
        topics=[],
        forgotten_topics_data=[],
    )
    partition = ShareFetchPartitionResponse(
        partition_index=0,
        error_code=0,
        acknowledge_error_code=0,
        current_leader=ShareLeader(leader_id=0, leader_epoch=0),
        records=BATCH,
        acquired_records=[],
    )
    topic = ShareFetchTopicResponse(topic_id=bytes(16), partitions=[partition])
    shared = ShareFetchResponse(responses=[topic], node_endpoints=[])
    _, answered = recorded(tmp_path, request(fetch, 1), response(ApiKey.SHARE_FETCH, shared, 1))
    assert answered.flags is Flag.WITHOUT_PAYLOADS
    assert b"mellon" in BATCH
    assert b"mellon" not in answered.data


def test_payloads_are_kept_if_they_are_wanted(tmp_path: Path) -> None:
    (asked,) = recorded(tmp_path, request(produce(), 9), with_payloads=True)
    assert asked.data == request(produce(), 9).data[4:]
