"""Code that only the start needed is unmapped from the process after it.

A start runs through most of the code of the interpreter's libraries and, in the compiled form, of
ours: each import runs once, and the kernel maps sixteen pages around each that is touched. Of the
18 MiB that are mapped then a broker at rest needs 3. Nothing is lost: the pages are those of files,
stay in the kernel's cache while it has room, and are mapped again when they are called.
"""

import re
from collections.abc import Iterator

# Of the kernel's mman.h.
_MADV_DONTNEED = 4

# Code of a file that nobody writes to; that of interpreted modules, which the compiled form has in
# one file, is mapped for all to read. Other parts of a library are left alone: they have addresses
# that were filled in, which would be lost.
_CODE = re.compile(r"([0-9a-f]+)-([0-9a-f]+) r(?:-xp|--s) [0-9a-f]+ \S+ [1-9][0-9]* +/")


def unmap_code_of_the_start() -> int:
    """Unmap all code from this process, to be mapped again page by page when it is called.

    Returns:
        How many bytes of address space that was; 0 if the system is not Linux.
    """
    try:
        import ctypes

        with open("/proc/self/maps", encoding="utf-8") as file:
            regions = list(code_regions(file.read()))
        advise = ctypes.CDLL(None).madvise
    except (ImportError, OSError, TypeError, AttributeError):
        # Python without ctypes, or a system without /proc or without this function.
        return 0
    advise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return sum(size for start, size in regions if advise(start, size, _MADV_DONTNEED) == 0)


def code_regions(maps: str) -> Iterator[tuple[int, int]]:
    """Yield the address and the size in bytes of each mapped piece of code of a file.

    Args:
        maps: the text of `/proc/self/maps` (proc(5)).
    """
    for line in maps.splitlines():
        matched = _CODE.match(line)
        if matched is not None:
            start, end = int(matched[1], 16), int(matched[2], 16)
            yield start, end - start
