"""Which code is the test's, and which is that of Coterie and of Python's library."""

import linecache
import sys
import sysconfig
from pathlib import Path
from types import FrameType, TracebackType

_OURS = str(Path(__file__).resolve().parent.parent)
_LIBRARY = sysconfig.get_path("stdlib")
# Installed packages are in a folder of the library.
_INSTALLED = ("site-packages", "dist-packages")


def is_inner(filename: str) -> bool:
    """Return whether a file is one of Coterie or of Python's library."""
    if filename.startswith((_OURS, "<")):
        return True
    return filename.startswith(_LIBRARY) and not any(each in filename for each in _INSTALLED)


def place_of_call() -> str:
    """Return the line of the test that has called, and where it is."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - the only way to see who calls
    while frame is not None and is_inner(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is None:
        return "outside of a test"
    filename, line = frame.f_code.co_filename, frame.f_lineno
    return f"`{linecache.getline(filename, line).strip()}` in {Path(filename).name}:{line}"


def end_at_caller(traceback: TracebackType | None) -> TracebackType | None:
    """Cut a traceback behind the last frame that is the test's; return the entry of that frame."""
    last, entry = None, traceback
    while entry is not None:
        if not is_inner(entry.tb_frame.f_code.co_filename):
            last = entry
        entry = entry.tb_next
    if last is not None:
        last.tb_next = None
    return last
