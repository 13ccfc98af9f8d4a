"""Responses that take long to compute, in slices [connections/turns]."""

from collections.abc import Callable, Generator, Iterable
from typing import Any, TypeVar

from coterie.protocol.schema import array_names
from coterie.server.network.delayed_response import DelayedResponse, Exchange
from coterie.server.network.route import StepFramer
from coterie.server.services import Services
from coterie.server.slices import SLICE_S, raise_failure

Value = TypeVar("Value")
Part = TypeVar("Part")
Response = TypeVar("Response")

# How many small objects one step makes: some hundred microseconds.
MADE_AT_ONCE = 64
# How many elements of a response one step frees; each may have some thirty parts.
_FREED_AT_ONCE = 64


def run_now(steps: Generator[None, None, Response]) -> Response:
    """Run all steps here and now, because they are few; return what they return."""
    try:
        while True:
            next(steps)
    except StopIteration as end:
        value: Response = end.value
        return value


def made_in_steps(
    make: Callable[[Value], Part], values: Iterable[Value]
) -> Generator[None, None, list[Part]]:
    """Return what `make` returns for each value; a step makes `MADE_AT_ONCE` of them."""
    made = []
    for count, value in enumerate(values, 1):
        made.append(make(value))
        if not count % MADE_AT_ONCE:
            yield
    return made


def run_for_a_slice(
    steps: Generator[None, None, Response], clock_s: Callable[[], float]
) -> tuple[Response] | None:
    """Run steps for the time of a slice; return what they return, or None if some are left.

    Most requests are small and have one step, so the time of the slice begins after the first.
    """
    try:
        next(steps)
        deadline_s = clock_s() + SLICE_S
        while True:
            next(steps)
            if clock_s() >= deadline_s:
                return None
    except StopIteration as end:
        value: Response = end.value
        return (value,)


def answer_in_slices(
    broker: Services, connection: Exchange, steps: Generator[None, None, Response]
) -> Response | None:
    """Return the response that `steps` return, or send it later if they take long.

    The connection is muted meanwhile. The generator yields after every piece of work; each takes
    less than a few milliseconds.
    """
    response = run_for_a_slice(steps, broker.environment.slice_clock_s)
    if response is not None:
        return response[0]
    delayed = DelayedResponse(connection)
    connection.delay_and_mute(delayed)
    send_in_slices(broker, delayed, steps)
    return None


def answer_each(
    broker: Services,
    connection: Exchange,
    values: Iterable[Value],
    make: Callable[[Value], Part],
    whole: Callable[[list[Part]], Response],
) -> Response | None:
    """Answer with a part for each value of a request, in slices as `answer_in_slices` does.

    Args:
        broker: the broker.
        connection: the connection of the request.
        values: the values.
        make: returns the part of one value.
        whole: returns the response of which it gets the parts.
    """

    def steps() -> Generator[None, None, Response]:
        return whole((yield from made_in_steps(make, values)))

    return answer_in_slices(broker, connection, steps())


def answer_at_once(connection: Exchange, response: Response) -> Response | None:
    """Return a response that is made, or send it later if it is so large that encoding takes long.

    Responses to large requests, and delayed ones, are treated so anyway.
    """
    if not connection.route.is_large(response):
        return response
    delayed = DelayedResponse(connection)
    connection.delay(delayed)
    delayed.send(response)
    return None


def send_in_slices(
    broker: Services, delayed: DelayedResponse, steps: Generator[None, None, Any]
) -> None:
    """Send the response that `steps` return; they run in later turns, and it is encoded in slices.

    The connection of the request is muted until then. It is closed if the steps fail.
    """
    connection = delayed.connection
    # The route of this request as long as it mutes the connection.
    in_steps = connection.route.in_steps
    if in_steps is None:
        run_in_slices(broker, connection, steps, delayed.send)
        return
    frame = _made_and_encoded(broker, delayed, steps, in_steps)
    run_in_slices(broker, connection, frame, delayed.send_frame)


def _made_and_encoded(
    broker: Services,
    delayed: DelayedResponse,
    steps: Generator[None, None, Any],
    in_steps: StepFramer,
) -> Generator[None, None, bytes | bytearray]:
    message = yield from steps
    if delayed.connection.closed:
        return b""
    return (yield from encoded(broker, message, in_steps, delayed.correlation_id))


def encoded(
    broker: Services, message: Any, in_steps: StepFramer, correlation_id: int
) -> Generator[None, None, bytes | bytearray]:
    """Return the frame of a large response, which is freed in slices after that.

    Freeing hundreds of thousands of objects at once takes as long as making some of them.
    """
    frame = yield from in_steps(message, correlation_id)
    # References of our own: the arrays may be in use elsewhere, and an array that was encoded
    # before has no elements.
    parts = [
        each
        for name in array_names(type(message))
        if type(array := getattr(message, name)) is list
        for each in array
    ]
    if len(parts) > _FREED_AT_ONCE:
        broker.slices.submit(_freed(parts), raise_failure)
    return frame


def _freed(parts: list[Any]) -> Generator[None, None, None]:
    while parts:
        del parts[-_FREED_AT_ONCE:]
        yield


def run_in_slices(
    broker: Services,
    connection: Exchange,
    steps: Generator[None, None, Response],
    then: Callable[[Response], None],
) -> None:
    """Run the steps of a request in later turns, and call `then` with what they return.

    The connection is muted until then. It is closed if the steps fail.
    """
    found: list[Response] = []

    def remember() -> Generator[None, None, None]:
        found.append((yield from steps))

    def done(error: Exception | None) -> None:
        if error is None:
            then(found[0])
        else:
            connection.fail_request(error)

    broker.slices.submit(remember(), done)
