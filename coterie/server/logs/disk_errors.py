"""What went wrong with the disk, told to people: which file, why, and what to do about it.

The kernel says "No space left on device"; who reads the log at night wants to know what the broker
does now and what brings it back. A partition whose log failed stays stopped until the next start,
which reads what is really on the disk.
"""

import errno

from coterie.storage.errors import CorruptLog, LogFailed

_RESTART = "then restart the broker"

# By errno. Kafka's answer to all of them is the same, KAFKA_STORAGE_ERROR; the remedies differ.
_REMEDIES = {
    errno.ENOSPC: f"the disk is full: make room where the data directory is, {_RESTART}",
    errno.EDQUOT: f"the disk quota is used up: raise it or make room, {_RESTART}",
    errno.EROFS: "the file system is mounted read-only, which Linux also does after a disk error:"
    f" look at dmesg, mount it writable, {_RESTART}",
    errno.EIO: "the disk could not do it, and what it holds now is uncertain: look at dmesg and"
    f" check the disk, {_RESTART}; it reads what is really there",
    errno.ENOENT: "a file or directory is gone: somebody removed or moved it under the running"
    f" broker; put it back or choose another --data-dir, {_RESTART}",
    errno.EFBIG: f"a file would exceed the limit for its size: see `ulimit -f`, {_RESTART}",
    errno.EACCES: "this user may not write there: give the data directory to the user the broker"
    f" runs as, {_RESTART}",
    errno.EMFILE: f"too many files are open in this process: raise `ulimit -n`, {_RESTART}",
    errno.ENFILE: f"too many files are open on this machine: raise fs.file-max, {_RESTART}",
}
_REMEDIES[errno.EPERM] = _REMEDIES[errno.EACCES]
_REMEDIES[errno.ESTALE] = _REMEDIES[errno.ENOENT]

_DAMAGED = (
    "stop the broker and keep a copy of the partition's directory; `coterie dump log` shows what"
    " can still be read; restore the directory from a copy, or move it away to begin without it"
)
_UNKNOWN = f"look at the system's log, {_RESTART}"


def cause_of(error: BaseException) -> BaseException:
    """The first error: what made a log fail rather than the failing of the log."""
    return error.cause if isinstance(error, LogFailed) else error


def remedy_for(error: BaseException) -> str:
    """What to do about an error of the storage, in one sentence without a stop."""
    cause = cause_of(error)
    if isinstance(cause, CorruptLog):
        return _DAMAGED
    if isinstance(cause, OSError) and cause.errno is not None:
        return _REMEDIES.get(cause.errno, _UNKNOWN)
    return _UNKNOWN


def told(error: BaseException) -> str:
    """What happened, in the system's words and without its numbers."""
    cause = cause_of(error)
    if isinstance(cause, OSError) and cause.strerror:
        return f"{cause.strerror}: {cause.filename}" if cause.filename else cause.strerror
    return str(cause)
