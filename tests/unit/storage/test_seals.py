"""Checksums in small text files [recovery/sealed-files].

Kafka's own classes (4.3.1) were given such files, and read them as if they had no checksum:
OffsetCheckpointFile, LeaderEpochCheckpointFile, PartitionMetadataFile and MetaProperties.
"""

from collections.abc import Callable

import pytest

from coterie.storage.checkpoints import checkpoint_text, read_checkpoint
from coterie.storage.errors import CorruptLog
from coterie.storage.meta_properties import read_meta, write_meta
from coterie.storage.partition_directories import metadata_text, parse_metadata
from tests.unit.storage.conftest import Place

ID = bytes(range(16))


def checkpoint(place: Place) -> Callable[[], object]:
    entries = [("orders", 0, 17), ("a.b_c-d", 12, 1 << 40)]
    place.write("file", checkpoint_text("/data/file", entries).encode())
    return lambda: read_checkpoint(place.filesystem, "/data/file", 3)


def metadata(place: Place) -> Callable[[], object]:
    place.write("file", metadata_text(ID).encode())
    return lambda: parse_metadata("partition.metadata", place.read("file").decode(errors="replace"))


def meta(place: Place) -> Callable[[], object]:
    given = {"cluster_id": "a-cluster", "directory_id": "a-directory"}
    write_meta(place.filesystem, "/data", node_id=1, **given, durable=True)
    place.filesystem.rename("/data/meta.properties", "/data/file")

    def read() -> object:
        place.write("meta.properties", place.read("file"))
        found = read_meta(place.filesystem, "/data")
        if found is None or not found.is_known_version:
            # A directory of an unknown version is refused.
            raise CorruptLog("meta.properties", 0, "its version is unknown")
        return found

    return read


FILES = [checkpoint, metadata, meta]


@pytest.mark.parametrize("made", FILES)
def test_every_bit_flip_is_noticed_or_harmless(
    memory: Place, made: Callable[[Place], Callable[[], object]]
) -> None:
    read = made(memory)
    data, right, noticed = memory.read("file"), read(), 0
    for bit in range(8 * len(data)):
        changed = bytearray(data)
        changed[bit >> 3] ^= 1 << (bit & 7)
        memory.write("file", bytes(changed))
        try:
            assert read() == right
        except CorruptLog:
            noticed += 1
    assert noticed > 4 * len(data)


@pytest.mark.parametrize("made", FILES)
def test_every_truncation_is_noticed_or_harmless(
    memory: Place, made: Callable[[Place], Callable[[], object]]
) -> None:
    """Only an empty file is a checkpoint of Kafka, and no file of an empty directory is left."""
    read = made(memory)
    data, right = memory.read("file"), read()
    noticed = 0
    for size in range(1, len(data)):
        memory.write("file", data[:size])
        try:
            assert read() == right
        except CorruptLog:
            noticed += 1
    assert noticed > len(data) // 2


def test_files_without_a_checksum_are_accepted(memory: Place) -> None:
    memory.write("c", b"0\n1\norders 0 17\n")
    assert read_checkpoint(memory.filesystem, "/data/c", 3) == ([["orders", "0", "17"]], False)
    assert (
        parse_metadata("partition.metadata", "version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw") == ID
    )
    memory.write("meta.properties", b"version=1\nnode.id=1\n")
    assert read_meta(memory.filesystem, "/data") is not None


def test_files_of_different_names_cannot_be_exchanged(memory: Place) -> None:
    memory.write("one", checkpoint_text("/data/one", [("orders", 0, 17)]).encode())
    memory.write("two", memory.read("one"))
    with pytest.raises(CorruptLog, match="do not match their checksum"):
        read_checkpoint(memory.filesystem, "/data/two", 3)
