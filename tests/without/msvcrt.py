"""A stand-in for the locks of Windows, made of those of POSIX.

`locking` has the arguments and errors of the module of that name; what it does not have, the
product must not use.
"""

import fcntl

LK_NBLCK = 2


def locking(descriptor: int, mode: int, length: int) -> None:
    """Lock bytes from the position of a file on; OSError if another open file has locked them."""
    assert mode == LK_NBLCK, "the product does not wait for a lock"
    assert length == 1, "one byte stands for the file"
    # A lock of the open file, as on Windows, and not of the process.
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
