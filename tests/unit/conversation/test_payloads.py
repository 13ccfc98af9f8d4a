"""Subscriptions and assignments as clients send them have a form in words, not in hexadecimal."""

import pytest

from coterie.conversation.payloads import (
    assignment_bytes,
    assignment_text,
    subscription_bytes,
    subscription_text,
)
from coterie.conversation.syntax import TranscriptError

# Sent by kafka-python 3.0.12, librdkafka 2.16.1 and the Java client 4.3.1, by the last with the
# cooperative assignor, and with a rack that is null.
SUBSCRIPTIONS = {
    "0000 00000001 000573616c6573 00000000": 'sales data ""',
    "0003 00000001 000573616c6573 00000000 00000000 ffffffff 0000": (
        'sales owned none generation -1 rack "" data ""'
    ),
    "0003 00000001 000573616c6573 ffffffff 00000000 ffffffff ffff": (
        "sales owned none generation -1 rack null"
    ),
    "0003 00000001 000573616c6573 00000004 00000007 00000001 000573616c6573 00000001 00000002"
    " 00000007 ffff": "sales owned sales-2 generation 7 rack null data 0x00000007",
    "0000 00000001 000573616c6573 ffffffff": "sales",
}
ASSIGNMENTS = {
    "0000 00000000 00000000": 'none data ""',
    "0000 00000001 000573616c6573 00000002 00000000 00000001 00000000": 'sales-0 sales-1 data ""',
    "0003 00000001 000573616c6573 00000001 00000000 ffffffff": "sales-0 version 3",
    "0000 00000000 ffffffff": "none",
    "": '""',
}
# Bytes without such a form: a topic that is called as a part is, versions of the future, others.
BARE_SUBSCRIPTIONS = (
    "0000 00000001 000464617461 ffffffff",
    "0000 00000001 000a67656e65726174696f6e ffffffff",
    "0009 00000001 000573616c6573 00000000 00000000 ffffffff 0000 01",
    "00ff",
)


def test_partition_of_a_topic_without_a_name_stays_as_it_is() -> None:
    data = bytes.fromhex("0000 00000001 0000 00000001 00000000 ffffffff")
    assert assignment_text(data) == f"0x{data.hex()}"


@pytest.mark.parametrize(("data", "text"), SUBSCRIPTIONS.items())
def test_subscription_of_a_client_is_text(data: str, text: str) -> None:
    assert subscription_text(bytes.fromhex(data)) == text
    assert subscription_bytes(text) == bytes.fromhex(data)


@pytest.mark.parametrize(("data", "text"), ASSIGNMENTS.items())
def test_assignment_of_a_client_is_text(data: str, text: str) -> None:
    assert assignment_text(bytes.fromhex(data)) == text
    assert assignment_bytes(text) == bytes.fromhex(data)


@pytest.mark.parametrize("data", BARE_SUBSCRIPTIONS)
def test_other_bytes_stay_as_they_are(data: str) -> None:
    text = subscription_text(bytes.fromhex(data))
    assert text == "0x" + data.replace(" ", "")
    assert subscription_bytes(text) == bytes.fromhex(data)


def test_user_data_are_bytes() -> None:
    with pytest.raises(TranscriptError, match=r"user data are 0x\.\.\. or"):
        subscription_bytes("sales data something")
