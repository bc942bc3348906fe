"""Questions of MCP servers to the user of a chat: one field after another, validated against the form."""

from collections.abc import Mapping
from typing import Any, Protocol

from .rendering import one_line

YES = ("y", "yes", "true", "1", "on")
NO = ("n", "no", "false", "0", "off")


class Form(Protocol):
    """A question; the same fields as `interlingua.mcp.Elicitation`."""

    server: str
    message: str
    schema: dict[str, Any] | None
    url: str | None


class NotAnAnswer(Exception):
    """Input that the field does not accept; the message says what it accepts."""


def label(name: str, field: Mapping[str, Any], *, required: bool) -> str:
    """Returns the prompt for a field: its title, accepted values, and default."""
    title = one_line(str(field.get("title") or name))
    about = f" ({one_line(str(field['description']))})" if field.get("description") else ""
    takes = _takes(field)
    default = f", default {field['default']}" if "default" in field else "" if required else ", may be empty"
    return f"{title}{about}: {takes}{default}"


def _takes(field: Mapping[str, Any]) -> str:
    options = choices(field)
    if options:
        many = "some of " if field.get("type") == "array" else "one of "
        return many + ", ".join(one_line(text) for text in options)
    return {"boolean": "yes or no", "integer": "a whole number", "number": "a number"}.get(
        str(field.get("type")), "a text"
    )


def choices(field: Mapping[str, Any]) -> list[str]:
    """Returns the allowed values of a field, in each form that an elicitation schema allows."""
    if field.get("type") == "array":
        return choices(field["items"]) if isinstance(field.get("items"), Mapping) else []
    if isinstance(field.get("enum"), list):
        return [str(value) for value in field["enum"]]
    listed = field.get("oneOf") or field.get("anyOf") or []
    return [str(one["const"]) for one in listed if isinstance(one, Mapping) and "const" in one]


def value_of(field: Mapping[str, Any], text: str) -> Any:
    """Parses a line as a field's value."""
    text = text.strip()
    kind, options = field.get("type"), choices(field)
    if kind == "array":
        values = [part.strip() for part in text.split(",") if part.strip()]
        if options and not set(values) <= set(options):
            raise NotAnAnswer(_takes(field))
        return values
    if options:
        if text not in options:
            raise NotAnAnswer(_takes(field))
        return text
    if kind == "boolean":
        if text.lower() not in (*YES, *NO):
            raise NotAnAnswer(_takes(field))
        return text.lower() in YES
    if kind in ("integer", "number"):
        try:
            return int(text) if kind == "integer" else float(text)
        except ValueError:
            raise NotAnAnswer(_takes(field)) from None
    return text
