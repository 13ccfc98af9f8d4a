"""What can be wrong with a function: the kinds of faults of planted bugs.

A fault makes of a function the one that takes its place. Each kind is data: it prints as it is
written. A fault names the function, its parameters, their attributes and what it calls, never its
lines. If one of the names does not exist, planting fails, or the call raises `UnfitFault`, which no
search for a planted bug takes for a finding.
"""

import builtins
import dis
import inspect
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import wraps
from types import CodeType, FunctionType
from typing import Any, NamedTuple, ParamSpec

Function = Callable[..., Any]
Fault = Callable[[Function], Function]
P = ParamSpec("P")

# The value of an expression in which an object is missing.
_MISSING: Any = object()
# The frames between the caller of a planted function and the function that takes its place.
_FRAMES_BETWEEN = 2


class UnfitFault(BaseException):
    """A fault that does not fit the function that it is planted into."""


@dataclass(frozen=True, repr=False)
class _Printed:
    """A fault that prints as it is written."""

    text: str
    make: Fault

    def __call__(self, function: Function) -> Function:
        return self.make(function)

    def __repr__(self) -> str:
        return self.text


def printed(fault: object) -> str:
    """Return a fault as it is written; one without arguments is a function."""
    return str(getattr(fault, "__name__", fault))


class Of(NamedTuple):
    """The value of an expression of the arguments, and of the names of the module."""

    expression: str


def _kind(make: Callable[P, Fault]) -> Callable[P, Fault]:
    """Let the faults of a kind print as they are written."""

    @wraps(make)
    def made(*values: P.args, **names: P.kwargs) -> Fault:
        written = [*map(repr, values), *(f"{name}={value!r}" for name, value in names.items())]
        return _Printed(f"{make.__name__}({', '.join(written)})", make(*values, **names))

    return made


def does_nothing(_: Function) -> Function:
    """The fault of a function that returns at once."""
    return lambda *_arguments, **_names: None


def gives_no_answer(function: Function) -> Function:
    """The fault of a function that does its work and returns nothing."""

    def run(*arguments: Any, **names: Any) -> None:
        function(*arguments, **names)

    return run


@_kind
def answers(value: object) -> Fault:
    """Return the fault of a function that gives one answer, whatever it is asked."""
    return lambda _: lambda *_arguments, **_names: value


@_kind
def confuses(before: object, after: object) -> Fault:
    """Return the fault of a function that gives one of its answers in place of another."""

    def fault(function: Function) -> Function:
        def run(*arguments: Any, **names: Any) -> Any:
            answer = function(*arguments, **names)
            return after if answer == before else answer

        return run

    return fault


@_kind
def without(kind: type) -> Fault:
    """Return the fault of a function whose answer lacks the elements of one type."""

    def fault(function: Function) -> Function:
        def run(*arguments: Any, **names: Any) -> list[Any]:
            found: Iterable[Any] = function(*arguments, **names)
            return [each for each in found if not isinstance(each, kind)]

        return run

    return fault


@_kind
def lacking(part: int) -> Fault:
    """Return the fault of a function that answers None in place of one part of its answer."""

    def fault(function: Function) -> Function:
        def run(*arguments: Any, **names: Any) -> tuple[Any, ...]:
            found = list(function(*arguments, **names))
            found[part] = None
            return tuple(found)

        return run

    return fault


@_kind
def with_first(count: int) -> Fault:
    """Return the fault of a function that is called with its first arguments only."""
    return lambda function: lambda *arguments, **_: function(*arguments[:count])


@_kind
def given(paths: Mapping[str, object] | None = None, /, **arguments: object) -> Fault:
    """Return the fault of a function that works with other values.

    Args:
        paths: the values by the argument, or the attribute of one: `self.members`. An attribute has
            the value while the function runs. Nothing happens if an object on the way is missing.
        arguments: the same for arguments.
    """
    values = {**(paths or {}), **arguments}

    def fault(function: Function) -> Function:
        signature = _signature(function, values)

        def run(*arguments: Any, **names: Any) -> Any:
            call = _Call(function, _bound(signature, arguments, names))
            with call.changed(values):
                return function(*call.bound.args, **call.bound.kwargs)

        def run_in_steps(*arguments: Any, **names: Any) -> Generator[Any, Any, Any]:
            call = _Call(function, _bound(signature, arguments, names))
            with call.changed(values):
                return (yield from function(*call.bound.args, **call.bound.kwargs))

        return run_in_steps if inspect.isgeneratorfunction(function) else run

    return fault


@_kind
def keeps(path: str) -> Fault:
    """Return the fault of a function that leaves an attribute as it was: `self.epoch`."""

    def fault(function: Function) -> Function:
        signature = _signature(function, [path])
        assert not inspect.isgeneratorfunction(function), "the attribute is kept in one call"

        def run(*arguments: Any, **names: Any) -> Any:
            holder_path, _, name = path.rpartition(".")
            holder = _Call(function, _bound(signature, arguments, names)).value(holder_path)
            before = _MISSING if holder is _MISSING else _attribute(holder, name)
            try:
                return function(*arguments, **names)
            finally:
                if before is not _MISSING:
                    setattr(holder, name, before)

        return run

    return fault


@_kind
def where(**values: object) -> Fault:
    """Return the fault of a function in which names of its module have other values."""

    def fault(function: Function) -> Function:
        unused = values.keys() - globals_of(function.__code__)
        assert not unused, f"{function.__name__} does not use {', '.join(unused)}"
        return copied(function, function.__globals__ | values)

    return fault


@_kind
def mistaking(**names: str) -> Fault:
    """Return the fault of a function that takes one name of its module for another."""

    def fault(function: Function) -> Function:
        known = vars(builtins) | function.__globals__
        return where(**{name: known[other] for name, other in names.items()})(function)

    return fault


class Calling(NamedTuple):
    """The fault of a function that another one has for it: see `calling`."""

    called: str
    fault: Fault
    about: tuple[object, ...]

    def __repr__(self) -> str:
        about = "".join(f", {each!r}" for each in self.about)
        return f"calling({self.called!r}, {printed(self.fault)}{about})"

    def seen_from(self, caller: Function) -> Fault:
        """Return the fault of the called function, which it has in the calls of one caller."""
        codes = set(_codes(caller.__code__))

        def limited(function: Function) -> Function:
            faulty = self.fault(function)

            def run(*arguments: Any, **names: Any) -> Any:
                values = [*arguments, *names.values()]
                is_meant = sys._getframe(_FRAMES_BETWEEN).f_code in codes and all(
                    any(_is_about(each, value) for value in values) for each in self.about
                )
                return (faulty if is_meant else function)(*arguments, **names)

            return run

        return limited


def calling(called: str, fault: Fault, *about: object) -> Calling:
    """Return the fault of a function that has another one in its own calls of it.

    Args:
        called: the other function, as the target of a plant.
        fault: what is wrong with it then.
        about: what has to be among the arguments of the call: values, or types of them.
    """
    return Calling(called, fault, about)


def function_at(target: str) -> Any:
    """Return the function, or that of the property, which a target names."""
    module_name, _, path = target.partition(":")
    __import__(module_name)
    found: Any = sys.modules[module_name]
    for name in path.split("."):
        assert name in vars(found), f"there is no {target}"
        found = vars(found)[name]
    return plain_function(found)


def plain_function(found: Any) -> Any:
    """Return the function itself, without the class method, static method or property around it."""
    return found.fget if isinstance(found, property) else getattr(found, "__func__", found)


def globals_of(code: CodeType) -> set[str]:
    """Return the names that a function, and those in it, take from the module."""
    return {
        str(each.argval)
        for inner in _codes(code)
        for each in dis.get_instructions(inner)
        if each.opname == "LOAD_GLOBAL"
    }


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Yield the code of a function and of those in it."""
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _codes(each)


def copied(function: Function, names: dict[str, Any]) -> FunctionType:
    """Return a function with other names of its module."""
    assert not function.__closure__, f"{function.__name__} takes names of what is around it"
    made = FunctionType(function.__code__, names, function.__name__, function.__defaults__)
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def _is_about(wanted: object, value: object) -> bool:
    return isinstance(value, wanted) if isinstance(wanted, type) else bool(value == wanted)


def _signature(function: Function, paths: Iterable[str]) -> inspect.Signature:
    signature = inspect.signature(function)
    for path in paths:
        first = path.partition(".")[0]
        assert first in signature.parameters, f"{function.__name__} has no parameter {first}"
    return signature


def _bound(signature: inspect.Signature, arguments: Any, names: Any) -> inspect.BoundArguments:
    try:
        bound = signature.bind(*arguments, **names)
    except TypeError as error:
        raise UnfitFault(str(error)) from error
    bound.apply_defaults()
    return bound


def _attribute(holder: Any, name: str) -> Any:
    try:
        return getattr(holder, name)
    except AttributeError as error:
        raise UnfitFault(str(error)) from error


class _Call(NamedTuple):
    """A call of a function, whose arguments a fault changes."""

    function: Function
    bound: inspect.BoundArguments

    @contextmanager
    def changed(self, values: Mapping[str, object]) -> Iterator[None]:
        """Change arguments, and their attributes for the time of the context."""
        with ExitStack() as stack:
            for path, value in values.items():
                wanted = self.value(value.expression) if isinstance(value, Of) else value
                if wanted is not _MISSING:
                    self._change(path, wanted, stack)
            yield

    def value(self, expression: str) -> Any:
        """Return the value of an expression; `_MISSING` if an object on the way is missing."""
        try:
            return eval(expression, self.function.__globals__ | self.bound.arguments)
        except LookupError:
            return _MISSING
        except AttributeError as error:
            if error.obj is None:
                return _MISSING
            raise UnfitFault(str(error)) from error
        except NameError as error:
            raise UnfitFault(str(error)) from error

    def _change(self, path: str, value: Any, stack: ExitStack) -> None:
        """Change an argument or an attribute. An object that cannot be changed is replaced."""
        holder_path, _, name = path.rpartition(".")
        if not holder_path:
            self.bound.arguments[name] = value
            return
        holder = self.value(holder_path)
        if holder is None or holder is _MISSING:
            return
        before = _attribute(holder, name)
        if isinstance(holder, tuple):
            self._change(holder_path, holder._replace(**{name: value}), stack)  # type: ignore[attr-defined]
            return
        try:
            object.__setattr__(holder, name, value)
        except AttributeError as error:
            raise UnfitFault(str(error)) from error
        stack.callback(_restore, holder, name, value, before)


def _restore(holder: Any, name: str, value: object, before: object) -> None:
    """Give an attribute its value back, unless the function has given it another one."""
    if getattr(holder, name) is value:
        object.__setattr__(holder, name, before)
