"""The decorators of declarations: `@struct` and `@message`.

They build the decorated class again: with slots, with the descriptions of its fields apart, and
with constructors that are compiled at their first use.
"""

from collections.abc import Callable
from typing import Any, TypeVar, dataclass_transform

from coterie.protocol.api_keys import ApiKey, declared_versions
from coterie.protocol.compile import compiled_constructor, compiled_of
from coterie.protocol.fields import (
    Declaration,
    Field,
    MessageDeclaration,
    VersionRange,
    field,
    since,
    until,
)

# Array elements that one request may carry, nested ones included [framing/element-limit]. Building
# an element costs about 0.7 us and 250 bytes, so decoding a request of any size takes less than
# 20 ms of the event loop and less than 8 MiB.
REQUEST_ELEMENT_BUDGET = 20_000
# Only our own tools read responses, and only from brokers that their user chose.
RESPONSE_ELEMENT_BUDGET = 10_000_000


# What a field without a description is like.
_PLAIN = Field()


def _compile_init(self: Declaration, **values: Any) -> None:
    """Replace this constructor, at a class's first instance, by a compiled one.

    So a declaration compiles nothing by itself: a starting server declares many messages and uses
    few of them.
    """
    cls: Any = type(self)
    cls.__init__ = compiled_constructor(cls)
    cls.__init__(self, **values)


def _compile_of(cls: Any, *values: Any) -> Any:
    """Replace the positional constructor of a class, at its first call, by a compiled one."""
    cls.of = staticmethod(compiled_of(cls))
    return cls.of(*values)


_S = TypeVar("_S", bound=type)


def _with_slots(cls: _S) -> _S:
    """Build the class again with its annotations as slots and the fields' descriptions apart.

    A class attribute of the same name would hide the slot, so a default cannot stay on the class.
    """
    annotations: dict[str, Any] = cls.__annotations__
    namespace = {
        key: value
        for key, value in cls.__dict__.items()
        if key not in annotations and key not in ("__dict__", "__weakref__")
    }
    fields = {}
    for name in annotations:
        declared = cls.__dict__.get(name, _PLAIN)
        fields[name] = declared if isinstance(declared, Field) else Field(default=declared)
    namespace["__slots__"] = tuple(annotations)
    namespace["fields_"] = fields
    namespace["__init__"] = _compile_init
    namespace["of"] = classmethod(_compile_of)
    made: _S = type(cls)(cls.__name__, cls.__bases__, namespace)
    return made


@dataclass_transform(kw_only_default=True, field_specifiers=(since, until, field))
def struct(cls: _S) -> _S:
    """Declare a structure that messages contain."""
    return _with_slots(cls)


@dataclass_transform(kw_only_default=True, field_specifiers=(since, until, field))
def message(
    *,
    flexible: int | None,
    api_key: int | None = None,
    versions: tuple[int, int] | None = None,
    element_budget: int | None = None,
    open_ended: bool | None = None,
) -> Callable[[_S], _S]:
    """Declare a message.

    Args:
        flexible: the first version with compact lengths and tagged fields (KIP-482), None for
            never.
        api_key: the API of a request or response, whose versions are `declared_versions`.
        versions: the first and the last version of a message that belongs to no served API.
        element_budget: how many array elements one such message may hold; by default as many as
            a request or a response.
        open_ended: whether bytes after the last field are skipped. Requests are open-ended by
            default [framing/trailing-bytes].
    """
    if versions is None:
        assert api_key is not None, "a message belongs to an API or names its versions"
        versions = declared_versions(ApiKey(api_key))

    def declare(cls: _S) -> _S:
        made = _with_slots(cls)
        assert issubclass(made, MessageDeclaration), made
        is_response = cls.__name__.endswith("Response")
        answers_api_versions = is_response and api_key == ApiKey.API_VERSIONS
        default_budget = RESPONSE_ELEMENT_BUDGET if is_response else REQUEST_ELEMENT_BUDGET
        is_request = api_key is not None and not is_response
        made.api_key = api_key
        made.versions = VersionRange(*versions)
        made.flexible = flexible
        # The header of an ApiVersions response stays the same [framing/request-header].
        made.header_flexible = None if answers_api_versions else flexible
        made.element_budget = element_budget or default_budget
        made.open_ended = is_request if open_ended is None else open_ended
        made.functions_ = {}
        return made

    return declare
