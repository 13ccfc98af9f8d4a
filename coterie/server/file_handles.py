"""How the file handles of the process are shared [connections/file-handles].

Connections and the files of logs come out of one limit, RLIMIT_NOFILE. Each has a bound of its own,
so that neither can take the last handle from the other.
"""

from typing import NamedTuple

# The limit to ask for: each connection takes one handle, and thousands of clients are normal.
_WANTED = 65_536
# What macOS allows, whatever the limit is that it reports.
_WANTED_ON_MACOS = 10_240
# That of its C library; there is no other.
_LIMIT_OF_WINDOWS = 8_192
# Kept for everything else: standard streams, event loop, listening sockets, lock, the metrics'
# connections, logs that are being opened, and the directories and small files that are open for a
# moment. 16 are always open.
_RESERVED = 64
# More open files do not make a broker faster, except one with thousands of busy partitions.
_MOST_FILES = 4_096
# Fewer than these, and nothing works.
_FEWEST_FILES = 16
_FEWEST_CONNECTIONS = 8


class FileHandles(NamedTuple):
    """The bounds of one broker.

    Attributes:
        files: how many segment and index files may be open.
        connections: how many clients may be connected.
    """

    files: int
    connections: int


# For a broker that does not have the process for itself: half of the usual limit of 1,024.
DEFAULT_HANDLES = FileHandles(512, _WANTED)


def raise_limit() -> int:
    """Raise the limit of open files as far as the system allows, and return it."""
    try:
        import resource
    except ImportError:
        return _LIMIT_OF_WINDOWS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return _WANTED
    for wanted in (_WANTED, _WANTED_ON_MACOS):
        target = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
        if soft >= target:
            break
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
        except (ValueError, OSError):
            continue
        return target
    return soft


def share_handles(limit: int) -> FileHandles:
    """Return the bounds under a limit of open files."""
    left = limit - _RESERVED
    files = max(min(left // 2, _MOST_FILES), _FEWEST_FILES)
    return FileHandles(files, max(left - files, _FEWEST_CONNECTIONS))
