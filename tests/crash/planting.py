"""Putting bugs into the product on purpose: each harness here must find its own.

A plant replaces a piece of text in the source of one function, and the function runs the code that
comes of it. When the product changes so that the text is no longer there, planting fails loudly:
then the plant is to be written anew, not dropped.
"""

import importlib
import inspect
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple


class Plant(NamedTuple):
    """A bug.

    Attributes:
        name: what it does.
        target: the function, as `module:function` or `module:Class.method`.
        old, new: the piece of its source, and what stands there instead.
        kinds: of task that look for it, `kind:story:mode` each.
    """

    name: str
    target: str
    old: str
    new: str
    kinds: tuple[str, ...]


@contextmanager
def planted(plant: Plant) -> Iterator[None]:
    """Run with one bug in the product."""
    module_name, _, path = plant.target.partition(":")
    module = importlib.import_module(module_name)
    holder: Any = module
    *places, name = path.split(".")
    for place in places:
        holder = getattr(holder, place)
    found = vars(holder)[name]
    function = getattr(found, "__func__", found)
    source = textwrap.dedent(inspect.getsource(function))
    assert source.count(plant.old) == 1, f"{plant.name}: {plant.old!r} is not in {plant.target}"
    names = dict(vars(module))
    code = compile(source.replace(plant.old, plant.new), f"<planted: {plant.name}>", "exec")
    exec(code, names)
    made = names[name]
    original = function.__code__
    function.__code__ = getattr(made, "__func__", made).__code__
    try:
        yield
    finally:
        function.__code__ = original
