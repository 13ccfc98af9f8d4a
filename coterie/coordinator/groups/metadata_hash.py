"""The hash by which a group notices that its topics have changed [consumer-groups/metadata-hash].

The value is Kafka's, so that a Kafka that continues the log does not bump the epoch of each group.
"""

from collections.abc import Iterable
from functools import lru_cache
from struct import pack

from coterie.coordinator.topic_image import TopicImage, TopicsImage

# Topics whose hash is kept; computing one takes some ten nanoseconds for each partition,
# and two microseconds if brokers have racks.
_KEPT_TOPICS = 16_384
_SIGN = 1 << 63


def metadata_hash(names: Iterable[str], topics: TopicsImage) -> int:
    """Return the hash of those of some topics that exist; 0 if there are none.

    Args:
        names: the topics, in any order.
        topics: the topics of the cluster.
    """
    by_name = topics.by_name
    found = _sorted_as_in_java([name for name in names if name in by_name])
    if not found:
        return 0
    return _xxh3(pack(f"<{len(found)}q", *[_topic_hash(by_name[name]) for name in found]))


@lru_cache(maxsize=_KEPT_TOPICS)
def _topic_hash(topic: TopicImage) -> int:
    # Kafka hashes the halves of the id as numbers, which it writes in the other order.
    halves = topic.topic_id[7::-1] + topic.topic_id[:7:-1]
    count = topic.partitions
    parts = [b"\0", halves, _text(topic.name), pack("<i", count)]
    if not topic.racks:
        parts.append(pack(f"<{count}i", *range(count)))
        return _xxh3(b"".join(parts))
    for index in range(count):
        parts.append(pack("<i", index))
        racks = topic.racks[index] if index < len(topic.racks) else ()
        for rack in sorted(racks, key=_java_order):
            parts += (pack("<i", _units(rack)), _text(rack))
    return _xxh3(b"".join(parts))


def _sorted_as_in_java(names: list[str]) -> list[str]:
    # Names of topics are ASCII, whose order is the same, and three times as fast.
    return sorted(names) if "".join(names).isascii() else sorted(names, key=_java_order)


def _java_order(text: str) -> bytes:
    return text.encode("utf-16-be", "surrogatepass")


def _units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _text(text: str) -> bytes:
    encoded = text.encode("utf-16-le", "surrogatepass")
    return encoded + pack("<i", len(encoded) // 2)


def _xxh3(data: bytes) -> int:
    """Return the hash as a signed number."""
    # Imported at the first use, so that a broker without consumer groups starts without it.
    import xxhash

    found: int = (xxhash.xxh3_64_intdigest(data) ^ _SIGN) - _SIGN
    assert -_SIGN <= found < _SIGN, "a hash is a signed number of 64 bits"
    return found
