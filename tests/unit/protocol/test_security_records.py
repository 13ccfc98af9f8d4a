"""Records of the security log: the bytes that Kafka 4.3.1 writes to its metadata log."""

import pytest

from coterie.protocol.errors import MalformedFrame
from coterie.protocol.messages.security_records import (
    AccessControlEntryRecord,
    DelegationTokenRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    SecurityRecord,
    UserScramCredentialRecord,
    decode_security_record,
    encode_security_record,
)

_STORED = "8891dfa0f95377c8e96766608cdc91a8a7d88cde1f4328dc6058ff797b634272"
_SERVER = "f098b847d55ce056159640c73ac153dc232295d4ba4733351de369f9155ca30a"
_RULE = bytes.fromhex("e2b86476a0974e8bb4b264bb6c5870ed")

# Read from the log of a running Kafka, except the token's id.
GOLDEN: list[tuple[SecurityRecord, str]] = [
    (
        UserScramCredentialRecord(
            name="fixed",
            mechanism=1,
            salt=b"123salty",
            stored_key=bytes.fromhex(_STORED),
            server_key=bytes.fromhex(_SERVER),
            iterations=4096,
        ),
        f"010b00 066669786564 01 09 31323373616c7479 21 {_STORED} 21 {_SERVER} 00001000 00",
    ),
    (RemoveUserScramCredentialRecord(name="u1", mechanism=1), "011600 037531 01 00"),
    (
        AccessControlEntryRecord(
            id=_RULE,
            resource_type=4,
            resource_name="kafka-cluster",
            pattern_type=3,
            principal="User:alice",
            host="*",
            operation=8,
            permission_type=3,
        ),
        (
            "011200 e2b86476a0974e8bb4b264bb6c5870ed 04 0e6b61666b612d636c7573746572 03"
            " 0b557365723a616c696365 022a 08 03 00"
        ),
    ),
    (RemoveAccessControlEntryRecord(id=_RULE), f"011300 {_RULE.hex()} 00"),
    (
        DelegationTokenRecord(
            owner="User:alice",
            requester="User:alice",
            renewers=["User:bob"],
            issue_timestamp=0x1A201B5AE29,
            max_timestamp=0x1A225C23229,
            expiration_timestamp=0x1A206DC0A29,
            token_id="token",
        ),
        (
            "010a00 0b557365723a616c696365 0b557365723a616c696365 02 09557365723a626f62"
            " 000001a201b5ae29 000001a225c23229 000001a206dc0a29 06 746f6b656e 00"
        ),
    ),
    (RemoveDelegationTokenRecord(token_id="token"), "011a00 06 746f6b656e 00"),
]


@pytest.mark.parametrize(("record", "text"), GOLDEN, ids=lambda each: type(each).__name__)
def test_the_bytes_are_those_of_kafka(record: SecurityRecord, text: str) -> None:
    assert encode_security_record(record).hex() == text.replace(" ", "")
    assert decode_security_record(bytes.fromhex(text)) == record


@pytest.mark.parametrize(("record", "text"), GOLDEN, ids=lambda each: type(each).__name__)
def test_a_part_of_a_record_is_refused(record: SecurityRecord, text: str) -> None:
    value = bytes.fromhex(text)
    for length in range(len(value)):
        with pytest.raises(MalformedFrame):
            decode_security_record(value[:length])
    with pytest.raises(MalformedFrame):
        decode_security_record(value + b"\0")


@pytest.mark.parametrize("text", ["020b00", "012a00", "010b01", "ffffffffff"])
def test_another_frame_type_or_version_is_refused(text: str) -> None:
    with pytest.raises(MalformedFrame):
        decode_security_record(bytes.fromhex(text))
