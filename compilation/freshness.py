"""What a build need not make again: the compiled form of the same sources, an object of the same C.

`python -m compilation.freshness` prints the directory of the compiled form, or nothing if it is
missing or out of date. It needs no package that is not in the standard library, and takes a tenth
of a second, so `make serve` can ask each time.
"""

import hashlib
import sys
from collections.abc import Iterator
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parent.parent
TREE = ROOT / "build" / "compiled"
# What the compiled form is made of; the last names the versions of mypy and of its library.
_MADE_OF = ("coterie", "compilation", "requirements-dev.txt")
_LIBRARY = f"coterie__mypyc{EXTENSION_SUFFIXES[0]}"
# The run-time library of mypyc.
_NEEDED = ("librt", "mypy_extensions")


def digest_of_sources(root: Path = ROOT) -> str:
    """Return a digest of the sources and of the interpreter that the form is made for."""
    digest = hashlib.sha256(sys.version.encode())
    for path in _files(root):
        data = path.read_bytes()
        digest.update(f"{path.relative_to(root).as_posix()} {len(data)}\n".encode() + data)
    return digest.hexdigest()


def is_fresh(tree: Path = TREE, root: Path = ROOT, *, allow_unoptimised: bool = False) -> bool:
    """Return whether the tree has the compiled form of the sources, and can be imported.

    Args:
        tree: where the form is.
        root: where the sources are.
        allow_unoptimised: a form that was made to be tested only will do.
    """
    note = _note(tree)
    if not note.is_file() or not (tree / _LIBRARY).is_file():
        return False
    made_of, _, level = note.read_text().partition(" ")
    return (
        (not level or allow_unoptimised)
        and made_of == digest_of_sources(root)
        and all(find_spec(name) is not None for name in _NEEDED)
    )


def forget(tree: Path = TREE) -> None:
    """Say that the tree is out of date; a build that is interrupted leaves it so."""
    _note(tree).unlink(missing_ok=True)


def remember(digest: str, tree: Path = TREE, *, is_unoptimised: bool = False) -> None:
    """Say that the tree has the compiled form of the sources with this digest.

    Args:
        digest: of the sources before the build began, so that a change meanwhile counts.
        tree: where the form is.
        is_unoptimised: it was made to be tested only, so nothing else uses it.
    """
    _note(tree).write_text(f"{digest} unoptimised" if is_unoptimised else digest)


def note_of(made: Path) -> Path:
    """Return the file that says what an object was made of."""
    return made.with_suffix(".sha256")


def is_made(made: Path, digest: str) -> bool:
    """Return whether an object exists that was made of what the digest stands for.

    If not, the note of the older object is removed, so that an interrupted compiler leaves none.
    """
    note = note_of(made)
    if made.exists() and note.exists() and note.read_text() == digest:
        return True
    note.unlink(missing_ok=True)
    return False


def _note(tree: Path) -> Path:
    return tree / "sources.sha256"


def _files(root: Path) -> Iterator[Path]:
    for name in _MADE_OF:
        place = root / name
        for path in [place] if place.is_file() else sorted(place.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                yield path


def main() -> None:
    """Print where the compiled form is, if it is up to date; say which form is used."""
    if is_fresh():
        print(TREE)
        print("the compiled form, from build/compiled", file=sys.stderr)
    else:
        what = "out of date" if _note(TREE).exists() else "missing"
        print(f"the pure form; the compiled one is {what}: make compiled", file=sys.stderr)


if __name__ == "__main__":
    main()
