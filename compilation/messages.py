"""A module of declared messages, rewritten with native classes and written-out codecs.

The text of the declaring module is kept, except that every declared class is replaced by a class
with typed attributes and a constructor. Behind the class of a message follow the functions that
`codecs.py` writes for it, and one line that registers them. An encoder that the module binds at
its top level, as in `_encode = Offset.encoder(4)`, becomes a function that calls one of them.
"""

import ast
from collections.abc import Iterator
from importlib import import_module
from typing import NamedTuple

from compilation.codecs import CodecWriter, snake
from coterie.protocol.fields import Declaration, MessageDeclaration
from coterie.protocol.schema import fields_of

_IMPORTS = """\
from typing import Any, ClassVar

from mypy_extensions import i32, i64, mypyc_attr

from coterie.protocol.fields import Field, VersionRange
from coterie.protocol.wire_bytes import PLAIN, Reader, Writer, annotate, describe, register
"""

# Values of fields cannot refer back to their message, so the garbage collector leaves messages out;
# and the memory of the message that was freed last is used again.
_ATTRIBUTES = "@mypyc_attr(acyclic=True, free_list_len=1)"


class _FieldText(NamedTuple):
    """A field of a declaration as it is written: its annotation and its default."""

    name: str
    annotation: str
    declared: str


def rewritten(module_name: str, source: str) -> str:
    """Return the source of a module of declarations with native classes and codecs.

    Args:
        module_name: the declaring module, which is imported.
        source: its source.
    """
    module = import_module(module_name)
    tree = ast.parse(source)
    lines = source.splitlines(keepends=True)
    encoded = source.encode().splitlines(keepends=True)
    pieces: list[str] = [f"# Written by `python -m compilation` from {module_name}; do not edit.\n"]
    done = 0
    imports_at = _end_of_imports(tree)
    for node in tree.body:
        if node.lineno > imports_at >= 0:
            pieces += ["".join(lines[done:imports_at]), _IMPORTS]
            done, imports_at = imports_at, -1
        encoder = _bound_encoder(node)
        if encoder is not None:
            pieces += ["".join(lines[done : node.lineno - 1]), encoder]
            done = node.end_lineno or 0
        cls = getattr(module, node.name, None) if isinstance(node, ast.ClassDef) else None
        if not isinstance(node, ast.ClassDef) or not _is_declaration(cls):
            continue
        assert cls is not None
        first = min(each.lineno for each in node.decorator_list) - 1
        pieces.append("".join(lines[done:first]))
        pieces.append(_native_class(cls, node, encoded))
        if issubclass(cls, MessageDeclaration):
            pieces.append("\n\n" + CodecWriter(cls).source())
        done = node.end_lineno or 0
    pieces.append("".join(lines[done:]))
    return "".join(pieces)


def declares_messages(source: str) -> bool:
    """Return whether a module declares structures or messages."""
    return any(
        isinstance(node, ast.ClassDef) and any(map(_is_decorator, node.decorator_list))
        for node in ast.parse(source).body
    )


def _bound_encoder(node: ast.stmt) -> str | None:
    """Return the source of a function in place of a statement that binds an encoder, else None."""
    match node:
        case ast.Assign(
            targets=[ast.Name(id=name)],
            value=ast.Call(
                func=ast.Attribute(value=ast.Name(id=cls), attr="encoder"), args=[version]
            ),
        ):
            encode = f"encode_{snake(cls)}({ast.unparse(version)}, m)"
            return f"def {name}(m: {cls}) -> bytes:\n    return {encode}\n"
    return None


def _is_decorator(node: ast.expr) -> bool:
    target = node.func if isinstance(node, ast.Call) else node
    return isinstance(target, ast.Name) and target.id in ("struct", "message")


def _is_declaration(cls: object) -> bool:
    return isinstance(cls, type) and issubclass(cls, Declaration)


def _end_of_imports(tree: ast.Module) -> int:
    """Return the line after which imports may be added."""
    return max(
        node.end_lineno or 0 for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)
    )


def _text(lines: list[bytes], node: ast.expr) -> str:
    """Return the text of an expression, as `ast.get_source_segment`, which splits all lines anew.

    Args:
        lines: those of the module in UTF-8, which the places of nodes count.
        node: the expression.
    """
    found = lines[node.lineno - 1 : node.end_lineno]
    found[-1] = found[-1][: node.end_col_offset]
    found[0] = found[0][node.col_offset :]
    return b"".join(found).decode()


def _field_texts(node: ast.ClassDef, lines: list[bytes]) -> Iterator[_FieldText]:
    for each in node.body:
        if not isinstance(each, ast.AnnAssign):
            continue
        assert isinstance(each.target, ast.Name)
        annotation = _text(lines, each.annotation)
        declared = "PLAIN"
        if each.value is not None:
            text = _text(lines, each.value)
            declared = text if _declares_field(each.value) else f"Field(default={text})"
        yield _FieldText(each.target.id, annotation, " ".join(declared.split()))


def _declares_field(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("since", "until", "field")
    )


def _native_class(cls: type[Declaration], node: ast.ClassDef, encoded: list[bytes]) -> str:
    """Return the source of a class with attributes in place of declared fields."""
    texts = list(_field_texts(node, encoded))
    base = "Message" if issubclass(cls, MessageDeclaration) else "Struct"
    lines = [_ATTRIBUTES, f"class {cls.__name__}({base}):"]
    docstring = node.body[0]
    assert isinstance(docstring, ast.Expr), f"{cls.__name__} has no docstring"
    lines += [f"    {_text(encoded, docstring.value)}", ""]
    lines.append("    fields_: ClassVar[dict[str, Field]] = {")
    lines += [f"        {each.name!r}: {each.declared}," for each in texts]
    lines += ["    }", ""]
    lines += _constructor(cls, texts)
    lines += _positional_constructor(cls, texts)
    # Native classes have no annotations of their own, which `schema.fields_of` reads. One text is
    # a tenth of the C source of a dictionary.
    types = "\n".join(f"{each.name} {each.annotation}" for each in texts)
    lines += ["", "", f"annotate({cls.__name__}, {types!r})"]
    if issubclass(cls, MessageDeclaration):
        lines.append(_description(cls))
    return "\n".join(lines) + "\n"


def _description(cls: type[MessageDeclaration]) -> str:
    """Return the call that gives a message what its declaration says of it."""
    first, last = cls.versions
    values = (
        None if cls.api_key is None else int(cls.api_key),
        first,
        last,
        cls.flexible,
        cls.header_flexible,
        cls.element_budget,
        cls.open_ended,
    )
    return f"describe({cls.__name__}, {', '.join(map(repr, values))})"


def _constructor(cls: type[Declaration], texts: list[_FieldText]) -> list[str]:
    arguments, body = [], []
    for field, text in zip(fields_of(cls), texts, strict=True):
        if field.required:
            arguments.append(f"{field.name}: {text.annotation}")
            body.append(f"self.{field.name}: {text.annotation} = {field.name}")
        elif field.declared.factory is not None:
            # As in the compiled constructor, an argument that was not given has a mark.
            arguments.append(f"{field.name}: Any = ...")
            value = f"{field.declared.factory.__name__}() if {field.name} is ... else {field.name}"
            body.append(f"self.{field.name}: {text.annotation} = {value}")
        else:
            arguments.append(f"{field.name}: {text.annotation} = {field.default!r}")
            body.append(f"self.{field.name}: {text.annotation} = {field.name}")
    star = "*, " if arguments else ""
    head = f"    def __init__(self, {star}{', '.join(arguments)}) -> None:"
    return [head, *(f"        {line}" for line in body or ["pass"])]


def _positional_constructor(cls: type[Declaration], texts: list[_FieldText]) -> list[str]:
    # mypyc does not let an override take a float where the base class takes objects.
    arguments = ", ".join(
        f"{each.name}: {'Any' if each.annotation == 'Float64' else each.annotation}"
        for each in texts
    )
    values = ", ".join(f"{each.name}={each.name}" for each in texts)
    return [
        "",
        "    @staticmethod",
        f"    def of({arguments}) -> {cls.__name__!r}:  # type: ignore[override]",
        f"        return {cls.__name__}({values})",
    ]
