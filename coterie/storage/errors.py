"""The errors that storage raises, and what a person can do about a disk error.

Every error names the file or directory that it is about. Errors of the operating system pass
through as `OSError`, except that the first one on a write or sync of a log stops that log: from
then on it raises `LogFailed`.
"""

import errno

_RESTART = "then restart the broker"

# Kafka answers all of these with KAFKA_STORAGE_ERROR; what helps is different for each. A log that
# failed stays stopped until the next start, which reads what is really on the disk.
_REMEDIES = {
    errno.ENOSPC: f"the disk is full: make room on the disk of the data directory, {_RESTART}",
    errno.EDQUOT: f"the disk quota is used up: raise it or make room, {_RESTART}",
    errno.EROFS: "the file system is mounted read-only, which Linux also does after a disk error:"
    f" check dmesg, mount it writable, {_RESTART}",
    errno.EIO: "the disk reported an error, so what it holds now is uncertain: check dmesg and the"
    f" disk, {_RESTART}; the start reads what is really there",
    errno.ENOENT: "a file or directory was removed or moved while the broker was running: put it"
    f" back or choose another --data-dir, {_RESTART}",
    errno.EFBIG: f"a file would exceed the limit for its size: check `ulimit -f`, {_RESTART}",
    errno.EACCES: "this user may not write there: give the data directory to the user that runs"
    f" the broker, {_RESTART}",
    errno.EMFILE: "too many files are open in this process, which passes when others are closed:"
    " raise `ulimit -n` before the next start, or let fewer clients connect",
    errno.ENFILE: "too many files are open on this machine, which passes when others are closed:"
    " raise fs.file-max",
}
_REMEDIES[errno.EPERM] = _REMEDIES[errno.EACCES]
_REMEDIES[errno.ESTALE] = _REMEDIES[errno.ENOENT]

_DAMAGE_REMEDY = (
    "stop the broker and keep a copy of the partition's directory; `coterie dump log` shows what"
    " can still be read; restore the directory from a backup, or move it away to start without it"
)
_UNKNOWN_REMEDY = f"check the system's log, {_RESTART}"
# Only calls that open something fail with these, before they have any effect.
_SHORTAGES = frozenset({errno.EMFILE, errno.ENFILE})


class StorageError(Exception):
    """The base of the errors below."""


class OffsetOutOfRange(StorageError):  # noqa: N818 - Kafka's name for it
    """An offset is outside of the range from log start offset to log end offset."""

    def __init__(self, directory: str, offset: int, first: int, end: int) -> None:
        super().__init__(f"{directory}: offset {offset} is outside of {first} to {end}")
        self.offset = offset
        self.log_start_offset = first
        self.log_end_offset = end


class CorruptLog(StorageError):  # noqa: N818 - describes the log
    """A file is damaged in a place where no unacknowledged tail can be."""

    def __init__(self, path: str, position: int, reason: str) -> None:
        super().__init__(f"{path}: damaged at byte {position}: {reason}")
        self.path = path
        self.position = position
        self.reason = reason


class SegmentInUse(StorageError):  # noqa: N818 - describes the segment
    """A segment must not be replaced, because a write-ahead file has records of it.

    It is a mistake of ours, and nothing has been changed [recovery/write-ahead].
    """

    def __init__(self, path: str, end_offset: int) -> None:
        super().__init__(
            f"{path}: the write-ahead log has records of it; only segments before offset"
            f" {end_offset} may be replaced"
        )
        self.path = path
        self.end_offset = end_offset


class LogFailed(StorageError):  # noqa: N818 - describes the log
    """A write or sync of this log failed earlier, so nothing is appended to it any more.

    After a failed sync the kernel has dropped the data that it could not write, and later syncs
    succeed. Trying again would therefore acknowledge records that are lost. A restart reads what is
    really on the disk.
    """

    def __init__(self, directory: str, cause: OSError) -> None:
        super().__init__(f"{directory}: stopped by an error: {cause} ({remedy_for(cause)})")
        self.directory = directory
        self.cause = cause


class OutOfHandles(StorageError):  # noqa: N818 - describes the process
    """A file of a log could not be opened, because too many are open [log/handle-shortage].

    The log has not changed. The same call may succeed later.
    """

    def __init__(self, directory: str, cause: OSError) -> None:
        super().__init__(f"{directory}: {cause} ({remedy_for(cause)})")
        self.directory = directory
        self.cause = cause


class DirectoryLocked(StorageError):  # noqa: N818 - describes the directory
    """Another process, or another broker in this process, uses the data directory."""


class DirectoryMismatch(StorageError):  # noqa: N818 - describes the directory
    """The data directory belongs to another node, or has contents of an unknown format."""


def root_cause(error: BaseException) -> BaseException:
    """Return the cause of a `LogFailed` or `OutOfHandles`, and any other error itself."""
    return error.cause if isinstance(error, LogFailed | OutOfHandles) else error


def is_shortage(error: BaseException) -> bool:
    """Return whether the cause is a shortage of file handles, which passes."""
    cause = root_cause(error)
    return isinstance(cause, OSError) and cause.errno in _SHORTAGES


def describe_error(error: BaseException) -> str:
    """Return what happened in the system's words, without an error number."""
    cause = root_cause(error)
    if isinstance(cause, OSError) and cause.strerror:
        return f"{cause.strerror}: {cause.filename}" if cause.filename else cause.strerror
    return str(cause)


def remedy_for(error: BaseException) -> str:
    """Return what a person can do about an error, as a clause without a final stop."""
    cause = root_cause(error)
    if isinstance(cause, CorruptLog):
        return _DAMAGE_REMEDY
    if isinstance(cause, OSError) and cause.errno is not None:
        return _REMEDIES.get(cause.errno, _UNKNOWN_REMEDY)
    return _UNKNOWN_REMEDY
