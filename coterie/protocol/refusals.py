"""The response to a request that carries an error and nothing else.

Clients look for an error in different places of each API: in the response, its topics, or their
partitions. `resources` says where; the declarations say which list of the request the lists on the
way there go along, and what a field has that nothing is known of.
"""

from collections.abc import Generator, Iterable, Mapping
from typing import Any, NamedTuple

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.apis import response_class
from coterie.protocol.errors import ErrorCode
from coterie.protocol.fields import Declaration
from coterie.protocol.resources import resources
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
        values: what its fields have, in order, if nothing is said of them below.
        lists: the fields that have a list of their own, without elements.
        named: the fields that have a value of the request, and the fields there.
        whole: the field that has the part of the request itself, which is a name; -1 for none.
        error: the field with the error; -1 if only elements have it.
        inner: its list of elements on the way to the error, and the list of the request.
        elements: the shape of those.
    """

    cls: type[Any]
    values: list[Any]
    lists: list[int]
    named: list[tuple[int, str]]
    whole: int
    error: int
    inner: tuple[str, str] | None = None
    elements: "_Shape | None" = None


# By the class of a request, with its row if that is not the first, and the version; or by the class
# of an element and that of the part that it answers.
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


def refused_elements(
    request: Any, asked: Iterable[Any], error: ErrorCode, version: int, row: int = 0, **others: Any
) -> tuple[str, list[Any]]:
    """Return the elements of a response that carry an error for some elements of a request.

    Args:
        request: the request.
        asked: elements of the list in it that the response goes along.
        error, version: the error, and the version of the request.
        row: the row of the API in `resources` that has the place of the error.
        others: what fields have beside the error and the names, at any depth.

    Returns:
        The name of the list in the response, and the elements for it.
    """
    shape = _shape_of(type(request), version, row)
    assert shape.inner is not None, "the error is in a list"
    assert shape.elements is not None, "a list on the way to the error has elements"
    made = []
    for each in asked:
        steps = _refused(shape.elements, each, error, others)
        try:
            while True:
                next(steps)
        except StopIteration as end:
            made.append(end.value)
    return shape.inner[0], made


def empty_refusal(cls: type[Any], error: ErrorCode) -> Any:
    """Return a response that has an error at its top, if it can, and empty lists.

    Args:
        cls: the class of the response.
        error: the error.
    """
    fields = fields_of(cls)
    errors = [each.name for each in fields if each.name.endswith(_ERROR)][:1]
    return cls.of(*(error if each.name in errors else _neutral(each) for each in fields))


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
        field, source = shape.inner
        elements = shape.elements
        assert elements is not None, "a list on the way to the error has elements"
        parts = []
        for count, each in enumerate(getattr(asked, source) or (), 1):
            if elements.inner is None:
                parts.append(_made(elements, each, error, others))
            else:
                parts.append((yield from _refused(elements, each, error, others)))
            if not count % _AT_ONCE:
                yield
        setattr(made, field, parts)
    return made


def _made(shape: _Shape, asked: Any, error: ErrorCode, others: Mapping[str, Any]) -> Any:
    values = shape.values.copy()
    for at in shape.lists:
        values[at] = []
    for at, source in shape.named:
        values[at] = getattr(asked, source)
    if shape.whole >= 0:
        values[shape.whole] = asked
    if shape.error >= 0:
        values[shape.error] = error
        if others:
            for at, name in enumerate(shape.cls.fields_):
                values[at] = others.get(name, values[at])
    return shape.cls.of(*values)


def _shape_of(request: Any, version: int, row: int = 0) -> _Shape:
    key = (request, version) if not row else ((request, row), version)
    shape = _shapes.get(key)
    if shape is None:
        api = ApiKey(request.api_key)
        response = response_class(api)
        # An API without resources has its error at the top.
        places = resources()[api][row].places if api in resources() else (_TOP,)
        place = next(each for each in places if _is_present(response, each, version))
        shape = _shapes[key] = _shape(response, place, request, version)
    return shape


def _is_present(cls: type[Declaration], place: tuple[str, ...], version: int) -> bool:
    name = place[0] if place else _ERROR
    return any(each.name == name and each.present(version) for each in fields_of(cls))


def _shape(
    cls: Any, place: tuple[str, ...], asked: Any, version: int, *, is_element: bool = False
) -> _Shape:
    fields = fields_of(cls)
    made = _Shape(cls, [_neutral(each) for each in fields], [], [], -1, -1)
    for at, field in enumerate(fields):
        name, is_error = field.name, field.name.endswith(_ERROR)
        if place and name == place[0]:
            listed = _listed(asked, version)
            structs = _struct(field), _struct(listed)
            elements = _shape(structs[0], place[1:], structs[1], version, is_element=True)
            made = made._replace(inner=(name, listed.name), elements=elements)
        elif not place and is_error and made.error < 0:
            made = made._replace(error=at)
        elif is_element and asked is None and field.required and not is_error and made.whole < 0:
            made = made._replace(whole=at)
        elif is_element and (source := _source(name, asked)):
            made.named.append((at, source))
        elif made.values[at] == []:
            made.lists.append(at)
    return made


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
    if not field.required:
        return field.default
    if field.name.endswith(_ERROR):
        return ErrorCode.NONE
    if field.type.optional:
        return None
    if field.type.element is not None:
        return []
    zero = field.type.zero
    return -1 if zero == 0 and zero is not False else zero
