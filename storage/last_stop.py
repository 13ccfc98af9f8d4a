"""How a data directory was left the last time, and so what may be torn in each of its logs.

Kafka's mark of a clean stop says that everything was synced and closed. Our own file tells whether
the machine has been started again since, which is the only way to lose what was written: it holds
the name of the boot, and whether logs were synced before their segments were rolled. It is believed
only when it names this boot, so a loss of power may bring back an old one or none.

It may bring back the mark, too, where its removal was not synced. So after another boot the mark
counts for less: the recovery points that were written before it protect everything that was there.

Logs are opened when they are asked for, and some may not be by the next stop. They are listed in
our file, to be treated then as they would have been this time.
"""

from coterie.storage.checkpoints import read_file, replace_file
from coterie.storage.errors import CorruptLog
from coterie.storage.filesystem import FileSystem
from coterie.storage.properties import PropertiesError, properties_text, read_properties
from coterie.storage.torn_tail import TailTrust

# What Kafka 4.3 writes into its mark. It has the broker's epoch there for its controller; -1 is
# Kafka's word for not knowing one. Before 3.7 the mark was empty.
CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"
_CLEAN_SHUTDOWN_TEXT = '{"version":0,"brokerEpoch":-1}'
BOOT_FILE = "coterie-boot-id"
# The lists of the file: logs not opened since such a stop, and whether nobody had synced them.
_LISTS = {
    "process-died": (TailTrust.PROCESS_DIED, False),
    "process-died-unsynced": (TailTrust.PROCESS_DIED, True),
    "power-lost": (TailTrust.POWER_LOST, False),
    "power-lost-unsynced": (TailTrust.POWER_LOST_UNSYNCED, True),
}

Key = tuple[str, int]


class LastStop:
    """What is known of the last stop, and the logs for which it still matters."""

    def __init__(self, filesystem: FileSystem, path: str, *, durable: bool) -> None:
        """Look at the directory `path`; `durable` is whether its logs are synced from now on."""
        self._filesystem = filesystem
        self._path = path
        self._durable = durable
        self._boot_id = filesystem.boot_id()
        self._found = _read(filesystem, f"{path}/{BOOT_FILE}")
        # Whether the directory was closed in order.
        self.clean = filesystem.exists(f"{path}/{CLEAN_SHUTDOWN_FILE}")
        # Whether the machine has been running since.
        self.same_boot = bool(self._boot_id) and self._found.get("boot-id") == self._boot_id
        # What may be torn in logs that were not recovered since.
        self._trusts: dict[Key, TailTrust] = {}
        # Those among them that were written without syncs.
        self._unsynced: set[Key] = set()

    @property
    def synced(self) -> bool:
        """Whether what is written durably is there as it was written."""
        return self.same_boot or self.clean or self._found.get("durable") == "true"

    def begin(self, partitions: set[Key]) -> None:
        """Take note of the logs that there are, and of our use of them. Raises OSError."""
        self._trusts = dict.fromkeys(partitions, self._usual())
        self._unsynced = set() if self._found.get("durable") == "true" else set(partitions)
        for name, (trust, unsynced) in _LISTS.items():
            for listed in filter(None, self._found.get(name, "").split(",")):
                topic, _, number = listed.rpartition("-")
                key = (topic, int(number) if number.isdecimal() else -1)
                if key in self._trusts:
                    self._trusts[key] = self._after(trust, unsynced=unsynced)
                    (self._unsynced.add if unsynced else self._unsynced.discard)(key)
        # First our own file: between the two a crash must not look like a clean stop.
        self.write()
        if self.clean:
            self._filesystem.remove(f"{self._path}/{CLEAN_SHUTDOWN_FILE}")
            if self._durable:
                self._filesystem.sync_directory(self._path)

    def trust(self, key: Key) -> TailTrust:
        """What may be torn in a log; of one that was made since, nothing was known before."""
        return self._trusts.get(key, TailTrust.PROCESS_DIED)

    def settled(self, key: Key) -> None:
        """A log was recovered, or is gone: how it was left no longer matters."""
        self._trusts.pop(key, None)

    def write(self) -> None:
        """Write down the boot and the logs that were not recovered yet. Raises OSError."""
        fields = {"boot-id": self._boot_id, "durable": str(self._durable).lower()}
        for name, state in _LISTS.items():
            keys = sorted(
                key
                for key, trust in self._trusts.items()
                if state == (trust, key in self._unsynced)
            )
            if keys:
                fields[name] = ",".join(f"{topic}-{number}" for topic, number in keys)
        if fields != self._found:
            path = f"{self._path}/{BOOT_FILE}"
            replace_file(self._filesystem, path, properties_text(fields), durable=self._durable)
            self._found = fields

    def mark_clean(self) -> None:
        """Leave the mark: every log is synced and closed. Raises OSError."""
        self.write()
        # Synced whatever the mode: a mark of a stop without its bytes must not come back alone.
        replace_file(
            self._filesystem,
            f"{self._path}/{CLEAN_SHUTDOWN_FILE}",
            _CLEAN_SHUTDOWN_TEXT,
            durable=True,
        )

    def _usual(self) -> TailTrust:
        if self.same_boot:
            return TailTrust.CLEAN if self.clean else TailTrust.PROCESS_DIED
        if self._found.get("durable") == "true":
            # Such a directory removed its mark durably.
            return TailTrust.CLEAN if self.clean else TailTrust.POWER_LOST
        return TailTrust.POWER_LOST_UNSYNCED

    def _after(self, earlier: TailTrust, *, unsynced: bool) -> TailTrust:
        """What may be torn in a log that was left in the state `earlier` and not touched since."""
        if self.same_boot or earlier is not TailTrust.PROCESS_DIED:
            return earlier
        return TailTrust.POWER_LOST_UNSYNCED if unsynced else TailTrust.POWER_LOST


def _read(filesystem: FileSystem, path: str) -> dict[str, str]:
    try:
        return read_properties(read_file(filesystem, path) or "")
    except (CorruptLog, PropertiesError):
        return {}
