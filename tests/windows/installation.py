"""A Python of Windows with our dependencies, that runs under Wine.

Debian has what it stands on: `apt-get install wine64 wine gcc-mingw-w64-x86-64`. Maven Central has
Python as Windows has it, and PyPI the wheels.

What Wine 8 lacks is worked around here, and nowhere in the product:
 * Rust needs `ProcessPrng`, which is a DLL of three lines.
 * Wheels for every Python need `python3.dll`, which Maven's Python does not have.
 * `platform` asks for the version by WMI, where Wine ends the process. It has other ways.
 * Python cannot use a file as its standard output, so a pipe leads there.
"""

import os
import re
import shlex
import subprocess
import sys
import urllib.request
import zipfile
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[2]
PLACE = Path("/tmp/coterie-windows")
_MAVEN = "https://repo1.maven.org/maven2/org/bytedeco/cpython"
_INSIDE = "org/bytedeco/cpython/windows-x86_64"
# Python, and how Maven calls it.
PYTHONS = {
    "3.11": "3.11.3-1.5.9",
    "3.12": "3.12.1-1.5.10",
    "3.13": "3.13.0-1.5.11",
    "3.14": "3.14.3-1.5.13",
}
# What the product and the tests of single parts import; colorama is what click needs on Windows.
_PACKAGES = (
    *("click", "colorama", "cramjam", "google-crc32c", "google-re2", "prometheus_client", "rich"),
    *("uvicorn", "xxhash", "cryptography", "joserfc", "avro", "protobuf"),
    *("anyio", "fastavro", "hypothesis", "jsonschema", "kafka-python", "packaging", "pytest"),
    *("pytest-asyncio", "pytest-timeout", "pytest-randomly", "pytest-xdist"),
    # What the compiled form imports.
    *("librt", "mypy_extensions"),
)
MINGW = "x86_64-w64-mingw32"
_PRNG = """\
#include <windows.h>
#include <ntsecapi.h>
__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T size)
{ return RtlGenRandom(data, (ULONG)size); }
"""
_SITE = "import sys\nsys.modules['_wmi'] = None\n"
_PYTHON = """\
#!/bin/bash
export WINEPREFIX={prefix} WINEDEBUG=-all PYTHONPATH='Z:{root}' PYTHONPYCACHEPREFIX='Z:{cache}'
exec > >(exec cat) 2>&1
exec wine {python} "$@"
"""
_COTERIE = """\
#!/bin/bash
cd {directory} && exec {python} -m coterie "$@"
"""


def install(version: str) -> Path:
    """Return a directory with the programs `python` and `coterie`, made by the first call.

    Raises:
        OSError, CalledProcessError: something could not be fetched or run.
    """
    place = PLACE / version
    if not (place / "coterie").exists():
        place.mkdir(parents=True, exist_ok=True)
        _make_prefix(PLACE / "prefix")
        python = _unpack(place, PYTHONS[version]) / "python.exe"
        site = python.parent / "lib" / "site-packages"
        _install_wheels(site, version)
        (site / "sitecustomize.py").write_text(_SITE)
        write_program(
            place / "python",
            _PYTHON.format(
                prefix=shlex.quote(str(PLACE / "prefix")),
                root=ROOT,
                cache=place / "cache",
                python=shlex.quote(str(python)),
            ),
        )
        write_coterie(place, "coterie", ROOT)
    return place


def write_coterie(place: Path, name: str, directory: Path) -> Path:
    """Write a program that runs the package in a directory with the Python of a place."""
    python = shlex.quote(str(place / "python"))
    text = _COTERIE.format(directory=shlex.quote(str(directory)), python=python)
    write_program(place / name, text)
    return place / name


def _make_prefix(prefix: Path) -> None:
    """Make the disk C: of a Windows 10."""
    added = prefix / "drive_c" / "windows" / "system32" / "bcryptprimitives.dll"
    if added.exists():
        return
    prefix.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "WINEPREFIX": str(prefix), "WINEDEBUG": "-all"}
    for command in (["wine", "wineboot", "-i"], ["wine", "winecfg", "-v", "win10"]):
        subprocess.run(command, env=environment, check=True, stdin=subprocess.DEVNULL)
    compiler = [f"{MINGW}-gcc", "-shared", "-O2", "-x", "c", "-", "-o", str(added)]
    subprocess.run([*compiler, "-ladvapi32"], input=_PRNG.encode(), check=True)


def _unpack(place: Path, name: str) -> Path:
    """Fetch Python and return its directory."""
    jar = place / "python.jar"
    url = f"{_MAVEN}/{name}/cpython-{name}-windows-x86_64.jar"
    urllib.request.urlretrieve(url, jar)
    with zipfile.ZipFile(jar) as archive:
        archive.extractall(place)
    jar.unlink()
    directory = place / _INSIDE
    (library,) = (path for path in directory.glob("python3*.dll") if path.stem != "python3")
    table = subprocess.check_output([f"{MINGW}-objdump", "-p", str(library)], text=True)
    _, _, names = table.partition("[Ordinal/Name Pointer] Table")
    _forward(directory / "python3.dll", library.stem, re.findall(r"\b_?Py\w+", names))
    return directory


def _forward(path: Path, library: str, names: Iterable[str]) -> None:
    """Make a library whose functions are those of another one."""
    lines = [f'LIBRARY "{path.name}"', "EXPORTS", *(f"{name}={library}.{name}" for name in names)]
    definition = path.with_suffix(".def")
    definition.write_text("\n".join(lines))
    compiler = [f"{MINGW}-gcc", "-shared", "-nostdlib", "-Wl,-e,0"]
    subprocess.run([*compiler, str(definition), "-o", str(path)], check=True)


def _install_wheels(site: Path, version: str) -> None:
    text = (ROOT / "requirements-dev.txt").read_text(encoding="utf-8")
    locked = re.findall(r"^([\w.-]+==[\w.]+)", text, re.MULTILINE)
    constraints = site.parent / "constraints.txt"
    constraints.write_text("\n".join(locked))
    for_windows = ["--platform", "win_amd64", "--python-version", version, "--only-binary=:all:"]
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
    target = ["--target", str(site), "--upgrade", "--no-compile", "--constraint", str(constraints)]
    subprocess.run([*pip, *for_windows, *target, *_PACKAGES], check=True)


def write_program(path: Path, text: str) -> None:
    """Write a script that can be run."""
    path.write_text(text)
    path.chmod(0o755)
