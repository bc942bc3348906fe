"""Conversations as static HTML and Markdown, for notebooks. Everything is escaped; nothing is fetched or run."""

import html
from collections.abc import Iterable, Sequence
from typing import Any

from . import jsontext

_MAX_MESSAGES = 200  # messages shown
_LONGEST = 20_000  # characters shown of one block
_BOX = "border-left:3px solid #8a8f98;margin:6px 0;padding:2px 10px"
_PRE = "white-space:pre-wrap;margin:2px 0;font-family:inherit"
_CODE = "white-space:pre-wrap;margin:2px 0;font-family:monospace;font-size:90%"
_PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")


def message_html(message: Any) -> str:
    """One message."""
    about = " · ".join(html.escape(part) for part in _author(message))
    blocks = "".join(_block_html(block) for block in _blocks(message))
    return f'<div style="{_BOX}"><small>{about}</small>{blocks}</div>'


def messages_html(messages: Sequence[Any], title: str | None = None) -> str:
    """Several messages; only the first ones of a long list."""
    head = f"<b>{html.escape(title)}</b>" if title else ""
    shown = "".join(map(message_html, messages[:_MAX_MESSAGES]))
    rest = len(messages) - _MAX_MESSAGES
    more = f"<small>… {rest} further messages</small>" if rest > 0 else ""
    return f"<div>{head}{shown}{more}</div>"


def encoded_html(body: Any, losses: Iterable[Any]) -> str:
    """A body as JSON, and its losses."""
    text = body if isinstance(body, str) else jsontext.write(body).decode("utf-8", "replace")
    return f'<pre style="{_CODE}">{html.escape(_cut(text))}</pre>{losses_html(losses)}'


def losses_html(losses: Iterable[Any]) -> str:
    """A table of losses."""
    cells = ((one.severity, one.path, one.what, one.why) for one in losses)
    rows = "".join(f"<tr>{''.join(f'<td>{html.escape(str(part))}</td>' for part in row)}</tr>" for row in cells)
    if not rows:
        return "<small>nothing was lost</small>"
    return f"<table><tr><th>severity</th><th>place</th><th>what</th><th>why</th></tr>{rows}</table>"


def message_markdown(message: Any) -> str:
    """One message, with texts in fences so that they are not parsed as Markdown."""
    parts = [f"**{' · '.join(_author(message))}**"]
    parts += [_fenced(text, kind) for kind, text in (_block_text(block) for block in _blocks(message))]
    return "\n\n".join(parts)


def messages_markdown(messages: Sequence[Any], title: str | None = None) -> str:
    """Several messages."""
    head = [f"# {_plain(title)}"] if title else []
    rest = len(messages) - _MAX_MESSAGES
    more = [f"… {rest} further messages"] if rest > 0 else []
    return "\n\n".join([*head, *map(message_markdown, messages[:_MAX_MESSAGES]), *more])


def _author(message: Any) -> list[str]:
    """The author of a message, with its model or tool."""
    parts = [str(getattr(message, "role", type(message).__name__))]
    named = (getattr(message, name, None) for name in ("model", "tool_name", "origin"))
    parts += [value for value in named if isinstance(value, str) and value]
    if getattr(message, "is_error", False):
        parts.append("error")
    if getattr(message, "stop_reason", None) in ("length", "error", "aborted"):
        parts.append(message.stop_reason)
    usage = getattr(message, "usage", None)
    if usage is not None:
        parts.append(f"{usage.total_tokens:,} tokens")
        if usage.cost is not None:
            parts.append(f"${usage.cost.total:.6f}".rstrip("0").rstrip("."))
    return parts


def _blocks(message: Any) -> Sequence[Any]:
    content = getattr(message, "content", None)
    if content is None:
        fields = getattr(message, "fields", None)
        return (fields,) if fields else ()
    return (content,) if isinstance(content, str) else content


def _block_html(block: Any) -> str:
    data, mime = getattr(block, "data", None), getattr(block, "mime_type", None)
    if isinstance(data, str) and mime in _PICTURES and _is_base64(data):
        return f'<img style="max-width:480px;max-height:360px" src="data:{mime};base64,{data}">'
    kind, text = _block_text(block)
    text = html.escape(text)
    if kind == "text":
        return f'<pre style="{_PRE}">{text}</pre>'
    if kind == "thinking":
        return f'<details><summary><small>thinking</small></summary><pre style="{_PRE}">{text}</pre></details>'
    return f'<pre style="{_CODE}">{text}</pre>'


def _block_text(block: Any) -> tuple[str, str]:
    """The kind of a block, and its text."""
    if isinstance(block, str):
        return "text", _cut(block)
    for kind in ("text", "thinking"):
        if isinstance(text := getattr(block, kind, None), str):
            return kind, _cut(text) if text or not getattr(block, "redacted", False) else "(redacted)"
    if hasattr(block, "arguments"):
        written = block.arguments if getattr(block, "parse_error", None) is None else block.arguments_text
        text = written if isinstance(written, str) else jsontext.compact(written)
        return "call", _cut(f"{block.name}({text})")
    source = next((one for name in ("url", "file_id", "title") if (one := getattr(block, name, None))), "")
    if source or hasattr(block, "mime_type"):
        return "media", _cut(f"[{getattr(block, 'mime_type', None) or type(block).__name__}] {source}".rstrip())
    return "data", _cut(repr(block))


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({len(text) - _LONGEST:,} further characters)"


def _is_base64(data: str) -> bool:
    return data.isascii() and not any(character in data for character in "\"'<>& ")


def _fenced(text: str, kind: str) -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{'' if kind == 'text' else kind}\n{text}\n{fence}"


def _plain(text: str) -> str:
    return " ".join(text.replace("<", "‹").split())
