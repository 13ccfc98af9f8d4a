"""The code of interpreted modules in one file, so that an import opens none.

A broker of the compiled form imports what a request needs with the first such request, also while
it has no file handle left. So a start imports no handler, and what is rarely asked for can stay
interpreted at no cost of the start. `runtime/native_modules.py` reads the file.
"""

import importlib.util
import json
import marshal
from pathlib import Path

from compilation.selection import interpreted_modules

# To be used without a look at the source (PEP 552).
_UNCHECKED_HASH = 0b01.to_bytes(4, "little")
_HEADER = importlib.util.MAGIC_NUMBER + _UNCHECKED_HASH + bytes(8)


def write_bytecode(package: Path) -> None:
    """Write `modules.bin` in the package: a line with the place of each module, then their code.

    The code of a module is what a `.pyc` file has.
    """
    places: dict[str, tuple[int, int]] = {}
    code = bytearray()
    for module in interpreted_modules(package):
        begin = len(code)
        source = (package / module).read_bytes()
        # Python puts the path of the source in place of this name.
        code += _HEADER + marshal.dumps(compile(source, module.as_posix(), "exec"))
        places[".".join((package.name, *module.with_suffix("").parts))] = begin, len(code)
    (package / "modules.bin").write_bytes(json.dumps(places).encode() + b"\n" + code)
