"""The built pages: the files of one archive, which the package has (ADR 101)."""

import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

ARCHIVE = "documentation.tar.xz"
HOME = "index"
_PACKAGE = Path(__file__).resolve().parents[2]
# What `make docs` has made in a checkout, and what came with the package. Beside a package from a
# wheel there is no such file.
PLACES = (_PACKAGE.parent / "build" / ARCHIVE, _PACKAGE / ARCHIVE)
_SUFFIX = ".html"


class NoPages(Exception):  # noqa: N818 - nothing has failed
    """There are no built pages; `remedy` says how to get them."""

    def __init__(self, cause: str, remedy: str) -> None:
        super().__init__(cause)
        self.remedy = remedy


class Pages(NamedTuple):
    """The documentation.

    Attributes:
        files: the content of each file, by its path on the site.
    """

    files: Mapping[str, bytes]

    @property
    def names(self) -> list[str]:
        """The names of the pages, such as "testing" and "spec/framing"."""
        pages = (name for name in self.files if name.endswith(_SUFFIX))
        return sorted(name.removesuffix(_SUFFIX) for name in pages if name != f"404{_SUFFIX}")


def load(places: Sequence[Path] = ()) -> Pages:
    """Read the first archive that is there.

    Args:
        places: where to look; by default `PLACES`.

    Raises:
        NoPages: there is none, or it cannot be read.
    """
    path = next((each for each in places or PLACES if each.is_file()), None)
    if path is None:
        raise NoPages(
            "The documentation is not part of this installation.",
            "In a checkout of the sources `make docs` builds it; a wheel of a release has it.",
        )
    try:
        with tarfile.open(path) as archive:
            opened = {each.name: archive.extractfile(each) for each in archive if each.isfile()}
            return Pages({name: file.read() for name, file in opened.items() if file is not None})
    except (tarfile.TarError, OSError, EOFError) as error:
        raise NoPages(
            f"{path} cannot be read: {error}",
            "If it is damaged, install Coterie again. Python needs its module lzma to read it.",
        ) from None
