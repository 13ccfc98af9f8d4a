"""The C allocator: large blocks that were freed are kept for the next request.

By default glibc maps every block above a threshold of 128 KiB (which it adapts) from the kernel and
returns it when it is freed. A broker allocates and frees such a block for every large request and
response, and the kernel clears its pages each time: half of the CPU time of a large produced batch
(docs/benchmarks.md). Other C libraries, and other systems, are left as they are.
"""

# Names and numbers of malloc.h.
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3

# Blocks below this come from the heap. It is the largest threshold that glibc accepts.
_MMAP_THRESHOLD_BYTES = 32 << 20
# What may stay free at the top of the heap: some of the largest usual requests and responses.
_TRIM_THRESHOLD_BYTES = 64 << 20


def keep_large_blocks() -> bool:
    """Make the allocator keep freed blocks; return whether it is glibc's and accepts that."""
    try:
        import ctypes

        mallopt = ctypes.CDLL(None).mallopt
    except (ImportError, TypeError, AttributeError):
        # Python without ctypes, Windows, which has no name for the process itself, or another
        # C library.
        return False
    accepted = mallopt(_M_MMAP_THRESHOLD, _MMAP_THRESHOLD_BYTES)
    return bool(accepted and mallopt(_M_TRIM_THRESHOLD, _TRIM_THRESHOLD_BYTES))
