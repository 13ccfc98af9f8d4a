"""`meta.properties`: the node and cluster that a data directory belongs to."""

from typing import NamedTuple

from coterie.storage.checkpoints import read_file, replace_file
from coterie.storage.errors import CorruptLog, DirectoryMismatch
from coterie.storage.filesystem import FileSystem
from coterie.storage.properties import PropertiesError, properties_text, read_properties
from coterie.storage.seals import check_properties, seal_properties

META_FILE = "meta.properties"

_VERSION = "1"
_KNOWN_VERSIONS = ("0", _VERSION)


class MetaProperties(NamedTuple):
    """The contents of the file [log/directory-layout]. Absent properties are None.

    Attributes:
        version: of the file.
        node_id: the broker's id, in decimal digits.
        cluster_id: the cluster's id.
        directory_id: the directory's id, which Kafka has since KRaft.
    """

    version: str | None
    node_id: str | None
    cluster_id: str | None
    directory_id: str | None

    @property
    def is_known_version(self) -> bool:
        """Whether the file is of a version that we know."""
        return self.version in _KNOWN_VERSIONS

    def check(self, directory: str, node_id: int) -> None:
        """Check that the file is of a version that we know, and the directory of a node.

        Raises:
            DirectoryMismatch: one of them is not.
        """
        path = f"{directory}/{META_FILE}"
        if not self.is_known_version:
            raise DirectoryMismatch(f"{path}: version {self.version} is not 0 or 1")
        if self.node_id != str(node_id):
            raise DirectoryMismatch(
                f"{path}: the directory is of node {self.node_id}, this is node {node_id}"
            )


def read_meta(filesystem: FileSystem, directory: str) -> MetaProperties | None:
    """Return the contents of a data directory's `meta.properties`; None if there is none.

    Raises:
        CorruptLog: the file is not a properties file.
        OSError: it cannot be read.
    """
    path = f"{directory}/{META_FILE}"
    text = read_file(filesystem, path)
    if text is None:
        return None
    check_properties(path, text)
    try:
        found = read_properties(text)
    except PropertiesError as error:
        raise CorruptLog(path, 0, str(error)) from None
    return MetaProperties(
        found.get("version"),
        # Kafka called it broker.id before KRaft.
        found.get("node.id", found.get("broker.id")),
        found.get("cluster.id"),
        found.get("directory.id"),
    )


def write_meta(
    filesystem: FileSystem,
    directory: str,
    *,
    node_id: int,
    cluster_id: str,
    directory_id: str,
    durable: bool,
) -> MetaProperties:
    """Write and return the `meta.properties` of a new data directory.

    Args:
        filesystem: where the directory is.
        directory: the data directory.
        node_id: the broker's id.
        cluster_id: the cluster's id.
        directory_id: the directory's id.
        durable: whether the file must survive a loss of power.

    Raises:
        OSError: it cannot be written.
    """
    meta = {
        "version": _VERSION,
        "cluster.id": cluster_id,
        "node.id": str(node_id),
        "directory.id": directory_id,
    }
    path = f"{directory}/{META_FILE}"
    text = seal_properties(path, properties_text(meta))
    replace_file(filesystem, path, text, durable=durable)
    return MetaProperties(_VERSION, str(node_id), cluster_id, directory_id)
