"""What storage can refuse, by name. Each error names the file or directory it is about.

Errors of the operating system pass through as `OSError`, except where they decide the fate of a
log: the first one on a write or sync becomes `LogFailed` and stays.
"""

import errno

# What a person can do about an error of the operating system, where it is not the disk itself.
_REMEDIES = {
    errno.ENOSPC: "the disk is full: free some space and start again",
    errno.EDQUOT: "the quota is used up: free some space and start again",
    errno.EROFS: "the file system is read-only: mount it for writing and start again",
    errno.EACCES: "let this user write there and start again",
    errno.EMFILE: "allow more open files (ulimit -n) and start again",
    errno.ENOENT: "the directory was removed or replaced; bring it back or use another",
}


def remedy(error: OSError) -> str:
    """What to do about an error, to be put behind its text; nothing where nobody knows."""
    text = _REMEDIES.get(error.errno or 0)
    return f" ({text})" if text else ""


class StorageError(Exception):
    """What the errors below have in common."""


class OffsetOutOfRange(StorageError):  # noqa: N818 - Kafka's name for it
    """An offset outside of log start offset to log end offset."""

    def __init__(self, directory: str, offset: int, first: int, end: int) -> None:
        super().__init__(f"{directory}: offset {offset} is outside of {first} to {end}")
        self.offset = offset
        self.log_start_offset = first
        self.log_end_offset = end


class CorruptLog(StorageError):  # noqa: N818 - says what the log is
    """Damage where no unacknowledged tail can be: file, position and what is wrong there."""

    def __init__(self, path: str, position: int, reason: str) -> None:
        super().__init__(f"{path}: damaged at byte {position}: {reason}")
        self.path = path
        self.position = position
        self.reason = reason


class LogFailed(StorageError):  # noqa: N818 - says what the log has done
    """A write or sync of this log failed before, so nothing is appended to it any more.

    After a failed sync the kernel has dropped what it could not write and reports success from then
    on, so trying again would acknowledge what is lost. A restart reads what is really there.
    """

    def __init__(self, directory: str, cause: OSError) -> None:
        super().__init__(f"{directory}: stopped by an error: {cause}{remedy(cause)}")
        self.directory = directory
        self.cause = cause


class DirectoryLocked(StorageError):  # noqa: N818 - says what the directory is
    """Another process, or another broker in this one, has the data directory."""


class DirectoryMismatch(StorageError):  # noqa: N818 - says what is wrong
    """The data directory belongs to another node, or holds what can't be understood."""
