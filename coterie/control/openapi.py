"""The OpenAPI 3.1 document of the control port, made from the table of operations."""

from collections.abc import Iterable
from typing import Any

from coterie import __version__
from coterie.control.errors import RAISED
from coterie.control.operations import ControlOperation, Parameter
from coterie.control.shapes import Schema, Shapes, object_schema

_TEXT = {"type": "string"}
_ABOUT = (
    "The verbs of coterie.testing over HTTP, for tests in any language. A wait is a request that is"
    " answered when its condition holds, or with 408 and the reason why it does not."
)


def document(operations: Iterable[ControlOperation], shapes: Shapes) -> dict[str, Any]:
    """Return the document."""
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        row = operation.row
        paths.setdefault(row.path, {})[row.method.lower()] = _described(operation)
    error = object_schema(
        "An error: what is wrong, what helps, and the name of its kind.",
        {"error": _TEXT, "remedy": _TEXT, "kind": _TEXT},
        ["error", "remedy", "kind"],
    )
    return {
        "openapi": "3.1.0",
        "info": {"title": "Coterie control", "version": __version__, "description": _ABOUT},
        "paths": paths,
        "components": {
            "schemas": {**shapes.components, "Error": error},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    }


def _described(operation: ControlOperation) -> dict[str, Any]:
    summary, more = operation.texts
    in_body = [each for each in operation.all_parameters if each.place == "body"]
    elsewhere = [each for each in operation.all_parameters if each.place != "body"]
    found: dict[str, Any] = {
        "operationId": operation.operation_id,
        "tags": [operation.subject],
        "summary": summary,
        "responses": {
            "200": _content(summary, operation.result.schema),
            **({"408": _error("The condition does not hold in time.")} if operation.waits else {}),
            "default": _error(
                f"An error, of the kinds {', '.join(sorted(cls.__name__ for cls in RAISED))},"
                " or found by the port itself."
            ),
        },
    }
    if more:
        found["description"] = more
    if elsewhere:
        found["parameters"] = [_parameter(each) for each in elsewhere]
    if in_body:
        properties = {each.name: _schema(each) for each in in_body}
        required = [each.name for each in in_body if each.is_required]
        schema = object_schema("", properties, required)
        found["requestBody"] = {
            "required": bool(required),
            "content": {"application/json": {"schema": schema}},
        }
    if operation.row.is_open:
        found["security"] = []
    return found


def _parameter(parameter: Parameter) -> dict[str, Any]:
    schema = _schema(parameter)
    text = schema.pop("description", None)
    return {
        "name": parameter.name,
        "in": parameter.place,
        "required": parameter.place == "path" or parameter.is_required,
        "schema": schema,
        **({"description": text} if text else {}),
    }


def _schema(parameter: Parameter) -> Schema:
    schema = dict(parameter.shape.schema)
    if parameter.text:
        schema["description"] = parameter.text
    if parameter.default is not None and parameter.default != ():
        schema["default"] = parameter.default
    return schema


def _content(text: str, schema: Schema) -> dict[str, Any]:
    return {"description": text, "content": {"application/json": {"schema": schema}}}


def _error(text: str) -> dict[str, Any]:
    return _content(text, {"$ref": "#/components/schemas/Error"})
