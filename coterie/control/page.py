"""GET /docs: the operations of the control port as one page, which needs nothing from a network."""

from collections.abc import Iterable
from html import escape
from itertools import groupby
from typing import NamedTuple

from coterie.control.operations import ControlOperation, Parameter
from coterie.control.shapes import Schema

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 60em; padding: 0 1em }
h2 { margin: 2em 0 .5em }
code, pre { font: 13px/1.5 ui-monospace, monospace }
pre { background: #8881; padding: .8em; overflow-x: auto }
details { border-top: 1px solid #8884; padding: .4em 0 }
summary { cursor: pointer }
summary b { display: inline-block; width: 4.5em }
td { padding: .1em 1.2em .1em 0; vertical-align: top }
:root { color-scheme: light dark }
"""
_INTRODUCTION = """
<h1>Coterie control</h1>
<p>The verbs of <code>coterie.testing</code> over HTTP. Each request but those marked as open needs
the token that <code>coterie serve</code> printed:</p>
<pre>curl -H "Authorization: Bearer $TOKEN" -H "Content-Type: application/json" \\
  -d '{"members": 2, "timeout_s": 20}' http://127.0.0.1:PORT/groups/billing/wait/stable</pre>
<p>A POST takes its fields in a JSON object, other methods in the query. An error is
<code>{"error": …, "remedy": …, "kind": …}</code>; a wait that fails is answered with 408 and the
picture of the group. Bytes are text where they are UTF-8, and else
<code>{"base64": …}</code>; partitions are written <code>orders-0</code>.
<a href="openapi.json">openapi.json</a> has the types of all fields.</p>
"""


class Page(NamedTuple):
    """A page.

    Attributes:
        html: its text.
        policy: its Content-Security-Policy: nothing is loaded.
    """

    html: str
    policy: str = "default-src 'none'; style-src 'unsafe-inline'"


def page(operations: Iterable[ControlOperation]) -> Page:
    """Return the page."""
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><title>Coterie control</title>",
        f"<style>{_STYLE}</style>",
        _INTRODUCTION,
    ]
    for title, group in groupby(operations, lambda each: each.row.path.split("/")[1]):
        parts.append(f"<h2>{escape(title)}</h2>")
        parts += [_operation(each) for each in group]
    return Page("\n".join(parts))


def _operation(operation: ControlOperation) -> str:
    row = operation.row
    summary, more = operation.texts
    fields = "".join(_field(each) for each in operation.all_parameters)
    return (
        f"<details><summary><b>{row.method}</b> <code>{escape(row.path)}</code> — "
        f"{escape(summary)}{' (open)' if row.is_open else ''}</summary>"
        f"<p>{escape(more)}</p><table>{fields}</table>"
        f"<p>Answer: <code>{escape(type_name(operation.result.schema))}</code></p></details>"
    )


def _field(parameter: Parameter) -> str:
    kind = type_name(parameter.shape.schema)
    needed = "" if parameter.is_required else " optional"
    return (
        f"<tr><td><code>{escape(parameter.name)}</code><td>{parameter.place}{needed}"
        f"<td><code>{escape(kind)}</code><td>{escape(parameter.text)}"
    )


def type_name(schema: Schema) -> str:
    """Return a schema in a few words: "list of Member", "object of integer"."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    for choice in ("anyOf", "oneOf"):
        if choice in schema:
            return " or ".join(dict.fromkeys(type_name(each) for each in schema[choice]))
    if "const" in schema:
        return str(schema["const"])
    if "enum" in schema:
        return "name" if len(schema["enum"]) > 9 else " or ".join(map(str, schema["enum"]))
    if schema["type"] == "array" and "items" in schema:
        return f"list of {type_name(schema['items'])}"
    if schema["type"] == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object of {type_name(schema['additionalProperties'])}"
    return "nothing" if schema["type"] == "null" else str(schema["type"])
