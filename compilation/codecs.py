"""The codecs of one message, written out: functions that read and write its fields in order.

A structure has one function to read and one to write it. It serves all versions: fields that not
all of them carry are behind a comparison of the version.
"""

import re
from collections.abc import Callable, Iterable

from coterie.protocol.compile_encode import differs
from coterie.protocol.fields import Declaration, MessageDeclaration
from coterie.protocol.schema import FieldType, WireField, fields_of, minimum_size

_RESERVED = frozenset({"r", "w", "m", "version", "count", "tag", "stop", "held"})


class CodecWriter:
    """Writes the functions of one message class."""

    def __init__(self, cls: type[MessageDeclaration]) -> None:
        self.cls = cls
        self.versions = range(cls.versions.first, cls.versions.last + 1)
        # Functions of inner structures come before those that call them.
        self._functions: list[str] = []
        self._serial = 0

    def source(self) -> str:
        """Return the source of all functions, and of their registration."""
        name = snake(self.cls.__name__)
        self._reading(self.cls, f"_read_{name}", self.cls.__name__)
        self._writing(self.cls, f"_write_{name}", self.cls.__name__)
        flexible = _condition(self.cls.is_flexible, self.versions)
        header = _condition(self.cls.has_flexible_header, self.versions)
        cls = self.cls.__name__
        decode = [
            f"def decode_{name}(version: i64, buf: bytes, p: i64, end: i64) -> {cls}:",
            f"    r = Reader(buf, p, end, {self.cls.element_budget}, flexible={flexible})",
            f"    m = _read_{name}(r, version)",
            f"    r.finish({cls!r}, version, open_ended={self.cls.open_ended})",
            "    return m",
        ]
        encode = [
            f"def encode_{name}(version: i64, m: {cls}) -> bytes:",
            f"    w = Writer(flexible={flexible})",
            f"    _write_{name}(w, m, version)",
            "    return w.result()",
        ]
        frame = [
            f"def frame_{name}(version: i64, m: {cls}, correlation_id: i32) -> bytes:",
            f"    w = Writer(flexible={flexible})",
            f"    w.begin_frame(correlation_id, flexible_header={header})",
            f"    _write_{name}(w, m, version)",
            "    return w.frame()",
        ]
        # Only responses are sent with a header of this kind.
        is_response = cls.endswith("Response")
        functions = (decode, encode, frame) if is_response else (decode, encode)
        self._functions += ["\n".join([*lines, ""]) for lines in functions]
        names = f"decode_{name}, encode_{name}" + (f", frame_{name}" if is_response else "")
        self._functions.append(f"register({cls}, {names})\n")
        return "\n\n".join(self._functions)

    def _name(self, stem: str) -> str:
        self._serial += 1
        return f"{stem}{self._serial}"

    def _nullable(self, field: WireField) -> str:
        """Return an expression of whether a field may be null, where it is present."""
        versions = [version for version in self.versions if field.present(version)]
        return _condition(field.nullable, versions)

    # -- reading -----------------------------------------------------------------------------------

    def _reading(self, cls: type[Declaration], name: str, where: str) -> None:
        """Write the function that reads a structure; `where` is its path in the message."""
        lines = [f"def {name}(r: Reader, version: i64) -> {cls.__name__}:"]
        tagged_fields = []
        for field in fields_of(cls):
            variable = _variable(field)
            present = _condition(field.present, self.versions)
            if present != "True" or field.declared.tag is not None:
                lines.append(f"    {variable}: {_annotation(field.type)} = {_constant(field)}")
            if field.declared.tag is not None:
                tagged_fields.append(field)
            elif present != "False":
                depth = 1 if present == "True" else 2
                if depth == 2:
                    lines.append(f"    if {present}:")
                lines += self._read(field, variable, f"{where}.{field.name}", depth)
        if self.cls.flexible is not None:
            lines += self._read_tags(tagged_fields, where)
        values = ", ".join(f"{field.name}={_variable(field)}" for field in fields_of(cls))
        lines.append(f"    return {cls.__name__}({values})")
        self._functions.append("\n".join(lines) + "\n")

    def _read(self, field: WireField, variable: str, where: str, depth: int) -> list[str]:
        """Return the lines that read one field."""
        return self._read_value(field.type, variable, where, self._nullable(field), depth)

    def _read_tagged(self, field: WireField, variable: str, where: str, depth: int) -> list[str]:
        """Return the lines that read a tagged field [framing/null-structs]."""
        nullable = self._nullable(field)
        if field.type.struct is None or nullable == "False":
            return self._read(field, variable, where, depth)
        assert nullable == "True", f"{where} is nullable in some versions only"
        space = "    " * depth
        call = f"{self._reader_of(field.type.struct, where)}(r, version)"
        return [f"{space}{variable} = {call} if r.byte() else None"]

    def _read_value(
        self, kind: FieldType, target: str, where: str, nullable: str, depth: int
    ) -> list[str]:
        space = "    " * depth
        if kind.element is not None:
            return self._read_array(kind, target, where, nullable, depth)
        if kind.struct is not None:
            call = f"{target} = {self._reader_of(kind.struct, where)}(r, version)"
            if nullable == "False":
                return [space + call]
            lines = [f"{space}if {'' if nullable == 'True' else nullable + ' and '}r.int8() < 0:"]
            return [*lines, f"{space}    {target} = None", f"{space}else:", f"{space}    {call}"]
        assert kind.wire is not None
        if kind.wire.struct:
            return [f"{space}{target} = r.{kind.wire.kind}()"]
        method = "string" if kind.wire.kind == "string" else "bytes_"
        maybe = f"r.nullable_{method.strip('_')}({where!r})"
        plain = f"r.{method}({where!r})"
        if nullable == "False":
            return [f"{space}{target} = {plain}"]
        if nullable == "True":
            return [f"{space}{target} = {maybe}"]
        return [f"{space}{target} = {maybe} if {nullable} else {plain}"]

    def _reader_of(self, cls: type[Declaration], where: str) -> str:
        name = _function("_read", where)
        self._reading(cls, name, where)
        return name

    def _read_array(
        self, kind: FieldType, target: str, where: str, nullable: str, depth: int
    ) -> list[str]:
        assert kind.element is not None
        space = "    " * depth
        count = self._name("n")
        least = self._least(kind.element)
        maybe, plain = f"r.nullable_count({where!r}, {least})", f"r.count({where!r}, {least})"
        read = {"True": maybe, "False": plain}.get(nullable, f"{maybe} if {nullable} else {plain}")
        lines = [f"{space}{count}: i64 = {read}"]
        if nullable != "False":
            lines += [f"{space}{target} = None", f"{space}if {count} >= 0:"]
            space += "    "
            depth += 1
        items, item = self._name("items"), self._name("e")
        lines.append(f"{space}{items}: list[{_annotation(kind.element)}] = []")
        lines.append(f"{space}for _ in range({count}):")
        null = str(kind.element.optional)
        inner = self._read_value(kind.element, item, f"{where}[]", null, depth + 1)
        return [*lines, *inner, f"{space}    {items}.append({item})", f"{space}{target} = {items}"]

    def _least(self, element: FieldType) -> str:
        """Return an expression of the fewest bytes of an element."""

        def least(version: int) -> int:
            flexible = self.cls.is_flexible(version)
            return max(1, minimum_size(element, version, flexible=flexible))

        sizes = {version: least(version) for version in self.versions}
        text = str(sizes[self.versions[-1]])
        for version in reversed(self.versions[:-1]):
            if sizes[version] != sizes[version + 1]:
                text = f"({sizes[version]} if version <= {version} else {text})"
        return text

    def _read_tags(self, known: list[WireField], where: str) -> list[str]:
        """Return the lines that read the tag section of a structure."""
        always = all(map(self.cls.is_flexible, self.versions))
        lines = [] if always else ["    if r.flexible:"]
        space = "    " if always else "        "
        if not known:
            return [*lines, f"{space}r.skip_tags()"]
        lines += [
            f"{space}for _ in range(r.tags()):",
            f"{space}    tag = r.uvarint()",
            f"{space}    stop = r.tag_stop({where + ' tag'!r})",
        ]
        for index, field in enumerate(sorted(known, key=lambda each: each.declared.tag or 0)):
            flexible = [version for version in self.versions if self.cls.is_flexible(version)]
            present = _condition(field.present, flexible)
            test = f"tag == {field.declared.tag}"
            test += "" if present == "True" else f" and {present}"
            lines.append(f"{space}    {'el' if index else ''}if {test}:")
            name = f"{where}.{field.name}"
            lines += self._read_tagged(field, _variable(field), name, len(space) // 4 + 2)
            lines.append(f"{space}        r.end_tag({name!r}, stop)")
        return [*lines, f"{space}    else:", f"{space}        r.at = stop"]

    # -- writing -----------------------------------------------------------------------------------

    def _writing(self, cls: type[Declaration], name: str, where: str) -> None:
        """Write the function that writes a structure."""
        lines = [f"def {name}(w: Writer, m: {cls.__name__}, version: i64) -> None:"]
        tagged_fields = []
        for field in fields_of(cls):
            if field.declared.tag is not None:
                tagged_fields.append(field)
                continue
            present = _condition(field.present, self.versions)
            if present == "False":
                continue
            depth = 1 if present == "True" else 2
            if depth == 2:
                lines.append(f"    if {present}:")
            lines += self._write(field, f"{where}.{field.name}", depth)
        if self.cls.flexible is not None:
            lines += self._write_tags(tagged_fields, where)
        if len(lines) == 1:
            lines.append("    pass")
        self._functions.append("\n".join(lines) + "\n")

    def _write(self, field: WireField, where: str, depth: int, writer: str = "w") -> list[str]:
        nullable = self._nullable(field)
        return self._write_value(field.type, f"m.{field.name}", where, nullable, depth, writer)

    def _write_value(
        self, kind: FieldType, value: str, where: str, nullable: str, depth: int, w: str
    ) -> list[str]:
        space = "    " * depth
        if kind.element is not None:
            return self._write_array(kind, value, where, nullable, depth, w)
        if kind.struct is not None:
            return self._write_struct(kind, value, where, nullable, depth, w)
        assert kind.wire is not None
        if kind.wire.struct:
            return [f"{space}{w}.{kind.wire.kind}({value})"]
        method = {"bytes": "bytes_"}.get(kind.wire.kind, kind.wire.kind)
        if kind.optional:
            return [f"{space}{w}.nullable_{method.strip('_')}({value}, nullable={nullable})"]
        return [f"{space}{w}.{method}({value})"]

    def _write_struct(
        self, kind: FieldType, value: str, where: str, nullable: str, depth: int, w: str
    ) -> list[str]:
        assert kind.struct is not None
        space = "    " * depth
        name = _function("_write", where)
        self._writing(kind.struct, name, where)
        if not kind.optional:
            return [f"{space}{name}({w}, {value}, version)"]
        inner = self._name("s")
        lines = [f"{space}{inner} = {value}"]
        if nullable == "False":
            lines.append(f"{space}assert {inner} is not None, {where!r}")
            return [*lines, f"{space}{name}({w}, {inner}, version)"]
        assert nullable == "True", f"{where} is nullable in some versions only"
        return [
            *lines,
            f"{space}if {inner} is None:",
            # The mark of a null is another one in a tagged field [framing/null-structs].
            f"{space}    {w}.int8({0 if w == 'held' else -1})",
            f"{space}else:",
            f"{space}    {w}.int8(1)",
            f"{space}    {name}({w}, {inner}, version)",
        ]

    def _write_array(
        self, kind: FieldType, value: str, where: str, nullable: str, depth: int, w: str
    ) -> list[str]:
        assert kind.element is not None
        space = "    " * depth
        items, item = self._name("items"), self._name("e")
        lines = [f"{space}{items} = {value}"]
        if nullable == "False" and kind.optional:
            lines.append(f"{space}assert {items} is not None, {where!r}")
        elif kind.optional:
            if nullable != "True":
                lines.append(f"{space}assert {items} is not None or {nullable}, {where!r}")
            lines += [f"{space}if {items} is None:", f"{space}    {w}.null()", f"{space}else:"]
            space += "    "
            depth += 1
        lines.append(f"{space}{w}.count(i64(len({items})))")
        lines.append(f"{space}for {item} in {items}:")
        null = str(kind.element.optional)
        return [
            *lines,
            *self._write_value(kind.element, item, f"{where}[]", null, depth + 1, w),
        ]

    def _write_tags(self, known: list[WireField], where: str) -> list[str]:
        """Return the lines that write the tag section; fields at their defaults are left out."""
        always = all(map(self.cls.is_flexible, self.versions))
        lines = [] if always else ["    if w.flexible:"]
        space = "    " if always else "        "
        if not known:
            return [*lines, f"{space}w.byte(0)"]
        flexible = [version for version in self.versions if self.cls.is_flexible(version)]
        tests = []
        lines.append(f"{space}count: i64 = 0")
        known = sorted(known, key=lambda each: each.declared.tag or 0)
        for field in known:
            present = _condition(field.present, flexible)
            test = differs(field, f"m.{field.name}", _constant(field))
            tests.append(test if present == "True" else f"{present} and {test}")
            lines += [f"{space}if {tests[-1]}:", f"{space}    count += 1"]
        lines.append(f"{space}w.byte(count)")
        for field, test in zip(known, tests, strict=True):
            lines += [f"{space}if {test}:", f"{space}    held = Writer(flexible=w.flexible)"]
            name = f"{where}.{field.name}"
            lines += self._write(field, name, len(space) // 4 + 1, "held")
            lines.append(f"{space}    w.tag({field.declared.tag}, held)")
        return lines


def _condition(test: Callable[[int], bool], versions: Iterable[int]) -> str:
    """Return an expression of `version` that is true where the test is."""
    all_versions = list(versions)
    true = [version for version in all_versions if test(version)]
    if not true:
        return "False"
    if true == all_versions:
        return "True"
    assert true == list(range(true[0], true[-1] + 1)), "versions with a gap"
    if true[-1] == all_versions[-1]:
        return f"version >= {true[0]}"
    if true[0] == all_versions[0]:
        return f"version <= {true[-1]}"
    return f"{true[0]} <= version <= {true[-1]}"


def _function(prefix: str, where: str) -> str:
    """Return the name of the function for the structure at a path in the message."""
    return f"{prefix}_" + snake(re.sub(r"\W+", "_", where).strip("_"))


def _variable(field: WireField) -> str:
    """Return the local variable that holds a field while a structure is read."""
    return f"{field.name}_" if field.name in _RESERVED else field.name


def _annotation(kind: FieldType) -> str:
    """Return the type of a value as it is written in an annotation."""
    if kind.element is not None:
        text = f"list[{_annotation(kind.element)}]"
    elif kind.struct is not None:
        text = kind.struct.__name__
    else:
        assert kind.wire is not None
        text = type(kind.wire.zero).__name__
    return f"{text} | None" if kind.optional else text


def _constant(field: WireField) -> str:
    """Return an expression of a field's default."""
    default = field.default
    if default is None or isinstance(default, int | str | bytes | float):
        return repr(default)
    if isinstance(default, Declaration):
        return f"{type(default).__name__}()"
    assert default == [], f"{field.name} has an unusual default"
    return "[]"


def snake(name: str) -> str:
    """Return the name of a class as it is in the names of its functions."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
