"""The response to a request that carries an error and nothing else.

Clients look for an error in different places of each API: in the response, its topics, or their
partitions. `RESOURCES` says where; the declarations say which list of the request the lists on the
way there go along, and what a field has that nothing is known of.
"""

from collections.abc import Generator, Mapping
from typing import Any, NamedTuple

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.apis import response_class
from coterie.protocol.errors import ErrorCode
from coterie.protocol.fields import Declaration
from coterie.protocol.resources import RESOURCES
from coterie.protocol.schema import WireField, fields_of

# How many elements one step makes: some hundred microseconds.
_AT_ONCE = 64
_ERROR = "error_code"
_TOP: tuple[str, ...] = ()
# What names an element of a list, in the request as in the response.
_NAMES = {
    "name", "topic", "topic_name", "topic_id", "index", "partition", "partition_index", "group_id",
    "transactional_id", "producer_id", "resource_type", "resource_name",
}  # fmt: skip
# Where the request calls it otherwise.
_OTHERWISE = {"partition_index": "partition"}


class _Shape(NamedTuple):
    """How a response, or an element of one, is made of the part of the request that it answers.

    Attributes:
        cls: its class.
        error: the field with the error; "" if only elements have it.
        named: its fields that have a value of the request, and the fields there.
        whole: the field that has the part of the request itself, which is a name; "" for none.
        neutral: its other fields.
        empty: its lists without elements.
        inner: its list of elements on the way to the error, and the list of the request.
        elements: the shape of those.
    """

    cls: type[Any]
    error: str
    named: tuple[tuple[str, str], ...]
    whole: str
    neutral: Mapping[str, Any]
    empty: tuple[str, ...]
    inner: tuple[str, str] | None = None
    elements: "_Shape | None" = None


# By the class of a request and its version, or that of an element and of the part that it answers.
_shapes: dict[tuple[Any, Any], _Shape] = {}


def refusal(request: Any, error: ErrorCode, version: int, **others: Any) -> Any:
    """Return the response to a request with an error where clients look for it.

    Args:
        request: the request.
        error, version: the error, and the version of the request.
        others: what fields have beside the error and the names, at any depth.
    """
    steps = refused_in_steps(request, error, version, **others)
    try:
        while True:
            next(steps)
    except StopIteration as end:
        return end.value


def refused_in_steps(
    request: Any, error: ErrorCode, version: int, **others: Any
) -> Generator[None, None, Any]:
    """Return what `refusal` returns, made in steps, because a request may name many things."""
    shape = _shape_of(type(request), version)
    return (yield from _refused(shape, request, error, others))


def refused_part(cls: type[Any], asked: Any, error: ErrorCode, **others: Any) -> Any:
    """Return an element of a response with an error.

    Args:
        cls: its class.
        asked: the element of the request that it answers: a structure, or a name.
        error: the error.
        others: what fields have beside the error and the names.
    """
    kind = type(asked) if isinstance(asked, Declaration) else None
    shape = _shapes.get((cls, kind))
    if shape is None:
        shape = _shapes[cls, kind] = _shape(cls, _TOP, kind, 0, is_element=True)
    return _made(shape, asked, error, others)


def _refused(
    shape: _Shape, asked: Any, error: ErrorCode, others: Mapping[str, Any]
) -> Generator[None, None, Any]:
    made = _made(shape, asked, error, others)
    if shape.inner is not None:
        assert shape.elements is not None, "a list on the way to the error has elements"
        field, source = shape.inner
        parts = []
        for count, each in enumerate(getattr(asked, source) or (), 1):
            parts.append((yield from _refused(shape.elements, each, error, others)))
            if not count % _AT_ONCE:
                yield
        setattr(made, field, parts)
    return made


def _made(shape: _Shape, asked: Any, error: ErrorCode, others: Mapping[str, Any]) -> Any:
    values = {**shape.neutral, **{name: [] for name in shape.empty}}
    for name, source in shape.named:
        values[name] = getattr(asked, source)
    if shape.whole:
        values[shape.whole] = asked
    if shape.error:
        values[shape.error] = error
        values.update((name, value) for name, value in others.items() if name in shape.cls.fields_)
    return shape.cls(**values)


def _shape_of(request: Any, version: int) -> _Shape:
    shape = _shapes.get((request, version))
    if shape is None:
        api = ApiKey(request.api_key)
        response = response_class(api)
        # An API without resources has its error at the top.
        places = RESOURCES[api][0].places if api in RESOURCES else (_TOP,)
        place = next(each for each in places if _is_present(response, each, version))
        shape = _shapes[request, version] = _shape(response, place, request, version)
    return shape


def _is_present(cls: type[Declaration], place: tuple[str, ...], version: int) -> bool:
    name = place[0] if place else _ERROR
    return any(each.name == name and each.present(version) for each in fields_of(cls))


def _shape(
    cls: Any, place: tuple[str, ...], asked: Any, version: int, *, is_element: bool = False
) -> _Shape:
    error, whole = "", ""
    named: list[tuple[str, str]] = []
    neutral: dict[str, Any] = {}
    empty: list[str] = []
    inner, elements = None, None
    is_name = is_element and asked is None
    for field in fields_of(cls):
        name = field.name
        if place and name == place[0]:
            listed = _listed(asked, version)
            inner = name, listed.name
            structs = _struct(field), _struct(listed)
            elements = _shape(structs[0], place[1:], structs[1], version, is_element=True)
            empty.append(name)
        elif not place and name.endswith(_ERROR) and not error:
            error = name
        elif is_name and field.required and not name.endswith(_ERROR):
            whole, is_name = name, False
        elif is_element and (source := _source(name, asked)):
            named.append((name, source))
        elif field.required and field.type.element is not None and not field.type.optional:
            empty.append(name)
        elif field.required:
            neutral[name] = _neutral(field)
    return _Shape(cls, error, tuple(named), whole, neutral, tuple(empty), inner, elements)


def _listed(cls: type[Declaration], version: int) -> WireField:
    """Return the first list of a request, or of an element of it, in a version."""
    lists = (each for each in fields_of(cls) if each.type.element and each.present(version))
    return next(lists)


def _struct(field: WireField) -> type[Declaration] | None:
    assert field.type.element is not None, "elements are those of a list"
    return field.type.element.struct


def _source(name: str, asked: Any) -> str:
    """Return the field of a part of a request that names an element of the response; or ""."""
    fields = () if asked is None or name not in _NAMES else asked.fields_
    return next((each for each in (name, _OTHERWISE.get(name, name)) if each in fields), "")


def _neutral(field: WireField) -> Any:
    """Return what a field has in a response with an error."""
    if field.name.endswith(_ERROR):
        return ErrorCode.NONE
    if field.type.optional:
        return None
    zero = field.type.zero
    return -1 if zero == 0 and zero is not False else zero
