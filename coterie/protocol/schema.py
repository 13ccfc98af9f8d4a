"""The meaning of a declaration's annotations: wire types, and the fields that a version carries.

The two emitters (compile_decode, compile_encode) and the tools that print messages read
declarations through this module only.
"""

import types
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin, get_type_hints

from coterie.protocol.fields import Declaration, Field, Wire


class FieldType(NamedTuple):
    """The type of a field or array element: exactly one of `wire`, `struct`, `element` is set."""

    wire: Wire | None = None
    struct: type[Declaration] | None = None
    element: "FieldType | None" = None
    optional: bool = False

    @property
    def zero(self) -> Any:
        """The value of an absent field that declares no default."""
        if self.optional or self.wire is None:
            return None
        return self.wire.zero


class WireField(NamedTuple):
    """One field of a declaration."""

    name: str
    type: FieldType
    declared: Field

    def present(self, version: int) -> bool:
        """Return whether `version` carries this field."""
        return self.declared.first <= version <= self.declared.last

    def nullable(self, version: int) -> bool:
        """Return whether `version` may carry a null in this field."""
        return self.type.optional and version >= self.declared.nullable_since

    @property
    def default(self) -> Any:
        """The value where the field is absent; a new list for every call of an array field."""
        if self.declared.default is not ...:
            return self.declared.default
        if self.declared.factory is not None:
            return self.declared.factory()
        if self.type.element is not None and not self.type.optional:
            return []
        return self.type.zero

    @property
    def required(self) -> bool:
        """Whether the constructor requires a value."""
        return self.declared.default is ... and self.declared.factory is None


def _resolve(annotation: Any) -> FieldType:
    origin = get_origin(annotation)
    if origin is Annotated:
        return FieldType(wire=get_args(annotation)[1])
    if origin in (Union, types.UnionType):
        (inner,) = [arg for arg in get_args(annotation) if arg is not type(None)]
        return _resolve(inner)._replace(optional=True)
    if origin is list:
        return FieldType(element=_resolve(get_args(annotation)[0]))
    assert issubclass(annotation, Declaration), annotation
    return FieldType(struct=annotation)


_resolved: dict[type[Declaration], tuple[WireField, ...]] = {}


def fields_of(cls: type[Declaration]) -> tuple[WireField, ...]:
    """Return the fields of a declaration in wire order; annotations are resolved once."""
    fields = _resolved.get(cls)
    if fields is None:
        hints = get_type_hints(cls, include_extras=True)
        fields = tuple(
            WireField(name, _resolve(hints[name]), declared)
            for name, declared in cls.fields_.items()
        )
        _resolved[cls] = fields
    return fields


def array_names(cls: type[Declaration]) -> tuple[str, ...]:
    """Return the names of the fields that are arrays."""
    return tuple(each.name for each in fields_of(cls) if each.type.element is not None)


def untagged(cls: type[Declaration], version: int) -> list[WireField]:
    """Return the fields of `version` that are encoded in order, without a tag."""
    return [f for f in fields_of(cls) if f.present(version) and f.declared.tag is None]


def tagged(cls: type[Declaration], version: int) -> list[WireField]:
    """Return the tagged fields of `version`, sorted by tag."""
    known = [f for f in fields_of(cls) if f.present(version) and f.declared.tag is not None]
    return sorted(known, key=lambda f: f.declared.tag or 0)


def minimum_size(
    field_type: FieldType, version: int, *, flexible: bool, nullable: bool = False
) -> int:
    """Return the fewest bytes that one value can take.

    Decoders refuse an array whose count, times this size, exceeds the bytes that are left
    [framing/malformed-frame].
    """
    if field_type.struct is not None:
        if nullable:
            return 1
        size = sum(
            minimum_size(f.type, version, flexible=flexible, nullable=f.nullable(version))
            for f in untagged(field_type.struct, version)
        )
        return size + flexible  # a tag section takes one byte or more
    if field_type.wire is not None and field_type.wire.struct:
        return field_type.wire.size
    if flexible:
        return 1
    return 2 if field_type.wire is not None and field_type.wire.kind == "string" else 4


def carries_records(cls: type[Declaration]) -> bool:
    """Return whether a structure holds record batches, at any depth and in any version."""
    kinds = [field.type.element or field.type for field in fields_of(cls)]
    return any(
        carries_records(kind.struct)
        if kind.struct is not None
        else kind.wire is not None and kind.wire.kind == "records"
        for kind in kinds
    )
