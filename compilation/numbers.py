"""Readers of packed numbers, written out: functions in place of the methods of `struct.Struct`.

A module binds a reader at its top level, as in `read = Struct(">iIih").unpack_from`. In the
compiled form `read` becomes a function that returns the same numbers without making objects.
"""

import ast
from collections.abc import Iterator
from struct import calcsize

from compilation.constants import with_import

# The function that reads a number, and what makes it unsigned. Bytes have no function.
_READERS = {
    "h": "int(read_i16_be(data, {at}))",
    "H": "int(read_i16_be(data, {at})) & 0xFFFF",
    "i": "int(read_i32_be(data, {at}))",
    "I": "int(read_i32_be(data, {at})) & 0xFFFFFFFF",
    "q": "int(read_i64_be(data, {at}))",
}
_IMPORTS = """\
from librt.strings import read_i16_be, read_i32_be, read_i64_be
from mypy_extensions import i64
"""


def with_native_readers(source: str) -> str:
    """Return the source of a module with its readers of packed numbers written out."""
    if ".unpack_from" not in source:
        return source
    lines = source.splitlines(keepends=True)
    found = list(_readers(ast.parse(source)))
    for node, name, layout in reversed(found):
        lines[node.lineno - 1 : node.end_lineno] = [_function(name, layout)]
    text = "".join(lines)
    return with_import(text, _IMPORTS) if found else text


def _readers(tree: ast.Module) -> Iterator[tuple[ast.Assign, str, str]]:
    """Yield the statements that bind a reader, with its name and the format of the numbers."""
    for node in tree.body:
        match node:
            case ast.Assign(
                targets=[ast.Name(id=name)],
                value=ast.Attribute(
                    value=ast.Call(
                        func=ast.Name(id="Struct"), args=[ast.Constant(value=str(layout))]
                    ),
                    attr="unpack_from",
                ),
            ) if layout[0] == ">" and set(layout[1:]) <= _READERS.keys():
                yield node, name, layout


def _function(name: str, layout: str) -> str:
    types = ", ".join("int" for _ in layout[1:])
    values = []
    for index, kind in enumerate(layout[1:]):
        before = calcsize(layout[: index + 1])
        values.append(_READERS[kind].format(at=f"position + {before}" if before else "position"))
    return f"""\
def {name}(data: bytes, position: i64 = 0) -> tuple[{types}]:
    return ({", ".join(values)},)
"""
