"""How a data directory was left the last time, and so what may be incomplete in each of its logs.

Kafka's mark of a clean stop says that everything was synced and closed [recovery/clean-stop]. Our
own file says whether the machine has been started again since, because only then can written data
be lost [recovery/boot-id]. A loss of power may bring an old version of our file back, or none; the
file is believed only if it names the present boot.

A loss of power may bring the mark back, too, if its removal was not synced. So after another boot
the mark counts for less: only the recovery points, which were written before it, are believed.

Logs that have not been opened when the process stops again are listed in our file, so that the next
start treats them as this one would have [recovery/boot-id].
"""

from coterie.storage.checkpoints import read_file, replace_file
from coterie.storage.errors import CorruptLog
from coterie.storage.filesystem import FileSystem
from coterie.storage.properties import PropertiesError, properties_text, read_properties
from coterie.storage.seals import check_properties, seal_properties
from coterie.storage.torn_tail import TailTrust

# Kafka 4.3 writes this text. The epoch of the broker is for its controller, and -1 says that it is
# not known. Before 3.7 the file was empty.
CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"
_CLEAN_SHUTDOWN_TEXT = '{"version":0,"brokerEpoch":-1}'
BOOT_FILE = "coterie-boot-id"
# The lists of unopened logs in our file: what may be incomplete in them, and whether they were
# written without syncs.
_LISTS = {
    "process-died": (TailTrust.PROCESS_DIED, False),
    "process-died-unsynced": (TailTrust.PROCESS_DIED, True),
    "power-lost": (TailTrust.POWER_LOST, False),
    "power-lost-unsynced": (TailTrust.POWER_LOST_UNSYNCED, True),
}

Key = tuple[str, int]


class LastStop:
    """What is known of the last stop, and the logs for which it still matters.

    Attributes:
        clean: whether the last stop was clean.
        same_boot: whether the machine has run on since.
    """

    def __init__(self, filesystem: FileSystem, path: str, *, durable: bool) -> None:
        """Read the files of the last stop. Nothing is changed yet.

        Args:
            filesystem: where the directory is.
            path: the data directory.
            durable: whether its logs are synced from now on.

        Raises:
            CorruptLog: our file is damaged.
            OSError: it cannot be read.
        """
        self._filesystem = filesystem
        self._path = path
        self._durable = durable
        self._boot_id = filesystem.boot_id()
        self._found = _read(filesystem, f"{path}/{BOOT_FILE}")
        self.clean = filesystem.exists(f"{path}/{CLEAN_SHUTDOWN_FILE}")
        self.same_boot = bool(self._boot_id) and self._found.get("boot-id") == self._boot_id
        # What may be incomplete in the logs that were not recovered since.
        self._trusts: dict[Key, TailTrust] = {}
        # Those of them that were written without syncs.
        self._unsynced: set[Key] = set()

    @property
    def synced(self) -> bool:
        """Whether durable files are as they were written."""
        return self.same_boot or self.clean or self._was_durable

    @property
    def _was_durable(self) -> bool:
        return self._found.get("durable") == "true"

    def begin(self, partitions: set[Key]) -> None:
        """Note that these logs exist and that we use them from now on. Raises OSError."""
        assert not self._trusts, "a directory is taken once"
        self._trusts = dict.fromkeys(partitions, self._usual_trust())
        self._unsynced = set() if self._was_durable else set(partitions)
        for name, (trust, is_unsynced) in _LISTS.items():
            for listed in filter(None, self._found.get(name, "").split(",")):
                topic, _, number = listed.rpartition("-")
                key = (topic, int(number) if number.isdecimal() else -1)
                if key in self._trusts:
                    self._trusts[key] = self._later_trust(trust, is_unsynced=is_unsynced)
                    (self._unsynced.add if is_unsynced else self._unsynced.discard)(key)
        assert len(self._trusts) == len(partitions), "a list of unopened logs adds no partition"
        # Our file first: a crash between the two must not look like a clean stop.
        self.write()
        if self.clean:
            self._filesystem.remove(f"{self._path}/{CLEAN_SHUTDOWN_FILE}")
            if self._durable:
                self._filesystem.sync_directory(self._path)

    def trust(self, key: Key) -> TailTrust:
        """Return what may be incomplete in a log. A log that is new since was never complete."""
        return self._trusts.get(key, TailTrust.PROCESS_DIED)

    def settled(self, key: Key) -> None:
        """Note that a log was recovered or deleted, so that the last stop no longer matters."""
        self._trusts.pop(key, None)

    def write(self) -> None:
        """Write down the boot and the logs that were not recovered yet. Raises OSError."""
        fields = {"boot-id": self._boot_id, "durable": str(self._durable).lower()}
        listed = 0
        for name, state in _LISTS.items():
            keys = sorted(
                key
                for key, trust in self._trusts.items()
                if state == (trust, key in self._unsynced)
            )
            listed += len(keys)
            if keys:
                fields[name] = ",".join(f"{topic}-{number}" for topic, number in keys)
        unlisted = sum(trust is TailTrust.CLEAN for trust in self._trusts.values())
        assert listed + unlisted == len(self._trusts), "a log that was not recovered is in one list"
        if fields != self._found:
            path = f"{self._path}/{BOOT_FILE}"
            # This is always synced, so that a damaged file is no loss of power.
            text = seal_properties(path, properties_text(fields))
            replace_file(self._filesystem, path, text, durable=True)
            self._found = fields

    def mark_clean(self) -> None:
        """Write that the stop was clean: every log is synced and closed. Raises OSError."""
        self.write()
        # This is always synced: a mark must not survive a loss of power without its text.
        replace_file(
            self._filesystem,
            f"{self._path}/{CLEAN_SHUTDOWN_FILE}",
            _CLEAN_SHUTDOWN_TEXT,
            durable=True,
        )

    def _usual_trust(self) -> TailTrust:
        """Return what may be incomplete in a log that was open at the last stop."""
        if self.same_boot:
            return TailTrust.CLEAN if self.clean else TailTrust.PROCESS_DIED
        if self._was_durable:
            # Such a directory removes the mark durably, so the mark is of the last stop.
            return TailTrust.CLEAN if self.clean else TailTrust.POWER_LOST
        return TailTrust.POWER_LOST_UNSYNCED

    def _later_trust(self, earlier: TailTrust, *, is_unsynced: bool) -> TailTrust:
        """Return what may be incomplete in a log that was not opened since an earlier stop."""
        if self.same_boot or earlier is not TailTrust.PROCESS_DIED:
            return earlier
        return TailTrust.POWER_LOST_UNSYNCED if is_unsynced else TailTrust.POWER_LOST


def _read(filesystem: FileSystem, path: str) -> dict[str, str]:
    """Return the properties of our file; none if there is no file.

    Raises:
        CorruptLog: the file is damaged. Its contents decide what may be cut off the logs.
        OSError: it cannot be read.
    """
    text = read_file(filesystem, path)
    if text is None:
        return {}
    # Earlier versions wrote no checksum.
    if not check_properties(path, text) and not text.startswith("boot-id="):
        raise CorruptLog(path, 0, "it does not begin with its checksum")
    try:
        return read_properties(text)
    except PropertiesError as error:
        raise CorruptLog(path, 0, str(error)) from None
