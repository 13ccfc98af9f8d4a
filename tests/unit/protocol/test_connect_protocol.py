"""The metadata and assignments of Kafka Connect's workers."""

import pytest

from coterie.protocol.errors import MalformedFrame
from coterie.protocol.messages.connect_protocol import (
    ConnectAssignment,
    ConnectorTasks,
    ConnectWorkerMetadata,
    decode_assignment,
    decode_metadata,
    decode_worker,
    encode_assignment,
    encode_metadata,
)

URL = b"http://127.0.0.1:18583/".hex()
LEADER = b"connect-127.0.0.1:18583-a3113329-2e55-4a23-9ad7-4a1006c0b02e".hex()
HEAD = f"0002 0000 003c {LEADER} 0017 {URL} 0000000000000007"
# As workers of Connect 4.3.1 sent them: the worker runs the connector and four tasks, and has to
# stop tasks 1 and 3.
METADATA = bytes.fromhex(
    f"0002 0017 {URL} 0000000000000007 0000008e {HEAD} 00000001 0005 73696e6b34"
    " 00000005 ffffffff 00000001 00000003 00000000 00000002 00000000 00000000"
)
REVOCATION = bytes.fromhex(
    f"{HEAD} 00000000 00000001 0005 73696e6b34 00000002 00000001 00000003 00000000"
)
DELAY = bytes.fromhex(f"{HEAD} 00000000 00000000 00001388")
NEW_WORKER = bytes.fromhex(f"0002 0017 {URL} ffffffffffffffff ffffffff")


def test_messages_have_the_bytes_of_connect() -> None:
    for data in (METADATA, NEW_WORKER):
        assert encode_metadata(decode_metadata(data)) == data
    for data in (REVOCATION, DELAY):
        assert encode_assignment(decode_assignment(data)) == data


def test_a_new_worker_runs_nothing_until_it_is_assigned_something() -> None:
    worker = decode_worker(NEW_WORKER, b"")
    assert (worker.url, worker.config_offset, worker.running) == ("http://127.0.0.1:18583/", -1, {})


def test_a_worker_runs_what_it_had_without_what_is_revoked() -> None:
    worker = decode_worker(METADATA, REVOCATION)
    assert worker.running == {"sink4": [-1, 0, 2]}
    assert worker.revoked == {"sink4": [1, 3]}


def test_an_assignment_adds_to_what_a_worker_runs() -> None:
    more = ConnectAssignment(assigned=[ConnectorTasks(connector="a", tasks=[5])], revoked=[])
    worker = decode_worker(METADATA, encode_assignment(more))
    assert worker.running == {"a": [5], "sink4": [-1, 0, 1, 2, 3]}


def test_lost_tasks_wait_for_the_delay() -> None:
    assert decode_worker(METADATA, DELAY).delay_ms == 5_000


def test_an_assignment_of_the_eager_protocol_is_everything_that_a_worker_runs() -> None:
    metadata = encode_metadata(ConnectWorkerMetadata(url="u", config_offset=1), version=0)
    assert metadata.hex() == "0000000175" + "0000000000000001"
    eager = ConnectAssignment(assigned=[ConnectorTasks(connector="a", tasks=[-1, 0])])
    assert decode_worker(metadata, encode_assignment(eager, version=0)).running == {"a": [-1, 0]}


@pytest.mark.parametrize("data", [b"", b"\x00", b"\xff\xff", METADATA[:-1], METADATA[:9]])
def test_malformed_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(MalformedFrame):
        decode_worker(data, b"")
