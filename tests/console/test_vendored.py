"""Libraries of others in the console: the files are those that their authors publish."""

import hashlib
import re
from importlib.resources import files
from importlib.resources.abc import Traversable

VENDORED = files("coterie.console") / "assets" / "vendor"
_SUM = re.compile(r"^\| `([^`]+)` \| `([0-9a-f]{64})` \|$", re.MULTILINE)


def below(folder: Traversable, prefix: str) -> dict[str, bytes]:
    """Return all files of a folder by their paths."""
    found: dict[str, bytes] = {}
    for each in folder.iterdir():
        if each.is_file():
            found[prefix + each.name] = each.read_bytes()
        else:
            found |= below(each, f"{prefix}{each.name}/")
    return found


def test_each_file_of_a_library_has_its_checksum() -> None:
    sums = dict(_SUM.findall((VENDORED / "README.md").read_text(encoding="utf-8")))
    content = below(VENDORED / "lit-html", "lit-html/")
    assert {name: hashlib.sha256(data).hexdigest() for name, data in content.items()} == sums


def test_library_has_its_licence_and_version() -> None:
    text = (VENDORED / "README.md").read_text(encoding="utf-8")
    assert "BSD 3-Clause License" in (VENDORED / "lit-html" / "LICENSE").read_text("utf-8")
    (version,) = re.findall(r"^\| lit-html \| ([0-9.]+) \|", text, re.MULTILINE)
    script = (VENDORED / "lit-html" / "lit-html.js").read_text(encoding="utf-8")
    # It tells its version to pages.
    assert f'"{version}"' in script
