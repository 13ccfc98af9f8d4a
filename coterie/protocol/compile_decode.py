"""The emitter of decoders: from a declaration and a version to the source of
`decode(buf, p, end) -> message`, or of `decode_in_steps`, a generator that returns the message.

The function runs in a straight line. Neighbouring fixed-width values, and the first byte of a
compact length after them, share one `struct` call; arrays are loops in place; strings are sliced
directly from the buffer. A call of a Python function costs about as much as decoding two fields,
so the usual case calls none.

Before anything is allocated, every length is checked against `end`, and every count against the
bytes that are left [framing/malformed-frame] and against the element budget
[framing/element-limit]. Fixed-width values need no check of their own: `unpack_from` raises at the
end of the buffer, and the last line of the function refuses a message that ended beyond `end`.
"""

import struct as struct_module
from typing import Any, NamedTuple

from coterie.protocol import primitives
from coterie.protocol.fields import Declaration, MessageDeclaration
from coterie.protocol.schema import FieldType, WireField, fields_of, minimum_size, tagged, untagged


class _FixedValue(NamedTuple):
    """A fixed-width value that is not decoded yet: the target expression, the struct character."""

    target: str
    char: str


# How many elements of arrays a generator decodes in one step: a few hundred microseconds.
_ELEMENTS_A_STEP = 128


class DecodeEmitter:
    """Collects the lines of one decode function and the global names they use.

    In the emitted source `buf` is the buffer, `p` the position, `end` the end of the message and
    `m` the message.
    """

    def __init__(
        self, cls: type[MessageDeclaration], version: int, *, in_steps: bool = False
    ) -> None:
        """Emit for one message class and version; `in_steps` makes the function a generator."""
        self.cls = cls
        self.version = version
        self.in_steps = in_steps
        self.flexible = cls.is_flexible(version)
        self.names: dict[str, Any] = {name: getattr(primitives, name) for name in _PRIMITIVES}
        self._lines: list[str] = []
        self._depth = 1
        # Neighbouring fixed-width values, which one unpack decodes.
        self._run: list[_FixedValue] = []
        self._serial = 0
        self._budgeted = False

    def source(self) -> str:
        """Return the source of the whole function."""
        label = f"{self.cls.__name__} v{self.version}"
        self._structure(self.cls, "m", self.cls.__name__)
        self._flush()
        # Also refuses a message whose last fixed-width values were read from beyond `end`.
        too_far = "p > end" if self.cls.open_ended else "p != end"
        self._line(f"if {too_far}: refuse_leftover({label!r}, p, end)")
        self._line("return m")
        name = "decode_in_steps" if self.in_steps else "decode"
        head = [f"def {name}(buf, p, end):", f'    """{label}: compiled from its declaration."""']
        if self._budgeted:
            head.append(f"    budget = {self.cls.element_budget}")
        if self.in_steps:
            # The first `yield` makes a generator of a message without arrays, too.
            head += [f"    left = {_ELEMENTS_A_STEP}", "    yield"]
        return "\n".join(head + self._lines) + "\n"

    def _line(self, text: str) -> None:
        self._lines.append("    " * self._depth + text)

    def _name(self, stem: str) -> str:
        """Return a name that is unique in the function."""
        self._serial += 1
        return f"{stem}{self._serial}"

    def _fixed(self, target: str, char: str) -> None:
        """Add a fixed-width value to the pending run."""
        self._run.append(_FixedValue(target, char))

    def _flush(self) -> None:
        """Emit the pending run of fixed-width values as one unpack.

        Every line that uses one of these values, or moves `p`, must be emitted after a flush.
        """
        if not self._run:
            return
        run, self._run = self._run, []
        chars = "".join(value.char for value in run)
        size = struct_module.calcsize(">" + chars)
        if chars == "B":
            # Indexing one byte is faster than a struct call.
            self._line(f"{run[0].target} = buf[p]; p += 1")
            return
        unpack = f"unpack_{chars.replace('?', 'bool')}"
        self.names[unpack] = struct_module.Struct(">" + chars).unpack_from
        targets = ", ".join(value.target for value in run) + ("," if len(run) == 1 else "")
        self._line(f"{targets} = {unpack}(buf, p); p += {size}")

    def _structure(self, cls: type[Declaration], target: str, where: str) -> None:
        """Emit the decoding of a structure into a new object named `target`.

        `where` is the field's path, which refusals name.
        """
        self.names[cls.__name__] = cls
        self.names[f"new_{cls.__name__}"] = cls.__new__
        # `__new__` and one store for each slot: a constructor call would cost more than decoding
        # the fields.
        self._line(f"{target} = new_{cls.__name__}({cls.__name__})")
        in_line = untagged(cls, self.version)
        carried = {f.name for f in in_line}
        # Absent and tagged fields get their defaults first; a tag may overwrite its field later.
        for field in fields_of(cls):
            if field.name not in carried:
                self._line(f"{target}.{field.name} = {self._constant(field)}")
        for field in in_line:
            self._value(
                field.type,
                f"{target}.{field.name}",
                f"{where}.{field.name}",
                nullable=field.nullable(self.version),
            )
        if self.flexible:
            self._tags(cls, target, where)

    def _constant(self, field: WireField) -> str:
        """Return an expression for a field's default."""
        default = field.default
        if default is None or isinstance(default, int | str | bytes | float):
            return repr(default)
        if default == []:
            return "[]"
        name = f"default_{field.name}"
        self.names[name] = field.declared.factory
        return f"{name}()"

    def _tags(self, cls: type[Declaration], target: str, where: str) -> None:
        """Emit the tag section of a structure [framing/plain-lengths].

        The count joins the run of fixed-width values before it: in nearly every message it is one
        zero byte, and then the section costs one comparison.
        """
        count = self._name("t")
        self._fixed(count, "B")
        self._flush()
        known = tagged(cls, self.version)
        if not known:
            self._line(f"if {count}: p = skip_tags(buf, p, end, {count})")
            return
        tag, size, stop = self._name("tag"), self._name("size"), self._name("stop")
        self._line(f"if {count}:")
        self._depth += 1
        self._line(f"{count}, p = tag_count(buf, p, {count})")
        self._line(f"for _ in range({count}):")
        self._depth += 1
        self._line(f"{tag}, p = read_uvarint(buf, p)")
        self._line(f"{size}, p = read_uvarint(buf, p); {stop} = p + {size}")
        self._line(f"if {stop} > end: refuse_length({where + ' tag'!r}, {size}, end - p)")
        for index, field in enumerate(known):
            self._line(f"{'el' if index else ''}if {tag} == {field.declared.tag}:")
            self._depth += 1
            name = f"{where}.{field.name}"
            nullable = field.nullable(self.version)
            if nullable and field.type.struct is not None:
                self._tagged_null_mark(f"{target}.{field.name}")
                self._depth += 1
                self._nested(field.type.struct, f"{target}.{field.name}", name, nullable=False)
                self._depth -= 1
            else:
                self._value(field.type, f"{target}.{field.name}", name, nullable=nullable)
            self._flush()
            self._line(f"if p != {stop}: refuse_leftover({name!r}, p, {stop})")
            self._depth -= 1
        self._line(f"else: p = {stop}")
        self._depth -= 2

    def _value(
        self,
        kind: FieldType,
        target: str,
        where: str,
        *,
        nullable: bool,
    ) -> None:
        """Emit the decoding of one value into `target`."""
        if kind.element is not None:
            self._array(kind.element, target, where, nullable=nullable)
        elif kind.struct is not None:
            self._nested(kind.struct, target, where, nullable=nullable)
        elif kind.wire is not None and kind.wire.struct:
            self._fixed(target, kind.wire.struct)
        else:
            assert kind.wire is not None
            self._sized(kind.wire.kind, target, where, nullable=nullable)

    def _nested(self, cls: type[Declaration], target: str, where: str, *, nullable: bool) -> None:
        """Emit a structure inside a structure; a nullable one has a mark [framing/null-structs]."""
        if nullable:
            mark = self._name("n")
            self._fixed(mark, "b")
            self._flush()
            self._line(f"if {mark} < 0: {target} = None")
            self._line("else:")
            self._depth += 1
        self._flush()
        inner = self._name("s")
        self._structure(cls, inner, where)
        self._flush()
        self._line(f"{target} = {inner}")
        if nullable:
            self._depth -= 1

    def _tagged_null_mark(self, target: str) -> None:
        """Emit the mark of a tagged structure [framing/null-structs]."""
        mark = self._name("n")
        self._fixed(mark, "B")
        self._flush()
        self._line(f"if not {mark}: {target} = None")
        self._line("else:")

    def _count(self) -> str:
        """Emit the reading of an array's count; return its variable, which is -1 for null."""
        count = self._name("n")
        self._fixed(count, "B" if self.flexible else "i")
        self._flush()
        if self.flexible:
            self._line(f"if {count} > 127: {count}, p = uvarint_rest(buf, p, {count})")
            self._line(f"{count} -= 1")
        return count

    def _length(self, kind: str, where: str) -> tuple[str, str]:
        """Emit the reading of a string's or byte array's length.

        Returns:
            An expression of the length, and one that is true for null.
        """
        length = self._name("n")
        if not self.flexible:
            self._fixed(length, "h" if kind == "string" else "i")
            self._flush()
            return length, f"{length} == -1"
        # One byte holds most lengths, so the first byte joins the pending run, and only a longer
        # varint calls a function.
        self._fixed(length, "B")
        self._flush()
        rest = (
            f"string_length(buf, p, {length}, {where!r})"
            if kind == "string"
            else f"uvarint_rest(buf, p, {length})"
        )
        self._line(f"if {length} > 127: {length}, p = {rest}")
        return f"{length} - 1", f"not {length}"

    def _sized(self, kind: str, target: str, where: str, *, nullable: bool) -> None:
        """Emit the decoding of a string, bytes or records."""
        length, is_null = self._length(kind, where)
        if nullable:
            self._line(f"if {is_null}: {target} = None")
            self._line("else:")
            self._depth += 1
        # A negative length moves `stop` before `p`, so one comparison refuses both a negative
        # length and one beyond the end. A null is negative too: only the refusal separates the two.
        self._line(f"stop = p + {length}")
        if nullable:
            self._line(f"if not p <= stop <= end: refuse_length({where!r}, {length}, end - p)")
        else:
            self._line("if not p <= stop <= end:")
            self._line(f"    if {is_null}: refuse_null({where!r})")
            self._line(f"    refuse_length({where!r}, {length}, end - p)")
        text = "buf[p:stop].decode()" if kind == "string" else "buf[p:stop]"
        self._line(f"{target} = {text}; p = stop")
        if nullable:
            self._depth -= 1

    def _array(self, element: FieldType, target: str, where: str, *, nullable: bool) -> None:
        """Emit the decoding of an array, after the checks of its count."""
        count = self._count()
        # An element without fields still counts as one byte, or the check would pass any count.
        least = max(1, minimum_size(element, self.version, flexible=self.flexible))
        if nullable:
            self._line(f"if {count} == -1: {target} = None")
            self._line("else:")
            self._depth += 1
        else:
            self._line(f"if {count} == -1: refuse_null({where!r})")
        self._line(
            f"if not 0 <= {count} * {least} <= end - p: refuse_count({where!r}, {count}, end - p)"
        )
        self._budgeted = True
        self._line(f"budget -= {count}")
        self._line(f"if budget < 0: refuse_elements({where!r}, {count})")
        if element.wire is not None and element.wire.struct and element.wire.kind != "uuid":
            # Arrays of numbers are one unpack; "16s" cannot be repeated that way. Most have one.
            chars = element.wire.struct
            self.names["unpack_array"] = struct_module.unpack_from
            self.names[f"unpack_{chars}"] = struct_module.Struct(f">{chars}").unpack_from
            more = f"unpack_array(f'>{{{count}}}{chars}', buf, p)"
            self._line(f"{target} = list(unpack_{chars}(buf, p) if {count} == 1 else {more})")
            self._line(f"p += {count} * {element.wire.size}")
        else:
            self._loop(element, count, target, where)
        if nullable:
            self._depth -= 1

    def _loop(self, element: FieldType, count: str, target: str, where: str) -> None:
        """Emit the loop over the elements of an array."""
        items, item = self._name("items"), self._name("e")
        # The bound method is looked up once and not for every element.
        self._line(f"{items} = []; add_{items} = {items}.append")
        self._line(f"for _ in range({count}):")
        self._depth += 1
        if element.struct is not None:
            self._structure(element.struct, item, f"{where}[]")
        else:
            self._value(element, item, f"{where}[]", nullable=element.optional)
        self._flush()
        self._line(f"add_{items}({item})")
        if self.in_steps:
            self._line("left -= 1")
            self._line(f"if not left: left = {_ELEMENTS_A_STEP}; yield")
        self._depth -= 1
        self._line(f"{target} = {items}")


_PRIMITIVES = (
    "uvarint_rest",
    "string_length",
    "read_uvarint",
    "tag_count",
    "skip_tags",
    "refuse_null",
    "refuse_length",
    "refuse_count",
    "refuse_elements",
    "refuse_leftover",
)
