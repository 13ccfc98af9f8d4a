"""The compiled wheel: the pure one with the files of the compiled form in place of its package."""

import base64
import csv
import hashlib
import io
import sysconfig
import zipfile
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

from hatchling.build import build_wheel

# What the compiled form imports in addition: the run-time library of mypyc.
REQUIREMENTS = ("librt>=0.16", "mypy_extensions>=1.0")


def pure_wheel(directory: Path) -> Path:
    """Build the pure wheel of the project in the current directory; return its path."""
    directory.mkdir(parents=True, exist_ok=True)
    return directory / build_wheel(str(directory))


def compiled_wheel(pure: Path, tree: Path) -> Path:
    """Write the compiled wheel beside the pure one; return its path.

    Args:
        pure: the pure wheel, which gives the metadata and the licence.
        tree: the directory with `coterie` and the shared library, after `compile_tree`.
    """
    tag = _platform_tag()
    target = pure.with_name(pure.name.replace("py3-none-any", tag))
    records: list[tuple[str, str, int]] = []
    with zipfile.ZipFile(pure) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as new:

        def add(name: str, data: bytes) -> None:
            new.writestr(name, data)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=")
            records.append((name, f"sha256={digest.decode()}", len(data)))

        for path in sorted(
            [*tree.glob(f"*{EXTENSION_SUFFIXES[-1]}"), *(tree / "coterie").rglob("*")]
        ):
            if path.is_file() and "__pycache__" not in path.parts:
                add(path.relative_to(tree).as_posix(), path.read_bytes())
        for name in old.namelist():
            if name.startswith("coterie/") or name.endswith("/RECORD"):
                continue
            add(name, _changed_metadata(name, old.read(name), tag))
        (record,) = [name for name in old.namelist() if name.endswith(".dist-info/RECORD")]
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([*records, (record, "", "")])
        new.writestr(record, text.getvalue())
    return target


def _platform_tag() -> str:
    """Return the tag of wheels for this interpreter and platform only."""
    version = sysconfig.get_config_var("py_version_nodot")
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    return f"cp{version}-cp{version}-{platform}"


def _changed_metadata(name: str, data: bytes, tag: str) -> bytes:
    if name.endswith(".dist-info/WHEEL"):
        text = data.decode().replace("Root-Is-Purelib: true", "Root-Is-Purelib: false")
        return text.replace("Tag: py3-none-any", f"Tag: {tag}").encode()
    if name.endswith(".dist-info/METADATA"):
        head, blank, rest = data.decode().partition("\n\n")
        lines = [head, *(f"Requires-Dist: {each}" for each in REQUIREMENTS)]
        return ("\n".join(lines) + blank + rest).encode()
    return data
