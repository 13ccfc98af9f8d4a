"""The file system of the operating system that this process runs on."""

import os

from coterie.storage.filesystem import OsFileSystem


def system_files() -> OsFileSystem:
    """Return the file system of Linux and macOS, or that of Windows."""
    if hasattr(os, "pread"):
        return OsFileSystem()
    # Imported here, because only Windows needs it.
    from coterie.storage.windows_files import WindowsFileSystem

    return WindowsFileSystem()
