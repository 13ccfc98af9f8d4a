"""Packed numbers: functions, written out, in place of the methods of `struct.Struct`.

A module binds a method at its top level, as in `read = Struct(">iIih").unpack_from`. In the
compiled form `read` becomes a function that returns the same numbers without making objects, and
`Struct(">iIih").pack` one that returns the same bytes. Numbers that do not fit raise OverflowError
or are cut there.
"""

import ast
from collections.abc import Iterator, Mapping
from struct import calcsize
from typing import Any

from compilation.constants import with_import

# The function that reads a number, and what makes it unsigned. Bytes have no function.
_READERS = {
    "h": "int(read_i16_be(data, {at}))",
    "H": "int(read_i16_be(data, {at})) & 0xFFFF",
    "i": "int(read_i32_be(data, {at}))",
    "I": "int(read_i32_be(data, {at})) & 0xFFFFFFFF",
    "q": "int(read_i64_be(data, {at}))",
}
# The type of a number's argument, and what writes it.
_WRITERS = {
    "b": ("i64", "out.append(u8({number} & 0xFF))"),
    "h": ("i16", "write_i16_be(out, {number})"),
    "i": ("i32", "write_i32_be(out, {number})"),
    "I": ("i64", "write_i32_be(out, i32(({number} ^ 0x80000000) - 0x80000000))"),
    "q": ("i64", "write_i64_be(out, {number})"),
}
_METHODS: dict[str, Mapping[str, Any]] = {"unpack_from": _READERS, "pack": _WRITERS}
_IMPORTS = """\
from librt.strings import BytesWriter, read_i16_be, read_i32_be, read_i64_be
from librt.strings import write_i16_be, write_i32_be, write_i64_be
from mypy_extensions import i16, i32, i64, u8
"""


def with_native_structs(source: str) -> str:
    """Return the source of a module with its functions of packed numbers written out."""
    if "Struct(" not in source:
        return source
    lines = source.splitlines(keepends=True)
    found = list(_methods(ast.parse(source)))
    for node, name, layout, method in reversed(found):
        function = _reader(name, layout) if method == "unpack_from" else _writer(name, layout)
        lines[node.lineno - 1 : node.end_lineno] = [function]
    text = "".join(lines)
    return with_import(text, _IMPORTS) if found else text


def _methods(tree: ast.Module) -> Iterator[tuple[ast.Assign, str, str, str]]:
    """Yield the statements that bind a method, with its new name, the format, and the method."""
    for node in tree.body:
        match node:
            case ast.Assign(
                targets=[ast.Name(id=name)],
                value=ast.Attribute(
                    value=ast.Call(
                        func=ast.Name(id="Struct"), args=[ast.Constant(value=str(layout))]
                    ),
                    attr=method,
                ),
            ) if layout[0] == ">" and set(layout[1:]) <= _METHODS.get(method, {}).keys():
                yield node, name, layout, method


def _reader(name: str, layout: str) -> str:
    types = ", ".join("int" for _ in layout[1:])
    values = []
    for index, kind in enumerate(layout[1:]):
        before = calcsize(layout[: index + 1])
        values.append(_READERS[kind].format(at=f"position + {before}" if before else "position"))
    return f"""\
def {name}(data: bytes, position: i64 = 0) -> tuple[{types}]:
    return ({", ".join(values)},)
"""


def _writer(name: str, layout: str) -> str:
    kinds = [_WRITERS[kind] for kind in layout[1:]]
    arguments = ", ".join(f"n{place}: {kind}" for place, (kind, _) in enumerate(kinds))
    writes = "".join(
        f"    {write.format(number=f'n{place}')}\n" for place, (_, write) in enumerate(kinds)
    )
    return f"""\
def {name}({arguments}) -> bytes:
    out = BytesWriter()
{writes}    return out.getvalue()
"""
