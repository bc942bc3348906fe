"""Questions to the user: approval of calls, with the rule for `always`, and the fields that an MCP server asks for."""

import asyncio
import difflib
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

from rich.console import Group, RenderableType
from rich.text import Text

from ..tools.policy import ApprovalRequest, Decision, Rule
from ..tools.policy import Permissions as Permissions
from ..tools.policy import standing_rule as standing_rule
from ..tools.tool import FsBridge
from ..values import jsontext
from .rendering import coloured_diff, headline, note, one_line, safe

Verdict: TypeAlias = Literal["yes", "no", "always"]

_VERDICTS: dict[str, Verdict] = {"y": "yes", "yes": "yes", "n": "no", "no": "no", "a": "always", "always": "always"}
_COMPARED_BYTES = 400_000
_SHOWN_LINES = 200  # long enough to see what is allowed
_SHOWN_WIDTH = 4_000


class ApprovalAnswer(NamedTuple):
    """The verdict, and the reason for a no."""

    verdict: Verdict
    text: str = ""


def answer_of(line: str) -> ApprovalAnswer | None:
    """Parses an answer; None for any other text, which never counts as a yes."""
    first, _, rest = line.strip().partition(" ")
    verdict = _VERDICTS.get(first.rstrip(",.:!").lower())
    if verdict is None or (rest.strip() and verdict != "no"):
        return None
    return ApprovalAnswer(verdict, rest.strip())


def rule_text(rule: Rule) -> str:
    commands = rule.command if isinstance(rule.command, tuple) else (rule.command,)
    return " and ".join(f"`{safe(command)} …`" for command in commands) if rule.command else f"{rule.tool}"


def choices(rule: Rule | None) -> str:
    always = f" · a always {rule_text(rule)}" if rule is not None else ""
    return f"y yes · n no (and why){always}"


async def preview(tool: str, params: Mapping[str, Any], bridge: FsBridge | None) -> str | None:
    """Returns the diff that a call would make, as far as its arguments show."""
    if tool == "apply_patch":
        return next((value for value in params.values() if isinstance(value, str)), None)
    if tool == "edit":
        return _replacements(params)
    content, path = params.get("content"), params.get("path")
    if tool != "write" or not isinstance(content, str) or not isinstance(path, str) or bridge is None:
        return None
    return await asyncio.to_thread(_compared, path, await _present(bridge, path), content)


def _replacements(params: Mapping[str, Any]) -> str:
    edits = params.get("edits")
    listed = edits if isinstance(edits, list) else [params]
    lines = [f"--- {params.get('path')}", f"+++ {params.get('path')}"]
    for one in listed:
        if isinstance(one, Mapping):
            old, new = (_first(one, keys) for keys in (("oldText", "old_string"), ("newText", "new_string")))
            lines += ["@@", *_marked("-", old), *_marked("+", new)]
    return "\n".join(lines)


def _first(params: Mapping[str, Any], keys: tuple[str, ...]) -> Any:
    return next((params[key] for key in keys if key in params), None)


def _marked(mark: str, text: Any) -> list[str]:
    return [f"{mark}{line}" for line in str(text or "").splitlines()]


async def _present(bridge: FsBridge, path: str) -> str:
    try:
        look = getattr(bridge, "variant", None)
        if callable(look) and await look(path) is not None:
            return ""  # a file with a similar name: the written one is new
        found = await bridge.stat(path)
        readable = found is not None and found.is_file and found.size <= _COMPARED_BYTES
        return await bridge.read_file(path) if readable else ""
    except Exception:  # a bridge is foreign code; the tool reports an unreadable path
        return ""


def _compared(path: str, old: str, new: str) -> str:
    if len(new) > _COMPARED_BYTES:
        return f"--- {path}\n+++ {path}\n{len(new):,} characters, too many to compare"
    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), f"a/{path}", f"b/{path}", lineterm="")
    return "\n".join(lines)


def shown(request: ApprovalRequest, diff: str | None, decision: Decision) -> RenderableType:
    """The full call, and the reason for the approval if a rule gives one."""
    head = headline(request.tool_name, request.params, style="yellow")
    why = [note(f"  {request.reason}")] if decision.rule is not None else []
    return Group(head, *_body(request.params, head.plain, diff), *why)


def _body(params: Mapping[str, Any], head: str, diff: str | None) -> list[RenderableType]:
    if diff is not None and diff.strip():
        return [coloured_diff(diff, _SHOWN_LINES, _SHOWN_WIDTH)]
    command = params.get("command")
    text = safe(command if isinstance(command, str) else jsontext.compact(params))
    rest = {key: value for key, value in params.items() if key != "command"}
    lines = [] if head.endswith(f" {text}") else text.split("\n")
    if isinstance(command, str) and rest:
        lines.append(safe(jsontext.compact(rest)))  # a variable or a folder changes what a command does
    more = [f"… {len(lines) - _SHOWN_LINES:,} more lines"] if len(lines) > _SHOWN_LINES else []
    return [Text(f"  {line}", "yellow") for line in [*lines[:_SHOWN_LINES], *more]]


# --- questions of MCP servers -----------------------------------------------------------------------------------------

YES = ("y", "yes", "true", "1", "on")
NO = ("n", "no", "false", "0", "off")


class Form(Protocol):
    """A question; the same fields as `interlingua.mcp.Elicitation`."""

    server: str
    message: str
    schema: dict[str, Any] | None
    url: str | None


class NotAnAnswer(Exception):
    """Input that the field does not accept; the message names what it accepts."""


def label(name: str, field: Mapping[str, Any], *, required: bool) -> str:
    """Returns the prompt for a field: its title, accepted values, and default."""
    title = one_line(str(field.get("title") or name))
    about = f" ({one_line(str(field['description']))})" if field.get("description") else ""
    takes = _takes(field)
    default = f", default {field['default']}" if "default" in field else "" if required else ", may be empty"
    return f"{title}{about}: {takes}{default}"


def _takes(field: Mapping[str, Any]) -> str:
    options = values_of(field)
    if options:
        many = "some of " if field.get("type") == "array" else "one of "
        return many + ", ".join(one_line(text) for text in options)
    return {"boolean": "yes or no", "integer": "a whole number", "number": "a number"}.get(
        str(field.get("type")), "a text"
    )


def values_of(field: Mapping[str, Any]) -> list[str]:
    """Returns the allowed values of a field, in each form that an elicitation schema allows."""
    if field.get("type") == "array":
        return values_of(field["items"]) if isinstance(field.get("items"), Mapping) else []
    if isinstance(field.get("enum"), list):
        return [str(value) for value in field["enum"]]
    listed = field.get("oneOf") or field.get("anyOf") or []
    return [str(one["const"]) for one in listed if isinstance(one, Mapping) and "const" in one]


def value_of(field: Mapping[str, Any], text: str) -> Any:
    """Parses a line as a field's value."""
    text = text.strip()
    kind, options = field.get("type"), values_of(field)
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
