"""From a declaration and a version to the source of `encode(message)` and of `frame`.

Pieces are collected and joined once. Neighbouring fixed-width values, length prefixes of the old
encoding and empty tag sections share one `pack`; a response of fixed width only is a single `pack`,
frame header included.
"""

import struct as struct_module
from typing import Any

from coterie.protocol import primitives
from coterie.protocol.schema import FieldType, WireField, carries_records, tagged, untagged
from coterie.protocol.wire import Message, Struct

# Its answers keep response header v0, for clients that do not know our versions yet (KIP-511).
_API_VERSIONS = 18


class EncodeEmitter:
    """Collects the lines of one encode function and the names they need."""

    def __init__(self, cls: type[Message], version: int, *, framed: bool) -> None:
        """Emit for a message class and version; `framed` adds length prefix and response header."""
        self.cls = cls
        self.version = version
        self.flexible = cls.flexible is not None and version >= cls.flexible
        self.framed = framed
        self.names: dict[str, Any] = {
            "V": primitives.SHORT_UVARINTS,
            "uvarint": primitives.uvarint,
            "join": b"".join,
        }
        self._lines: list[str] = []
        self._depth = 1
        self._pieces: list[tuple[str, str]] = []  # (struct characters or "", expression)
        self._out = "out"
        self._listed = False
        self._serial = 0

    def source(self) -> str:
        """The text of the whole function."""
        label = f"{self.cls.__name__} v{self.version}"
        if self.framed:
            self._fixed("i", "correlation_id")
            if self.flexible and self.cls.api_key != _API_VERSIONS:
                self._fixed("x", "")
        self._structure(self.cls, "m")
        name, arguments = ("frame", "m, correlation_id") if self.framed else ("encode", "m")
        head = [f"def {name}({arguments}):", f'    """{label}: compiled from its declaration."""']
        if not self._listed:
            self._line(f"return {self._whole()}")
        elif self.framed:
            self._flush()
            self._prefix(head)
        else:
            head.append("    out = []")
            self._flush()
            self._line("return join(out)")
        return "\n".join(head + self._lines) + "\n"

    def _prefix(self, head: list[str]) -> None:
        """Put the length before a listed frame.

        Copying the joined body is cheaper than asking every piece for its length, unless it holds
        records, which may be megabytes.
        """
        pack = self._pack("i")
        if carries_records(self.cls):
            head.append("    out = [b'']")
            self._line(f"out[0] = {pack}(sum(map(len, out)))")
            self._line("return join(out)")
        else:
            head.append("    out = []")
            self._line("body = join(out)")
            self._line(f"return {pack}(len(body)) + body")

    def _whole(self) -> str:
        """The expression of a message without loops."""
        if self.framed and all(chars for chars, _ in self._pieces):
            size = sum(struct_module.calcsize(">" + chars) for chars, _ in self._pieces)
            self._pieces.insert(0, ("i", str(size)))
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
        self._serial += 1
        return f"{stem}{self._serial}"

    def _pack(self, chars: str) -> str:
        name = f"pack_{chars.replace('?', 'bool')}"
        self.names[name] = struct_module.Struct(">" + chars).pack
        return name

    def _fixed(self, chars: str, expression: str) -> None:
        self._pieces.append((chars, expression))

    def _raw(self, expression: str) -> None:
        self._pieces.append(("", expression))

    def _expressions(self) -> list[str]:
        """The pending pieces as bytes expressions, neighbouring fixed ones packed together."""
        made: list[str] = []
        run: list[tuple[str, str]] = []

        def close() -> None:
            if not run:
                return
            chars = "".join(piece[0] for piece in run)
            values = ", ".join(expression for _, expression in run if expression)
            made.append(f"{self._pack(chars)}({values})" if values else repr(bytes(len(chars))))
            run.clear()

        for chars, expression in self._pieces:
            if chars:
                run.append((chars, expression))
            else:
                close()
                made.append(expression)
        close()
        self._pieces = []
        return made

    def _flush(self) -> None:
        """Write the pending pieces into the output list."""
        self._listed = True
        expressions = self._expressions()
        if len(expressions) == 1:
            self._line(f"{self._out}.append({expressions[0]})")
        elif expressions:
            self._line(f"{self._out} += ({', '.join(expressions)})")

    def _structure(self, cls: type[Struct], source: str) -> None:
        for field in untagged(cls, self.version):
            self._value(field.type, f"{source}.{field.name}", nullable=field.nullable(self.version))
        if self.flexible:
            self._tags(cls, source)

    def _value(self, kind: FieldType, source: str, *, nullable: bool) -> None:
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
        """The count of an array."""
        if not self.flexible:
            self._fixed("i", f"len({items})")
            return
        count = self._name("n")
        self._line(f"{count} = len({items}) + 1")
        self._varint(count)

    def _varint(self, value: str) -> None:
        self._raw(f"V[{value}] if {value} < 128 else uvarint({value})")

    def _sized(self, kind: str, source: str, *, nullable: bool, optional: bool) -> None:
        """A string or bytes behind their length."""
        length, value = self._name("n"), self._name("b")
        raw = self._name("v") if optional else source
        text = f"{raw}.encode()" if kind == "string" else raw
        assign = f"{value} = {text}; {length} = len({value}){' + 1' if self.flexible else ''}"
        if optional:
            # Where this version has no null, a None is written as the empty value.
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

    def _nested(self, cls: type[Struct], source: str, *, nullable: bool) -> None:
        inner = self._name("s")
        if not nullable:
            self._line(f"{inner} = {source}")
            self._structure(cls, inner)
            return
        self._flush()
        self._line(f"{inner} = {source}")
        self._line(f"if {inner} is None: {self._out}.append(b'\\xff')")
        self._line("else:")
        self._depth += 1
        self._fixed("b", "1")
        self._structure(cls, inner)
        self._flush()
        self._depth -= 1

    def _array(self, element: FieldType, source: str, *, nullable: bool) -> None:
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
            self.names["pack_array"] = struct_module.pack
            self._raw(f"pack_array(f'>{{len({items})}}{element.wire.struct}', *{items})")
        else:
            self._flush()
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
            self._depth -= 1
        if nullable:
            self._flush()
            self._depth -= 1

    def _tags(self, cls: type[Struct], source: str) -> None:
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
        for field, test in zip(known, tests, strict=True):
            self._line(f"if {test}:")
            self._depth += 1
            self._tag(field, source)
            self._depth -= 1
        self._depth -= 1

    def _differs(self, field: WireField, source: str) -> str:
        """An expression: is a tagged field to be written? It is left out at its default."""
        value = f"{source}.{field.name}"
        default = field.default
        if default is None:
            return f"{value} is not None"
        if default == []:
            return f"len({value}) > 0"
        return f"{value} != {default!r}"

    def _tag(self, field: WireField, source: str) -> None:
        outer, self._out = self._out, self._name("held")
        self._line(f"{self._out} = []")
        nullable = field.nullable(self.version)
        self._value(field.type, f"{source}.{field.name}", nullable=nullable)
        self._flush()
        inner, self._out = self._out, outer
        data = self._name("b")
        self._line(f"{data} = join({inner})")
        tag = primitives.uvarint(field.declared.tag or 0)
        self._line(f"{outer} += ({tag!r}, uvarint(len({data})), {data})")
