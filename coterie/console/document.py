"""The OpenAPI 3.1 document of the console, made from the rows."""

from collections.abc import Iterable
from typing import Any

from coterie import __version__
from coterie.console.routes import Route, names_of

_ABOUT = "What the console shows, with the keys that `--json` of the commands has."
_EVENTS, _JSON, _FILE = "text/event-stream", "application/json", "application/octet-stream"


def document(routes: Iterable[Route]) -> dict[str, Any]:
    """Return the document."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _described(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Coterie console", "version": __version__, "description": _ABOUT},
        "paths": paths,
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "security": [{"token": []}],
    }


def _described(route: Route) -> dict[str, Any]:
    kind = _EVENTS if route.streams else _FILE if route.is_file else _JSON
    found: dict[str, Any] = {
        "summary": route.about,
        "responses": {"200": {"description": route.about, "content": {kind: {}}}},
        "parameters": [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
            for name in names_of(route)
        ],
    }
    if route.method == "POST":
        schema = {
            "type": "object",
            "properties": {
                each.name: {**each.schema, "description": each.about} for each in route.parameters
            },
            "required": [each.name for each in route.parameters if each.is_required],
        }
        found["requestBody"] = {"content": {_JSON: {"schema": schema}}}
        return found
    found["parameters"] += [
        {
            "name": each.name,
            "in": "query",
            "description": each.about,
            "required": each.is_required,
            "schema": dict(each.schema),
        }
        for each in route.parameters
    ]
    return found
