"""Planted bugs: faults put into the product on purpose, which a test harness must find.

A planted bug replaces a piece of text in the source of one function. The function object keeps its
identity and gets the code that was compiled from the changed source, so every module that imported
the function runs the bug. If the product has changed so that the text no longer occurs exactly
once, planting fails: the bug then has to be written anew, not dropped. So it does if the bug uses a
name that does not exist: it would be found by the NameError, whatever it is about.
"""

import builtins
import dis
import importlib
import inspect
import textwrap
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import CodeType
from typing import Any, NamedTuple


class Plant(NamedTuple):
    """A bug to plant.

    Attributes:
        name: what is wrong.
        target: the function, as `module:function` or `module:Class.method`.
        old: the text that is replaced; it occurs exactly once in the function.
        new: the text that takes its place.
        kinds: the tasks that have to find the bug, for a harness that has kinds of tasks.
        also: planted with it, where one guard stands behind another: without them it is harmless.
    """

    name: str
    target: str
    old: str
    new: str
    kinds: tuple[str, ...] = ()
    also: "tuple[Plant, ...]" = ()


@contextmanager
def planted(plant: Plant) -> Iterator[None]:
    """Run the body of the `with` statement with one bug in the product."""
    with ExitStack() as stack:
        for each in (*plant.also, plant):
            stack.enter_context(_changed(each))
        yield


@contextmanager
def _changed(plant: Plant) -> Iterator[None]:
    module_name, _, path = plant.target.partition(":")
    module = importlib.import_module(module_name)
    *outer_names, name = path.split(".")
    holder: Any = module
    for outer_name in outer_names:
        holder = getattr(holder, outer_name)
    function = _plain_function(vars(holder)[name])
    source = textwrap.dedent(inspect.getsource(function))
    assert source.count(plant.old) == 1, f"{plant.name}: {plant.old!r} is not in {plant.target}"
    names = dict(vars(module))
    code = compile(source.replace(plant.old, plant.new), f"<planted: {plant.name}>", "exec")
    exec(code, names)
    original = function.__code__
    code = _plain_function(names[name]).__code__
    unknown = _globals_of(code) - vars(module).keys() - vars(builtins).keys()
    assert not unknown, f"{plant.name}: {plant.target} has no {', '.join(sorted(unknown))}"
    function.__code__ = code
    try:
        yield
    finally:
        function.__code__ = original


def _globals_of(code: CodeType) -> set[str]:
    """Return the names that a function, and those in it, take from the module."""
    found = {
        str(each.argval) for each in dis.get_instructions(code) if each.opname == "LOAD_GLOBAL"
    }
    for each in code.co_consts:
        if isinstance(each, CodeType):
            found |= _globals_of(each)
    return found


def _plain_function(found: Any) -> Any:
    """Return the function itself, without the class or static method around it."""
    return getattr(found, "__func__", found)
