"""The emitter of encoders: from a declaration and a version to the source of `encode(m)`, of
`frame(m, correlation_id)` and of `pieces(m)`, which yields the bytes of a large message in steps.

The function collects pieces of bytes and joins them once. Neighbouring fixed-width values, the
lengths of the plain encoding and empty tag sections share one `pack`; a response that consists of
fixed-width values only is a single `pack`, frame header included.
"""

import struct as struct_module
from itertools import groupby
from typing import Any, NamedTuple

from coterie.protocol import primitives
from coterie.protocol.fields import Declaration, MessageDeclaration
from coterie.protocol.schema import FieldType, WireField, carries_records, tagged, untagged


def differs(field: WireField, value: str, made: str) -> str:
    """Return an expression that is true if a tagged field differs from its default.

    A field at its default is left out, as Kafka does.

    Args:
        field: the field.
        value: the expression of its value.
        made: the expression of its default, if that is a structure.
    """
    default = field.default
    if default is None:
        return f"{value} is not None"
    if default == []:
        return f"len({value}) > 0"
    if isinstance(default, Declaration):
        return f"{value} != {made}"
    return f"{value} != {default!r}"


# After so many pieces of an array `pieces(m)` yields: some 100 elements, 0.2 ms.
# Pieces that are records may be large.
_PIECES_TOGETHER = 512
_PIECES_WITH_RECORDS = 8


class _Piece(NamedTuple):
    """A piece of the output: its struct characters (none for bytes) and its expression."""

    chars: str
    expression: str


class EncodeEmitter:
    """Collects the lines of one encode function and the global names they use.

    In the emitted source `m` is the message, `V` the table of one-byte varints and `out` the list
    of pieces, where there is one: a message without arrays is a single expression.
    """

    def __init__(
        self,
        cls: type[Declaration],
        version: int,
        *,
        flexible: bool,
        framed: bool = False,
        spliced: str = "",
    ) -> None:
        """Emit for a class and version.

        Args:
            cls: a message, or a structure inside of one.
            version: the version of the message.
            flexible: whether the version has compact lengths and tagged fields (KIP-482).
            framed: add length prefix and response header; `cls` is a response then.
            spliced: the field, an array, whose value is an `EncodedArray`.
        """
        self.cls = cls
        self.version = version
        self.flexible = flexible
        self.framed = framed
        self._spliced = spliced
        self.names: dict[str, Any] = {
            "V": primitives.SHORT_UVARINTS,
            "uvarint": primitives.uvarint,
            "join": b"".join,
        }
        self._lines: list[str] = []
        self._depth = 1
        # Pieces whose lines are not emitted yet.
        self._pieces: list[_Piece] = []
        # The variable that collects pieces; another one inside a tagged field.
        self._out = "out"
        # Whether the function yields its pieces.
        self._yields = False
        # Whether the function needs that variable, because lines that use it were emitted.
        self._listed = False
        # Whether the first piece is left for the length of the frame; see `_prefix`.
        self._leaves_prefix = framed and carries_records(cls)
        self._serial = 0

    def source(self) -> str:
        """Return the source of the whole function."""
        label = f"{self.cls.__name__} v{self.version}"
        if self.framed:
            assert issubclass(self.cls, MessageDeclaration), "only messages have frames"
            self._fixed("i", "correlation_id")
            if self.cls.has_flexible_header(self.version):
                self._fixed("x", "")  # the header's empty tag section
        self._structure(self.cls, "m")
        name, arguments = ("frame", "m, correlation_id") if self.framed else ("encode", "m")
        head = [f"def {name}({arguments}):", f'    """{label}: compiled from its declaration."""']
        if not self._listed:
            self._line(f"return {self._whole()}")
        elif self.framed:
            self._flush()
            self._prefix()
        else:
            self._flush()
            self._line("return join(out)")
        return "\n".join(head + self._lines) + "\n"

    def pieces_source(self) -> str:
        """Return the source of `pieces(m)`, which yields lists of pieces, the body in all."""
        label = f"{self.cls.__name__} v{self.version}"
        self._yields = True
        head = ["def pieces(m):", f'    """{label} in pieces: compiled from its declaration."""']
        self._structure(self.cls, "m")
        self._flush()
        self._line("yield out")
        return "\n".join(head + self._lines) + "\n"

    def elements_source(self, field: WireField) -> str:
        """Return the source of `encode(m)`; `m` are elements of an array, without their count."""
        assert field.type.element is not None, "only arrays have elements"
        head = ["def encode(m):", f'    """{self.cls.__name__}.{field.name} v{self.version}."""']
        self._flush()
        self._elements(field.type.element, "m")
        self._line("return join(out)")
        return "\n".join(head + self._lines) + "\n"

    def _prefix(self) -> None:
        """Emit the length prefix of a frame that is a list of pieces.

        Joining the body and copying it after its length is faster than adding up the lengths of
        all pieces, unless the body holds records, which may be megabytes.
        """
        pack = self._pack("i")
        if self._leaves_prefix:
            self._line(f"out[0] = {pack}(sum(map(len, out)))")
            self._line("return join(out)")
        else:
            self._line("body = join(out)")
            self._line(f"return {pack}(len(body)) + body")

    def _whole(self) -> str:
        """Return the expression of a message that needed no list of pieces."""
        if self.framed and all(piece.chars for piece in self._pieces):
            # Everything has a fixed width, so the length is a constant.
            size = sum(struct_module.calcsize(">" + piece.chars) for piece in self._pieces)
            self._pieces.insert(0, _Piece("i", str(size)))
            return self._expressions()[0]
        expressions = self._expressions()
        body = expressions[0] if len(expressions) == 1 else f"join(({', '.join(expressions)},))"
        if not expressions:
            body = "b''"
        if not self.framed:
            return body
        self._line(f"body = {body}")
        return f"{self._pack('i')}(len(body)) + body"

    def _line(self, text: str) -> None:
        self._lines.append("    " * self._depth + text)

    def _name(self, stem: str) -> str:
        """Return a name that is unique in the function."""
        self._serial += 1
        return f"{stem}{self._serial}"

    def _pack(self, chars: str) -> str:
        """Bind the `pack` of a struct as a global name and return the name."""
        name = f"pack_{chars.replace('?', 'bool')}"
        self.names[name] = struct_module.Struct(">" + chars).pack
        return name

    def _fixed(self, chars: str, expression: str) -> None:
        """Add a fixed-width value; "x" is a zero byte and has no expression."""
        self._pieces.append(_Piece(chars, expression))

    def _raw(self, expression: str) -> None:
        """Add an expression whose value is bytes."""
        self._pieces.append(_Piece("", expression))

    def _expressions(self) -> list[str]:
        """Take the pending pieces as bytes expressions; neighbouring fixed ones share a `pack`."""
        expressions: list[str] = []
        for fixed, pieces in groupby(self._pieces, key=lambda piece: bool(piece.chars)):
            if fixed:
                expressions.append(self._packed(list(pieces)))
            else:
                expressions += [piece.expression for piece in pieces]
        self._pieces = []
        return expressions

    def _packed(self, pieces: list[_Piece]) -> str:
        """Return one expression for neighbouring fixed-width pieces."""
        chars = "".join(piece.chars for piece in pieces)
        values = ", ".join(piece.expression for piece in pieces if piece.expression)
        # Without a value there are only zero bytes, such as empty tag sections.
        return f"{self._pack(chars)}({values})" if values else repr(bytes(len(chars)))

    def _flush(self) -> None:
        """Emit the line that adds the pending pieces to the list of pieces, or begins it."""
        expressions = self._expressions()
        if not self._listed:
            self._listed = True
            if self._out == "out" and self._leaves_prefix:
                expressions.insert(0, "b''")
            self._line(f"{self._out} = [{', '.join(expressions)}]")
        elif len(expressions) == 1:
            self._line(f"{self._out}.append({expressions[0]})")
        elif expressions:
            self._line(f"{self._out} += ({', '.join(expressions)})")

    def _structure(self, cls: type[Declaration], source: str) -> None:
        """Emit the fields of the structure that the expression `source` yields."""
        for field in untagged(cls, self.version):
            if field.name == self._spliced and cls is self.cls:
                self._pieces_of(f"{source}.{field.name}")
                continue
            self._value(field.type, f"{source}.{field.name}", nullable=field.nullable(self.version))
        if self.flexible:
            self._tags(cls, source)

    def _pieces_of(self, source: str) -> None:
        """Emit an array that is encoded already."""
        items = self._name("items")
        self._line(f"{items} = {source}")
        self._count(items)
        self._flush()
        if self._yields:
            piece = self._name("e")
            self._line(f"for {piece} in {items}.pieces:")
            self._line(f"    {self._out}.append({piece})")
            self._depth += 1
            self._yield(_PIECES_TOGETHER)
            self._depth -= 1
        else:
            self._line(f"{self._out} += {items}.pieces")

    def _yield(self, most: int) -> None:
        """Emit that the pieces are yielded if they are many; those of a tagged field are not."""
        if self._yields and self._out == "out":
            self._line(f"if len(out) > {most}:")
            self._line("    yield out")
            self._line("    out = []")

    def _value(self, kind: FieldType, source: str, *, nullable: bool) -> None:
        """Emit the encoding of one value."""
        if kind.element is not None:
            self._array(kind.element, source, nullable=nullable)
        elif kind.struct is not None:
            self._nested(kind.struct, source, nullable=nullable)
        elif kind.wire is not None and kind.wire.struct:
            self._fixed(kind.wire.struct, source)
        else:
            assert kind.wire is not None
            self._sized(kind.wire.kind, source, nullable=nullable, optional=kind.optional)

    def _count(self, items: str) -> None:
        """Emit the count of an array."""
        if not self.flexible:
            self._fixed("i", f"len({items})")
            return
        count = self._name("n")
        self._line(f"{count} = len({items}) + 1")
        self._varint(count)

    def _varint(self, value: str) -> None:
        """Add an unsigned varint; a table holds those of one byte, which most are."""
        self._raw(f"V[{value}] if {value} < 128 else uvarint({value})")

    def _sized(self, kind: str, source: str, *, nullable: bool, optional: bool) -> None:
        """Emit a string, bytes or records after their length."""
        length, value = self._name("n"), self._name("b")
        raw = self._name("v") if optional else source
        text = f"{raw}.encode()" if kind == "string" else raw
        assign = f"{value} = {text}; {length} = len({value}){' + 1' if self.flexible else ''}"
        if optional:
            # A version that has no null gets the empty value instead [framing/null-before-version].
            null = (0 if nullable else 1) if self.flexible else (-1 if nullable else 0)
            self._line(f"{raw} = {source}")
            self._line(f"if {raw} is None: {value} = b''; {length} = {null}")
            self._line(f"else: {assign}")
        else:
            self._line(assign)
        if self.flexible:
            self._varint(length)
        else:
            self._fixed("h" if kind == "string" else "i", length)
        self._raw(value)

    def _nested(self, cls: type[Declaration], source: str, *, nullable: bool) -> None:
        """Emit a structure inside a structure; a nullable one has a mark [framing/null-structs]."""
        if nullable:
            self._marked(cls, source, b"\xff")
            return
        inner = self._name("s")
        self._line(f"{inner} = {source}")
        self._structure(cls, inner)

    def _marked(self, cls: type[Declaration], source: str, null: bytes) -> None:
        """Emit a structure behind a mark, or the mark `null` in place of it."""
        inner = self._name("s")
        self._flush()
        self._line(f"{inner} = {source}")
        self._line(f"if {inner} is None: {self._out}.append({null!r})")
        self._line("else:")
        self._depth += 1
        self._fixed("b", "1")
        self._structure(cls, inner)
        self._flush()
        self._depth -= 1

    def _array(self, element: FieldType, source: str, *, nullable: bool) -> None:
        """Emit the encoding of an array."""
        items = self._name("items")
        self._line(f"{items} = {source}")
        if nullable:
            self._flush()
            null = b"\x00" if self.flexible else b"\xff\xff\xff\xff"
            self._line(f"if {items} is None: {self._out}.append({null!r})")
            self._line("else:")
            self._depth += 1
        self._count(items)
        if element.wire is not None and element.wire.struct and element.wire.kind != "uuid":
            self._numbers(element.wire.struct, items)
        else:
            self._flush()
            self._elements(element, items)
        if nullable:
            self._flush()
            self._depth -= 1

    def _numbers(self, chars: str, items: str) -> None:
        """Add the elements of an array of numbers as one `pack`; most arrays have one."""
        self.names["pack_array"] = struct_module.pack
        one, more = f"{self._pack(chars)}(*{items})", f"f'>{{len({items})}}{chars}', *{items}"
        self._raw(f"{one} if len({items}) == 1 else pack_array({more})")

    def _elements(self, element: FieldType, items: str) -> None:
        """Emit the loop over the elements of an array."""
        item = self._name("e")
        self._line(f"for {item} in {items}:")
        self._depth += 1
        if element.struct is not None:
            self._structure(element.struct, item)
        else:
            self._value(element, item, nullable=element.optional)
        self._flush()
        if self._lines[-1].endswith(":"):
            self._line("pass")
        has_records = element.struct is not None and carries_records(element.struct)
        self._yield(_PIECES_WITH_RECORDS if has_records else _PIECES_TOGETHER)
        self._depth -= 1

    def _tags(self, cls: type[Declaration], source: str) -> None:
        """Emit the tag section of a structure [framing/plain-lengths].

        Where no tagged field is declared the section is one zero byte, which joins the pending
        fixed-width values.
        """
        known = tagged(cls, self.version)
        if not known:
            self._fixed("x", "")
            return
        self._flush()
        tests = [self._differs(field, source) for field in known]
        count = self._name("t")
        self._line(f"{count} = {' + '.join(f'({test})' for test in tests)}")
        self._line(f"{self._out}.append(V[{count}])")
        self._line(f"if {count}:")
        self._depth += 1
        if len(known) == 1:
            self._tag(known[0], source)
        else:
            for field, test in zip(known, tests, strict=True):
                self._line(f"if {test}:")
                self._depth += 1
                self._tag(field, source)
                self._depth -= 1
        self._depth -= 1

    def _differs(self, field: WireField, source: str) -> str:
        """Return an expression that is true if a tagged field differs from its default."""
        made = f"default_{field.name}"
        if isinstance(field.default, Declaration):
            self.names[made] = field.declared.factory
        return differs(field, f"{source}.{field.name}", f"{made}()")

    def _tag(self, field: WireField, source: str) -> None:
        """Emit one tagged field; its size precedes it, so its pieces are joined on their own."""
        outer, self._out = self._out, self._name("held")
        self._listed = False
        value, nullable = f"{source}.{field.name}", field.nullable(self.version)
        if nullable and field.type.struct is not None:
            # Its mark of a null is another one [framing/null-structs].
            self._marked(field.type.struct, value, b"\0")
        else:
            # A null that is the default is left out.
            self._value(field.type, value, nullable=nullable and field.default is not None)
        self._flush()
        inner, self._out = self._out, outer
        data, length = self._name("b"), self._name("n")
        self._line(f"{data} = join({inner}); {length} = len({data})")
        self._raw(repr(primitives.uvarint(field.declared.tag or 0)))
        self._varint(length)
        self._raw(data)
        self._flush()
