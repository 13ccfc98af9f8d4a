"""The most expensive frames for their size: each array of each API, filled.

Every array of every request gets as many of its smallest elements as one request may have
[framing/element-limit]. The cost of such a frame is that of decoding and of the handler.
"""

import time
import tracemalloc
from collections.abc import Iterator
from typing import Any, NamedTuple

from coterie.protocol.api_keys import SERVED_VERSIONS
from coterie.protocol.apis import request_class
from coterie.protocol.fields import Declaration
from coterie.protocol.frames import encode_request
from coterie.protocol.schema import FieldType, WireField, fields_of
from coterie.protocol.wire import REQUEST_ELEMENT_BUDGET
from tests.fuzz.target import Finding
from tests.unit.server.manual import Client, make_broker
from tests.unit.server.turns import turn_limit

# Room for the arrays around the filled one.
_ELEMENTS = REQUEST_ELEMENT_BUDGET - 5
# The most memory for a frame, beside twice its own size. The maximum so far is 30, DescribeGroups.
MOST_MIB = 40.0
_MIB = 1024 * 1024
# The most processor time of one turn. It is far above what docs/limits.md states, because a busy
# machine doubles the time and tracing the memory takes five times as much.
_MOST_S = 1.0


class Cost(NamedTuple):
    """The cost of one frame."""

    milliseconds: float
    mebibytes: float
    frame_bytes: int
    name: str


def costs(*, metered: bool, part: int = 0, parts: int = 1) -> Iterator[Cost]:
    """Send every filled array to a broker of its own; `metered` also measures memory, slowly.

    Those of one in `parts` APIs are sent, from the API of number `part` on.

    Raises:
        Finding: a request failed by our mistake, or needed too much memory.
    """
    for api, (_, version) in list(SERVED_VERSIONS.items())[part::parts]:
        cls = request_class(api)
        for path in _arrays(cls, version, ()):
            frame = encode_request(_filled(cls, version, path), version, 1, "fuzz")
            name = ".".join((api.kafka_name, *(field.name for field in path)))
            yield _cost(frame, name, metered=metered)


def _cost(frame: bytes, name: str, *, metered: bool) -> Cost:
    broker = make_broker()
    broker.controller.create("t", 2, {})
    if not metered:
        _feed(Client(broker), frame, name)
        return Cost(0, 0, len(frame), name)
    began = time.perf_counter()
    _feed(Client(broker), frame, name)
    took_ms = (time.perf_counter() - began) * 1000
    client = Client(broker)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    _feed(client, frame, name)
    peak = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    if peak > MOST_MIB * _MIB + 2 * len(frame):
        raise Finding(frame[:64], f"{name}: {peak / _MIB:.1f} MiB for {len(frame)} bytes")
    return Cost(took_ms, peak / _MIB, len(frame), name)


def _feed(client: Client, frame: bytes, name: str) -> None:
    with turn_limit(_MOST_S):
        client.connection.data_received(frame)
        client.loop.turn()
    log: Any = client.broker.log
    for event in ("request failed", "group append failed"):
        for fields in log.named(event):
            raise Finding(frame[:64], f"{name}: {fields['exc_info']!r}")


def _arrays(
    cls: type[Declaration], version: int, above: tuple[WireField, ...]
) -> Iterator[tuple[WireField, ...]]:
    """Yield the path to each array of a declaration."""
    for field in fields_of(cls):
        element = field.type.element
        if element is not None and field.present(version):
            yield (*above, field)
            if element.struct is not None:
                yield from _arrays(element.struct, version, (*above, field))


def _filled(cls: type[Any], version: int, path: tuple[WireField, ...]) -> Any:
    """Return a small message whose array at the end of `path` is full."""
    field = path[0]
    element = field.type.element
    assert element is not None
    if len(path) > 1:
        items = [_filled(element.struct, version, path[1:])]  # type: ignore[arg-type]
    else:
        # Different elements, because equal ones are handled once.
        items = [_smallest(element, version, number) for number in range(_ELEMENTS)]
    return _smallest_struct(cls, version, 0, {field.name: items})


def _smallest(kind: FieldType, version: int, number: int = 0) -> Any:
    """Return a small value; different numbers return different ones, if that is possible."""
    if kind.element is not None:
        return []
    if kind.struct is not None:
        return _smallest_struct(kind.struct, version, number)
    assert kind.wire is not None
    if number and kind.wire.kind == "string":
        return f"t{number}"
    return number if number and kind.wire.kind == "int32" else kind.wire.zero


def _smallest_struct(
    cls: type[Any], version: int, number: int, given: dict[str, Any] | None = None
) -> Any:
    values = {
        field.name: _smallest(field.type, version, number)
        for field in fields_of(cls)
        if field.required
    }
    return cls(**values | (given or {}))
