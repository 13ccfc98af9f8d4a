"""The Python API: what `coterie.testing` exports, with its signatures and docstrings."""

import inspect
import re
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any

import coterie.testing
from coterie.control.docstrings import entries_in
from documentation.reference.tables import code, prose, table

_HEAD = """# Python API

What `coterie.testing` exports, from its docstrings. [Testing](../testing.md) is the guide.

"""
# Names of modules before names of types, which a reader does not need.
_MODULES = re.compile(
    r"\b(?:collections\.abc|coterie(?:\.\w+)+|asyncio(?:\.\w+)+|typing|os)\.(?=[A-Z])"
)
_SECTION = re.compile(r"^(Args|Attributes|Returns|Raises|Yields):$", re.MULTILINE)


def python_page() -> str:
    """Return the page: the classes and functions in the order of the alphabet."""
    exported = sorted(coterie.testing.__all__, key=str.lower)
    return _HEAD + "".join(_described(name, getattr(coterie.testing, name)) for name in exported)


def _described(name: str, thing: Any) -> str:
    parts = [f"## {name}\n\n"]
    if inspect.isclass(thing) and issubclass(thing, Enum):
        names = ", ".join(code(each) for each in thing.__members__)
        return f"{parts[0]}{_documented(thing)}{names}\n\n"
    if not (inspect.isclass(thing) and issubclass(thing, BaseException)):
        parts.append(_signature(name, thing))
    parts.append(_documented(thing))
    if inspect.isclass(thing):
        parts += [_member(name, *each) for each in _members(thing)]
    return "".join(parts)


def _members(cls: type) -> Iterator[tuple[str, Any]]:
    """Yield the public methods and properties that are ours, in the order of their definition."""
    fields = getattr(cls, "_fields", ())
    seen: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        if base.__module__.startswith("coterie."):
            seen |= {name: value for name, value in vars(base).items() if name[0] != "_"}
    for name, value in seen.items():
        if name not in fields and (callable(_function(value)) or isinstance(value, property)):
            yield name, value


def _member(cls: str, name: str, value: Any) -> str:
    if isinstance(value, property):
        hint = inspect.signature(value.fget).return_annotation if value.fget else ""
        kind = "" if hint in ("", inspect.Signature.empty) else f": {_shortened(hint)}"
        return f"### {cls}.{name}\n\n```python\n{name}{kind}\n```\n\n{_documented(value)}"
    function = _function(value)
    return f"### {cls}.{name}\n\n{_signature(name, function)}{_documented(function)}"


def _function(value: Any) -> Any:
    return getattr(value, "__func__", value)


def _signature(name: str, function: Callable[..., Any]) -> str:
    """Return a signature as a block of code, with a parameter on each line if it is long."""
    signature = inspect.signature(function)
    parameters = [str(each) for each in signature.parameters.values() if each.name != "self"]
    kinds = [each.kind for each in signature.parameters.values() if each.name != "self"]
    keyword = inspect.Parameter.KEYWORD_ONLY
    if keyword in kinds and inspect.Parameter.VAR_POSITIONAL not in kinds:
        parameters.insert(kinds.index(keyword), "*")
    answer = "" if inspect.isclass(function) else signature.return_annotation
    arrow = f" -> {_shortened(answer)}" if answer not in ("", inspect.Signature.empty) else ""
    line = _MODULES.sub("", f"{name}({', '.join(parameters)})")
    if len(line) > 80:
        lines = "".join(f"    {_MODULES.sub('', each)},\n" for each in parameters)
        line = f"{name}(\n{lines})"
    return f"```python\n{line}{arrow}\n```\n\n"


def _shortened(annotation: Any) -> str:
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return _MODULES.sub("", text)


def _documented(thing: Any) -> str:
    """Return a docstring as Markdown: the text, and tables of its sections."""
    text = inspect.getdoc(thing) or ""
    before, *rest = _SECTION.split(text)
    parts = [f"{prose(_paragraphs(before))}\n\n"]
    for title, body in zip(rest[::2], rest[1::2], strict=True):
        if title in ("Returns", "Yields"):
            parts.append(f"{title}: {prose(' '.join(body.split()))}\n\n")
            continue
        head = {"Args": "argument", "Attributes": "attribute", "Raises": "raised"}[title]
        rows = [(code(name), prose(about)) for name, about in entries_in(thing, title).items()]
        parts.append(table((head, "meaning"), rows))
    return "".join(parts)


def _paragraphs(text: str) -> str:
    """Return text whose indented blocks stay blocks of code."""
    return text.strip()
