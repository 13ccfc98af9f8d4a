"""Planted bugs: faults put into the product on purpose, which a test harness must find.

A planted bug names a function and its fault (`faults.py` has the kinds), or it replaces a piece of
text in the source of the function, where only a part of it is wrong that has no name. The function
object keeps its identity and gets other code, so every module that imported the function runs the
bug. If the product has changed so that the function does not exist any more, or the text not
exactly once, planting fails: the bug then has to be written anew, not dropped. So it does if the
text uses a name that does not exist: the bug would be found by the NameError, whatever it is about.
"""

import builtins
import inspect
import textwrap
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import CodeType
from typing import Any, NamedTuple, cast

from tests.faults import Calling, Fault, copied, function_at, globals_of, plain_function

# The functions that run in place of planted ones.
_replacements: list[Callable[..., Any]] = []


class Plant(NamedTuple):
    """A bug to plant.

    Attributes:
        name: what is wrong.
        target: the function or property, as `module:function` or `module:Class.method`.
        old: the text that is replaced; it occurs exactly once in the function.
        new: the text that takes its place.
        kinds: the tasks that have to find the bug, for a harness that has kinds of tasks.
        also: planted with it, where one guard stands behind another: without them it is harmless.
        fault: what is wrong with the function, or with what it calls, instead of a text.
    """

    name: str
    target: str
    old: str = ""
    new: str = ""
    kinds: tuple[str, ...] = ()
    also: "tuple[Plant, ...]" = ()
    fault: Fault | Calling | None = None


@contextmanager
def planted(plant: Plant) -> Iterator[None]:
    """Run the body of the `with` statement with one bug in the product."""
    with ExitStack() as stack:
        for each in plant.also:
            stack.enter_context(planted(each))
        stack.enter_context(_changed(plant))
        yield


@contextmanager
def _changed(plant: Plant) -> Iterator[None]:
    function, fault = function_at(plant.target), plant.fault
    if isinstance(fault, Calling):
        function, fault = function_at(fault.called), fault.seen_from(function)
    original = function.__code__
    if fault is None:
        function.__code__ = _rewritten(plant, function)
    else:
        function.__code__ = _replacing(plant.name, fault, function)
    try:
        yield
    finally:
        function.__code__ = original


def _replacing(name: str, fault: Fault, function: Any) -> CodeType:
    """Return code that calls the function with the fault."""
    whole = copied(function, function.__globals__)
    number = len(_replacements)
    _replacements.append(fault(whole))
    # The globals are those of the product's module, so the replacement is looked up here.
    # Code is only replaced by code of the same kind.
    called = f"_replacements[{number}](*arguments, **names)"
    result = f"(yield from {called})" if inspect.isgeneratorfunction(function) else called
    assert not inspect.iscoroutinefunction(function), f"{name}: a coroutine has no fault yet"
    source = f"""
def planted(*arguments, **names):
    from tests.planting import _replacements
    return {result}
"""
    names: dict[str, Any] = {}
    exec(compile(source, f"<planted: {name}>", "exec"), names)
    return cast("CodeType", names["planted"].__code__)


def _rewritten(plant: Plant, function: Any) -> CodeType:
    """Return the code of the function with a text replaced."""
    known = function.__globals__
    source = textwrap.dedent(inspect.getsource(function))
    assert source.count(plant.old) == 1, f"{plant.name}: {plant.old!r} is not in {plant.target}"
    names = dict(known)
    code = compile(source.replace(plant.old, plant.new), f"<planted: {plant.name}>", "exec")
    exec(code, names)
    found = cast("CodeType", plain_function(names[function.__name__]).__code__)
    unknown = globals_of(found) - known.keys() - vars(builtins).keys()
    assert not unknown, f"{plant.name}: {plant.target} has no {', '.join(sorted(unknown))}"
    return found
