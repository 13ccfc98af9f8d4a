"""Declarations to straight-line functions, made once by `exec` at their first use.

The source comes from our own declarations only; no byte of a peer ever reaches the compiler. It is
registered with `linecache`, so a traceback shows the line that failed, and `coterie dump codec
JoinGroup 7` prints it. Golden copies of a few stand in tests/golden, so that a change here is
reviewed as the code it makes (docs/adr/0002).
"""

import linecache
from typing import Any

from coterie.protocol.compile_decode import DecodeEmitter
from coterie.protocol.compile_encode import EncodeEmitter
from coterie.protocol.schema import fields_of
from coterie.protocol.wire import Message, Struct


def source_of(cls: type[Message], direction: str, version: int) -> tuple[str, dict[str, Any]]:
    """The text of a codec function and the names it uses.

    Args:
        cls: the message class.
        direction: "decode", "encode" or "frame" (encode with length prefix and response header).
        version: one of the declared versions.
    """
    first, last = cls.versions
    if not first <= version <= last:
        raise ValueError(f"{cls.__name__} has versions {first} to {last}, not {version}")
    if direction == "decode":
        decode = DecodeEmitter(cls, version)
        return decode.source(), decode.names
    encode = EncodeEmitter(cls, version, framed=direction == "frame")
    return encode.source(), encode.names


def compiled(cls: type[Message], direction: str, version: int) -> Any:
    """The codec function of a class, direction and version; compiled once, then kept."""
    function = cls.functions_.get((direction, version))
    if function is None:
        source, names = source_of(cls, direction, version)
        function = _execute(
            f"<coterie {cls.__name__} v{version} {direction}>", source, names, direction
        )
        cls.functions_[(direction, version)] = function
    return function


def _execute(filename: str, source: str, names: dict[str, Any], function: str) -> Any:
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    exec(compile(source, filename, "exec"), names)  # noqa: S102 - made from our declarations only
    return names[function]


def install_constructor(cls: type[Struct]) -> None:
    """Compile the keyword-only constructor of a declared structure and put it on the class."""
    arguments, body = [], []
    names: dict[str, Any] = {}
    for field in fields_of(cls):
        if field.required:
            arguments.append(field.name)
            body.append(f"    self.{field.name} = {field.name}")
        elif field.declared.factory is not None:
            # None is a value of its own where the field is nullable, so "not given" is another.
            arguments.append(f"{field.name}=not_given")
            names["not_given"] = ...
            names[f"make_{field.name}"] = field.declared.factory
            fresh = f"make_{field.name}() if {field.name} is not_given else {field.name}"
            body.append(f"    self.{field.name} = {fresh}")
        else:
            names[f"default_{field.name}"] = field.default
            arguments.append(f"{field.name}=default_{field.name}")
            body.append(f"    self.{field.name} = {field.name}")
    star = "*, " if arguments else ""
    head = f"def __init__(self, {star}{', '.join(arguments)}):"
    source = "\n".join([head, *(body or ["    pass"])]) + "\n"
    constructor = _execute(f"<coterie {cls.__name__} constructor>", source, names, "__init__")
    cls.__init__ = constructor  # type: ignore[method-assign]


def install_of(cls: type[Struct]) -> None:
    """Compile the positional constructor of a declared structure and put it on the class."""
    fields = [field.name for field in fields_of(cls)]
    lines = [f"def of({', '.join(fields)}):", "    m = new(made)"]
    lines += [f"    m.{name} = {name}" for name in fields]
    source = "\n".join([*lines, "    return m"]) + "\n"
    names = {"new": object.__new__, "made": cls}
    function = _execute(f"<coterie {cls.__name__} of>", source, names, "of")
    cls.of = staticmethod(function)  # type: ignore[method-assign]
