"""The compiled form for Windows' Python, built here from Microsoft's dialect of C.

setuptools' class for Microsoft's compiler runs `cl.exe` and `link.exe`; here they are clang and lld
with the headers of Windows' Python and of Wine: `apt-get install clang lld llvm libwine-dev`. What
Microsoft's compiler alone refuses remains unknown. Both Pythons have the same version, because the
form has bytecode of interpreted modules.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.windows.installation import MINGW, ROOT, write_coterie, write_program

_HEADERS = ("msvcrt", "windows")
_CL = """\
#!/bin/bash
exec clang --driver-mode=cl --target=x86_64-pc-windows-msvc19.38 /X /GS- -Werror=gnu \\
  {includes} "$@" -w
"""
_LINK = """\
#!/bin/bash
exec lld-link /NOENTRY {libraries} "$@" {added}
"""
_BUILD = """\
import sys
from pathlib import Path
from compilation.extension import compile_tree
from compilation.tree import write_tree
compile_tree(write_tree(Path(sys.argv[1])), jobs=2, is_unoptimised=True, kind="msvc")
"""
# What MinGW's library of `ucrtbase.dll` leaves out, and what Microsoft's compiler takes from a
# library of its own.
_ADDED = {"ucrtbase": ("floor", "ceil"), "ntdll": ("__chkstk",)}
_FLOATS_ARE_USED = "int _fltused = 1;"


def build(place: Path) -> Path:
    """Build the form in a directory that `install` made; return its program `coterie`.

    Raises:
        CalledProcessError: a file could not be compiled, or something is not installed.
    """
    (python,) = place.glob("org/bytedeco/cpython/*/")
    programs = place / "msvc"
    programs.mkdir(exist_ok=True)
    resources = subprocess.check_output(["clang", "-print-resource-dir"], text=True).strip()
    headers = (f"{resources}/include", *(f"/usr/include/wine/wine/{each}" for each in _HEADERS))
    includes = " ".join([f"-I{python}/include", *(f"/imsvc {each}" for each in headers)])
    write_program(programs / "cl.exe", _CL.format(includes=includes))
    _make_libraries(programs)
    libraries = f"/libpath:{programs} /libpath:{python}/libs"
    added = " ".join(f"{each}.lib" for each in _ADDED)
    write_program(programs / "link.exe", _LINK.format(libraries=libraries, added=added))
    suffix = f".cp{sys.version_info.major}{sys.version_info.minor}-win_amd64.pyd"
    (programs / "sitecustomize.py").write_text(
        f"import importlib.machinery\nimportlib.machinery.EXTENSION_SUFFIXES[:] = [{suffix!r}]\n"
    )
    environment = {
        **os.environ,
        "PATH": f"{programs}:{os.environ['PATH']}",
        "PYTHONPATH": f"{programs}:{ROOT}",
        # As in a shell that Visual Studio has prepared.
        "DISTUTILS_USE_SDK": "1",
        "_PYTHON_HOST_PLATFORM": "win-amd64",
        "SETUPTOOLS_EXT_SUFFIX": suffix,
    }
    tree = place / "compiled"
    tree.mkdir(exist_ok=True)
    subprocess.run([sys.executable, "-c", _BUILD, str(tree)], env=environment, check=True)
    return write_coterie(place, "coterie-compiled", tree)


def _make_libraries(directory: Path) -> None:
    """Make the libraries that each file names."""
    shutil.copy(f"/usr/{MINGW}/lib/libucrtbase.a", directory / "msvcrt.lib")
    for library, names in _ADDED.items():
        definition = directory / f"{library}.def"
        definition.write_text("\n".join([f"LIBRARY {library}.dll", "EXPORTS", *names]))
        made = directory / f"{library}.lib"
        tool = ["llvm-dlltool", "-m", "i386:x86-64"]
        subprocess.run([*tool, "-d", str(definition), "-l", str(made)], check=True)
    floats = directory / "floats.obj"
    compiler = ["clang", "--target=x86_64-pc-windows-msvc", "-c", "-x", "c", "-", "-o", str(floats)]
    subprocess.run(compiler, input=_FLOATS_ARE_USED.encode(), check=True)
    subprocess.run(["llvm-ar", "rcs", str(directory / "oldnames.lib"), str(floats)], check=True)
