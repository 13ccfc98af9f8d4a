"""The control API: the operations of the control port and the types of what they answer."""

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

from coterie.control.broker_operations import BROKER
from coterie.control.cluster_operations import CLUSTER
from coterie.control.openapi import document
from coterie.control.operations import ControlOperation, Parameter, Table, operations_of
from coterie.control.page import type_name
from coterie.control.special_shapes import new_shapes
from documentation.reference.tables import code, prose, table

_HEAD = """# Control API

The operations of `coterie serve --control`, from the table that serves them; a broker also serves
them as a page (`GET /docs`) and as OpenAPI 3.1 (`GET /openapi.json`).
[The control port](../control.md) is the guide. A POST takes its fields in a JSON
object, GET and DELETE in the query.

"""


def control_page() -> str:
    """Return the page: operations of one broker, those of several, and the types."""
    single, schemas = _operations(BROKER)
    several, more = _operations(CLUSTER)
    known = {(each.row.method, each.row.path) for each in single}
    added = [each for each in several if (each.row.method, each.row.path) not in known]
    parts = [_HEAD, *_described(single), "## Several brokers\n\n"]
    parts.append("These are there with `coterie serve --brokers 3`, besides those above.\n\n")
    parts += [_operation(each) for each in added]
    parts.append("## Types\n\n")
    parts += [_schema(name, schema) for name, schema in sorted((schemas | more).items())]
    return "".join(parts)


def _operations(operations: Table) -> tuple[list[ControlOperation], dict[str, Any]]:
    """Return the operations of a table, and the types of their OpenAPI document."""
    shapes = new_shapes()
    found = operations_of(shapes, operations)
    return found, document(found, shapes)["components"]["schemas"]


def _described(operations: Iterable[ControlOperation]) -> Iterator[str]:
    """Yield sections: one for each subject, and before them one for what has a path alone."""
    subjects = [
        (subject, list(group))
        for subject, group in groupby(operations, lambda each: each.row.path.split("/")[1])
    ]
    yield "## The broker\n\n"
    yield from (_operation(each) for _, group in subjects for each in group if len(group) == 1)
    for subject, group in subjects:
        if len(group) > 1:
            yield f"## {subject.capitalize()}\n\n"
            yield from map(_operation, group)


def _operation(operation: ControlOperation) -> str:
    row = operation.row
    summary, more = operation.texts
    fields = table(("field", "in", "type", "meaning"), map(_field, operation.all_parameters))
    return (
        f"### {row.method} {row.path}\n\n{prose(summary)} {prose(more)}\n\n{fields}"
        f"Answer: {code(type_name(operation.result.schema))}"
        f"{', or 408 when the time is over' if operation.waits else ''}"
        f"{'. It needs no token' if row.is_open else ''}.\n\n"
    )


def _field(parameter: Parameter) -> tuple[str, ...]:
    needed = "" if parameter.is_required or parameter.place == "path" else ", optional"
    kind = type_name(parameter.shape.schema)
    return code(parameter.name), f"{parameter.place}{needed}", code(kind), prose(parameter.text)


def _schema(name: str, schema: dict[str, Any]) -> str:
    about = prose(schema.get("description", ""))
    properties = schema.get("properties", {})
    required = set(schema.get("required", ()))
    rows = [
        (
            code(field),
            code(type_name(each)) + ("" if field in required else ", optional"),
            prose(each.get("description", "")),
        )
        for field, each in properties.items()
    ]
    fields = table(("field", "type", "meaning"), rows) or f"{code(type_name(schema))}\n\n"
    return f"### {name}\n\n{about}\n\n{fields}"
