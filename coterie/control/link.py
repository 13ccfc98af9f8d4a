"""The client of the control port: calls of methods of `coterie.testing` become requests."""

from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache, wraps
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

from coterie.client.control_port import ControlPort, ControlUnreachable
from coterie.control.broker_operations import BROKER
from coterie.control.errors import EXCEPTIONS
from coterie.control.operations import MAX_WAIT_S, ControlOperation, Table, operations_of
from coterie.control.special_shapes import new_shapes
from coterie.testing.errors import (
    BrokerNotStarted,
    FaultNotHit,
    RequestNotSeen,
    WrongUse,
    failed,
)
from coterie.testing.runner import Unawaited
from coterie.testing.waiting import Waiting

T = TypeVar("T")
C = TypeVar("C", bound=type)

# Waits that a test begins at the same time.
_THREADS = 32
_TIMEOUT_S = MAX_WAIT_S + 60


@cache
def all_operations(table: Table = BROKER) -> dict[str, ControlOperation]:
    """Return the operations of a table by their ids, such as Group.wait_stable."""
    return {each.operation_id: each for each in operations_of(new_shapes(), table)}


class Link:
    """The way to a control port."""

    def __init__(self, url: str, token: str, table: Table = BROKER) -> None:
        """Take its URL, its token and its operations; nothing is sent yet."""
        self._port = ControlPort(url, token, _TIMEOUT_S)
        self._table = table
        self.unawaited: Unawaited = {}
        self._threads = ThreadPoolExecutor(_THREADS, "coterie-control")

    def lead_to(self, url: str, token: str) -> None:
        """Lead to another process."""
        self._port = ControlPort(url, token, _TIMEOUT_S)

    def close(self) -> None:
        """End the threads of waits; the broker's process has ended, and so have they."""
        self._threads.shutdown()

    def check_waiter(self) -> None:
        """Do nothing: no thread of this process is the broker's."""

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Do the work of a wait in a thread; see `Waiting`."""
        return self._threads.submit(_result_of, work)

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Do the work of a wait here; see `Waiting`."""
        return _result_of(work)

    def call(self, operation_id: str, arguments: Mapping[str, Any]) -> Any:
        """Call an operation; return its decoded result.

        Args:
            operation_id: its id.
            arguments: all arguments by name, with the id of the group or fault.

        Raises:
            WrongUse: an argument cannot be used.
            BrokerNotStarted: the process does not answer.
        """
        operation = all_operations(self._table)[operation_id]
        try:
            encoded = {
                each.name: each.shape.encode(arguments[each.name])
                for each in operation.all_parameters
                if each.name in arguments
            }
        except TypeError as error:
            raise WrongUse(f"an argument of {operation.name} cannot be used: {error}") from None
        return operation.result.decode(self._exchange(operation, encoded), operation.name)

    def _exchange(self, operation: ControlOperation, arguments: dict[str, Any]) -> Any:
        places = {each.name: each.place for each in operation.all_parameters}
        in_path = {name: each for name, each in arguments.items() if places[name] == "path"}
        path = operation.row.path.format(
            **{name: quote(str(each), safe="") for name, each in in_path.items()}
        )
        rest = {name: each for name, each in arguments.items() if name not in in_path}
        body = None
        if operation.row.method == "POST":
            body = rest
        elif given := {name: each for name, each in rest.items() if each is not None}:
            path += f"?{urlencode(given)}"
        try:
            answer = self._port.send(operation.row.method, path, body)
        except ControlUnreachable as silence:
            text = f"the broker's process does not answer: {silence.cause}"
            raise BrokerNotStarted(text) from silence
        if not answer.is_error:
            return answer.body
        error = _error(answer.body)
        raise failed(error) if isinstance(error, FaultNotHit | RequestNotSeen) else error


def _error(answer: Mapping[str, str]) -> Exception:
    """Return the exception that a method would have raised here."""
    if answer["kind"] == "InternalError":
        return RuntimeError(answer["error"])
    return EXCEPTIONS.get(answer["kind"], WrongUse)(answer["error"])


def _result_of(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that blocks instead of waiting."""
    try:
        work.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    raise AssertionError("a request blocks its thread")


def over_link(subject: str, table: Table = BROKER) -> Callable[[C], C]:
    """Replace the inherited methods of a class by requests: those of an operation's subject.

    A method that the class defines stays, or a base class of it in this package. Instances have the
    method `request_`, which sends a request for them and returns its result as the method would.
    """

    def replace(cls: C) -> C:
        for operation in all_operations(table).values():
            if operation.subject == subject and not _is_defined_here(cls, operation.name):
                setattr(cls, operation.name, _remote(operation))
        return cls

    return replace


def _is_defined_here(cls: type, name: str) -> bool:
    """Return whether a class of this package, and not of `coterie.testing`, defines a method."""
    here = (base for base in cls.__mro__ if base.__module__.startswith(f"{__package__}."))
    return any(name in vars(base) for base in here)


def _remote(operation: ControlOperation) -> Any:
    """Return a method or property that sends a request."""
    if operation.is_attribute:
        return property(lambda self: self.request_(operation, {}), doc=operation.function.__doc__)

    @wraps(operation.function)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        arguments = operation.arguments(args, kwargs)
        if not operation.waits:
            return self.request_(operation, arguments)

        async def work() -> Any:
            return self.request_(operation, arguments)

        return Waiting(self.link_, work())

    return call
