"""The API as an OpenAPI 3.1 document, generated from the routes and their shapes; and as TypeScript types.

`python -m interlingua.canvas.openapi FILE.json` or `FILE.d.ts` writes one or the other.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web
from msgspec import Struct

from .._version import __version__
from ..values import jsontext
from . import client_server, export, reading_routes, writing_routes
from .routing import BYTES, JSON, ROUTES, ApiCall, ApiRoute, route
from .shapes import Approval, LiveNode, RunView, Shape

_EVENTS = "text/event-stream"
_ROUTES = (client_server, export, reading_routes, writing_routes)  # importing them adds their routes
_REF = "#/components/schemas/{name}"
_PARAMETER = re.compile(r"\{(\w+)\}")


class ErrorDetail(Shape, frozen=True, kw_only=True):
    """`error` is a code for programs, `message` a sentence for people, `path` where it applies, `remedy` what to do."""

    error: str
    message: str
    path: str | None = None
    remedy: str | None = None


class ErrorBody(Shape, frozen=True, kw_only=True):
    detail: ErrorDetail


@route("GET", "/api/openapi.json", returns=dict[str, Any])
async def openapi(call: ApiCall) -> web.Response:
    """Get this document."""
    return web.Response(body=jsontext.write(document()), content_type="application/json")


def document() -> dict[str, Any]:
    """The OpenAPI document."""
    routes = [*ROUTES, reading_routes.BLOB]
    types = _types(routes)
    schemas, components = msgspec.json.schema_components(types, ref_template=_REF)
    known = dict(zip(map(_name_of, types), schemas, strict=True))
    paths: dict[str, Any] = {}
    for one in routes:
        paths.setdefault(one.path, {})[one.method.lower()] = _operation(one, known)
    found = {
        "openapi": "3.1.0",
        "info": {
            "title": "Interlingua canvas",
            "version": __version__,
            "summary": "Branching conversations: to be seen, searched, compared and continued.",
        },
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": dict(sorted(components.items())),
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer"},
                "cookie": {"type": "apiKey", "in": "cookie", "name": "interlingua_canvas_PORT"},
            },
        },
        "security": [{"key": []}, {"cookie": []}],
    }
    plain: dict[str, Any] = jsontext.read(jsontext.write(found))  # defaults are tuples
    return plain


def _types(routes: list[ApiRoute]) -> list[Any]:
    found: list[Any] = [ErrorBody, Approval, LiveNode, RunView]
    for one in routes:
        found += [part for part in (one.query, one.body, one.returns) if part not in (None, BYTES)]
    return list(dict.fromkeys(found))


def _name_of(kind: Any) -> str:
    return getattr(kind, "__name__", str(kind))


def _operation(route: ApiRoute, known: dict[str, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": f"{route.tag or 'viewer'}_{route.handler.__name__}",
        "summary": route.summary,
        "tags": [route.tag or "viewer"],
        "parameters": [*_path_parameters(route), *_query_parameters(route)],
        "responses": {str(route.status): _response(route, known), "default": _error(known)},
    }
    if route.body == BYTES:
        operation["requestBody"] = {
            "required": True,
            "content": {BYTES: {"schema": {"type": "string", "format": "binary"}}},
        }
    elif route.body is not None:
        operation["requestBody"] = {"required": True, "content": {JSON: {"schema": known[_name_of(route.body)]}}}
    return operation


def _path_parameters(route: ApiRoute) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in _PARAMETER.findall(route.path)
    ]


def _query_parameters(route: ApiRoute) -> list[dict[str, Any]]:
    if route.query is None:
        return []
    schema = msgspec.json.schema(route.query)
    fields = schema["$defs"][route.query.__name__]
    return [
        {"name": name, "in": "query", "required": name in fields.get("required", ()), "schema": value}
        for name, value in fields.get("properties", {}).items()
    ]


def _response(route: ApiRoute, known: dict[str, Any]) -> dict[str, Any]:
    if route.returns is None:
        kind = _EVENTS if route.path.endswith("/events") else BYTES
        return {"description": route.summary, "content": {kind: {"schema": {"type": "string"}}}}
    return {"description": route.summary, "content": {JSON: {"schema": known[_name_of(route.returns)]}}}


def _error(known: dict[str, Any]) -> dict[str, Any]:
    return {"description": "What went wrong, in one shape.", "content": {JSON: {"schema": known["ErrorBody"]}}}


# --- TypeScript ------------------------------------------------------------------------------------------------------


def typescript() -> str:
    """The components of the document as TypeScript types."""
    schemas = document()["components"]["schemas"]
    parts = ["// Made from the server's shapes by `python -m interlingua.canvas.openapi`; do not edit.\n"]
    for name, schema in schemas.items():
        text = schema.get("description", "").strip().replace("*/", "* /")
        comment = f"/** {' '.join(text.split())} */\n" if text else ""
        parts.append(f"{comment}export type {name} = {_ts(schema)};\n")
    return "\n".join(parts)


def _ts(schema: dict[str, Any], depth: int = 0) -> str:
    """One JSON schema as a type."""
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2])
    if "enum" in schema:
        return " | ".join(json.dumps(value) for value in schema["enum"])
    if "const" in schema:
        return json.dumps(schema["const"])
    options = schema.get("anyOf") or schema.get("oneOf")
    if options is not None:
        return " | ".join(dict.fromkeys(_ts(option, depth) for option in options))
    match schema.get("type"):
        case "object":
            return _ts_object(schema, depth)
        case "array":
            if "prefixItems" in schema:
                return "[" + ", ".join(_ts(item, depth) for item in schema["prefixItems"]) + "]"
            item = _ts(schema.get("items") or {}, depth)
            return f"({item})[]" if " " in item else f"{item}[]"
        case "string":
            return "string"
        case "integer" | "number":
            return "number"
        case "boolean":
            return "boolean"
        case "null":
            return "null"
        case _:
            return "unknown"


def _ts_object(schema: dict[str, Any], depth: int) -> str:
    fields = schema.get("properties")
    if not fields:
        extra = schema.get("additionalProperties")
        return f"Record<string, {_ts(extra, depth) if isinstance(extra, dict) else 'unknown'}>"
    required = set(schema.get("required", ()))
    pad = "  " * (depth + 1)
    lines = []
    for name, value in fields.items():
        kind = _ts(value, depth + 1)
        is_optional = name not in required
        if is_optional and "default" in value:  # absent means null, unless null has its own meaning
            kind = " | ".join(part for part in kind.split(" | ") if part != "null") or "null"
        lines.append(f"{pad}{name}{'?' if is_optional else ''}: {kind};")
    return "{\n" + "\n".join(lines) + "\n" + "  " * depth + "}"


def shapes() -> list[type[Struct]]:
    """Returns every shape that a route takes or returns."""
    return [kind for kind in _types([*ROUTES, reading_routes.BLOB]) if isinstance(kind, type)]


def main(path: str) -> None:
    text = typescript() if path.endswith(".ts") else json.dumps(document(), indent=1) + "\n"
    Path(path).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
