"""The codec compiler: a declaration and a version become a straight-line function at first use.

The function's source is made from our own declarations only, never from bytes of a peer, and runs
through `exec`. It is registered with `linecache`, so that a traceback shows the line that failed;
`coterie dump codec JoinGroup 7` prints it. Golden copies of a few sources are in
tests/golden/codecs, so that a change of the compiler is reviewed as the code it makes
(docs/adr/0002).
"""

import linecache
from typing import Any

from coterie.protocol.compile_decode import DecodeEmitter
from coterie.protocol.compile_encode import EncodeEmitter
from coterie.protocol.fields import Declaration, MessageDeclaration
from coterie.protocol.schema import fields_of


def source_of(
    cls: type[MessageDeclaration], direction: str, version: int
) -> tuple[str, dict[str, Any]]:
    """Return the source of a codec function and the global names it uses.

    Args:
        cls: the message class.
        direction: "decode", "decode_in_steps", "encode" or "frame" (encode with length prefix and
            response header).
        version: one of the declared versions.

    Raises:
        ValueError: the message is not declared for that version.
    """
    if not cls.versions.includes(version):
        first, last = cls.versions
        raise ValueError(f"{cls.__name__} has versions {first} to {last}, not {version}")
    if direction in ("decode", "decode_in_steps"):
        decode = DecodeEmitter(cls, version, in_steps=direction == "decode_in_steps")
        return decode.source(), decode.names
    encode = EncodeEmitter(
        cls, version, flexible=cls.is_flexible(version), framed=direction == "frame"
    )
    return encode.source(), encode.names


def compiled(cls: type[MessageDeclaration], direction: str, version: int) -> Any:
    """Return the codec function of a class, direction and version, compiled at the first call."""
    function = cls.functions_.get((direction, version))
    if function is None:
        source, names = source_of(cls, direction, version)
        function = execute(
            f"<coterie {cls.__name__} v{version} {direction}>", source, names, direction
        )
        cls.functions_[(direction, version)] = function
    return function


def execute(filename: str, source: str, names: dict[str, Any], function: str) -> Any:
    """Compile a function's source; return the function."""
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    exec(compile(source, filename, "exec"), names)  # noqa: S102 - made from our declarations only
    return names[function]


def compiled_constructor(cls: type[Declaration]) -> Any:
    """Compile the keyword-only `__init__` of a declared structure."""
    arguments, body = [], []
    names: dict[str, Any] = {}
    for field in fields_of(cls):
        if field.required:
            arguments.append(field.name)
            body.append(f"    self.{field.name} = {field.name}")
        elif field.declared.factory is not None:
            # None is a value of a nullable field, so an argument that was not given needs a mark of
            # its own.
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
    return execute(f"<coterie {cls.__name__} constructor>", source, names, "__init__")


def compiled_of(cls: type[Declaration]) -> Any:
    """Compile the positional constructor of a declared structure.

    It fills the slots of a bare object, which saves the call of an `__init__` and the matching of
    keywords.
    """
    fields = [field.name for field in fields_of(cls)]
    lines = [f"def of({', '.join(fields)}):", "    m = new(made)"]
    lines += [f"    m.{name} = {name}" for name in fields]
    source = "\n".join([*lines, "    return m"]) + "\n"
    names = {"new": cls.__new__, "made": cls}
    return execute(f"<coterie {cls.__name__} of>", source, names, "of")
