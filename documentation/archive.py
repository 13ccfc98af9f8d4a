"""The site as one file: a tar archive, compressed by xz.

Each page repeats the frame of all pages, which only a compression over all files removes: 9 MiB
of files are half a MiB here, and would be 1.7 MiB as files of a wheel.
"""

import io
import tarfile
from pathlib import Path


def pack(site: Path, target: Path) -> None:
    """Write the files of a site; the same files make the same archive."""
    with tarfile.open(target, "w:xz", preset=9) as archive:
        for path in sorted(each for each in site.rglob("*") if each.is_file()):
            data = path.read_bytes()
            entry = tarfile.TarInfo(path.relative_to(site).as_posix())
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
