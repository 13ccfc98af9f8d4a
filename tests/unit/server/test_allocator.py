"""Large blocks stay with the process."""

import platform
import resource
import subprocess
import sys

import pytest

ROUNDS = 50
BLOCKS = 4
BLOCK_BYTES = 4 << 20

# Allocates and frees blocks, as several large requests do, and prints the page faults of a round.
PROGRAM = f"""
import resource, sys
from coterie.server.allocator import keep_large_blocks
if sys.argv[1] == "keep":
    assert keep_large_blocks()
def allocate(rounds):
    for _ in range(rounds):
        [bytearray({BLOCK_BYTES}) for _ in range({BLOCKS})]
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
allocate(3)
before = faults()
allocate({ROUNDS})
print((faults() - before) // {ROUNDS})
"""


def page_faults(mode: str) -> int:
    """Return the page faults of a round, in a process of its own."""
    command = [sys.executable, "-c", PROGRAM, mode]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has these settings")
def test_large_blocks_are_not_returned_to_the_kernel() -> None:
    pages = BLOCKS * BLOCK_BYTES // resource.getpagesize()
    assert page_faults("as it is") > pages // 2
    assert page_faults("keep") < pages // 100
