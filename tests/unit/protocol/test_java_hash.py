"""Java's string hash and the partition of a group: Kafka's values, and a plain implementation.

Rules: [coordinator/partition].
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.protocol.java_hash import java_hash, partition_for

# Group id, its Java hash where Kafka was asked for it, its partition of 50 and of 16.
KAFKA_VALUES = [
    ("grp", 102629, 29, 5),
    ("test", None, 48, 2),
    ("my-group", -1906497762, 12, 2),
    ("consumer-group-1", None, 20, 12),
    ("", 0, 0, 0),
    ("polygenelubricants", -(2**31), 0, 0),
    ("größe", 98762257, 7, 1),
    ("グループ", 383750870, 20, 6),
    ("😀", 1772899, 49, 3),
    ("connect-cluster", None, 13, 7),
]


@pytest.mark.parametrize(("group_id", "hashed", "of_50", "of_16"), KAFKA_VALUES)
def test_hash_and_partition_are_those_of_kafka(
    group_id: str, hashed: int | None, of_50: int, of_16: int
) -> None:
    assert hashed is None or java_hash(group_id) == hashed
    assert partition_for(group_id, 50) == of_50
    assert partition_for(group_id, 16) == of_16


def plain_hash(text: str) -> int:
    """Return String.hashCode as its documentation defines it, one UTF-16 unit at a time."""
    value = 0
    for character in text:
        point = ord(character)
        units = [point]
        if point > 0xFFFF:
            units = [0xD800 + ((point - 0x10000) >> 10), 0xDC00 + ((point - 0x10000) & 0x3FF)]
        for unit in units:
            value = (value * 31 + unit) % 2**32
    return value if value < 2**31 else value - 2**32


@given(st.text(st.characters(codec="utf-8"), max_size=40))
def test_hash_equals_the_plain_implementation(text: str) -> None:
    assert java_hash(text) == plain_hash(text)


@given(st.text(max_size=40), st.integers(1, 200))
def test_every_string_has_a_partition(text: str, partitions: int) -> None:
    """Also strings with lone surrogates, which Java and Python allow."""
    assert 0 <= partition_for(text, partitions) < partitions


def test_surrogates_are_hashed_as_units() -> None:
    assert java_hash("\ud83d") == 0xD83D
    assert java_hash("\ud83d\ude00") == java_hash("😀")
