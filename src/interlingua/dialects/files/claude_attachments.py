"""Claude Code's attachments: what the program puts beside prompts and results, as far as the model reads it.

Since version 2.1.270 a line states in `rendered` what was sent, in the program's own sentences. Older lines hold the
values that went into those sentences: the texts here are these values, without the sentences. Kinds that are not
listed are never sent (permissions, notices of hooks for the screen), or hold nothing of what is sent.
"""

import functools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ...values import jsontext
from ...values.messages import Block, DocumentBlock, ImageBlock, TextBlock
from ..residual import put_back, residual, with_residual

API = "claude-code"
_TEXT = "~text"  # of a block: the number of its text in `SENT`, if that is not its place


class _Text(NamedTuple):
    """A text with the values of an attachment in it; one for each item of the list `of`, where that is given."""

    template: str
    of: str = ""


def _each(of: str, template: str = "{}") -> _Text:
    return _Text(template, of)


SENT: Mapping[str, Sequence[_Text]] = {
    "edited_text_file": (_Text("{filename}"), _Text("{snippet}")),
    "selected_lines_in_ide": (_Text("{filename}"), _Text("{content}")),
    "opened_file_in_ide": (_Text("opened: {filename}"),),
    "compact_file_reference": (_Text("read before: {filename}"),),
    "pdf_reference": (_Text("{filename}: {pageCount} pages"),),
    "file": (_Text("{filename}"), _Text("{content.file.content}"), _each("content.file.cells", "{source}")),
    "directory": (_Text("{path}"), _Text("{content}")),
    "nested_memory": (_Text("{content.path}"), _Text("{content.content}")),
    "instructions": (_each("files", "{path}\n\n{content}"), _each("removed", "removed: {}")),
    "relevant_memories": (_each("memories", "{path}\n\n{content}"),),
    "plan_file_reference": (_Text("{planFilePath}"), _Text("{planContent}")),
    "invoked_skills": (_each("skills", "{name}\n{path}\n\n{content}"),),
    "skill_listing": (_Text("{content}"),),
    "skill_discovery": (_each("skills", "- {name}: {description}"),),
    "agent_listing_delta": (_each("addedLines"), _each("removedTypes", "removed: {}")),
    "deferred_tools_delta": (_each("addedLines"), _each("removedNames", "removed: {}")),
    "mcp_instructions_delta": (_each("addedBlocks"), _each("removedNames", "removed: {}")),
    "mcp_resource": (_Text("{server}: {uri}"), _each("content.contents", "{text}")),
    "agent_mention": (_Text("agent: {agentType}"),),
    "teammate_mailbox": (_each("messages", "{from}: {text}"),),
    "todo_reminder": (_each("content", "[{status}] {content}"),),
    "task_reminder": (_each("content", "#{id} [{status}] {subject}"),),
    "task_status": (_Text("task {taskId}: {status}: {description}"), _Text("{deltaSummary}")),
    "diagnostics": (_each("files", "{uri}: {diagnostics}"),),
    "hook_additional_context": (_each("content"),),
    "hook_success": (_Text("{content}"),),
    "hook_stopped_continuation": (_Text("{message}"),),
    "hook_blocking_error": (_Text("{blockingError.command}"), _Text("{blockingError.blockingError}")),
    "async_hook_response": (
        _Text("{response.systemMessage}"),
        _Text("{response.hookSpecificOutput.additionalContext}"),
    ),
    "critical_system_reminder": (_Text("{content}"),),
    "total_tokens_reminder": (_Text("{text}"),),
    "token_usage": (_Text("tokens: {used} of {total}"),),
    "budget_usd": (_Text("budget: ${used} of ${total}"),),
    "date": (_Text("date: {date}"),),
    "date_change": (_Text("date: {newDate}"),),
    "output_style": (_Text("output style: {style}"),),
    "environment": (_Text("environment: {snapshot}"),),
    "session_context": (_Text("context: {context}"),),
    "context_sections": (_each("sections", "{name}\n\n{text}"),),
    "model": (_Text("{text}"),),
    "read_truncation_notice": (_Text("{banner}"),),
}

# A hook's output is sent where the hook runs before the model does.
_HOOKS = ("SessionStart", "UserPromptSubmit")
_PICTURE = ("content", "file", "base64")  # of a file that is a picture or a PDF


def decode(attached: Any) -> tuple[Block, ...]:
    """What the model read of an attachment; nothing if it read nothing, or nothing that the file has."""
    kind = attached.get("type") if isinstance(attached, dict) else None
    texts = SENT.get(kind, ()) if isinstance(kind, str) else ()
    if kind == "hook_success" and attached.get("hookEvent") not in _HOOKS:
        return ()
    blocks: list[Block] = []
    for number, text in enumerate(texts):
        for item in _items(attached, text):
            rendered = _rendered(text.template, item)
            if rendered is None:
                if text.of:
                    return ()  # a list that is not as it should be
                continue
            kept = residual(item, _values(text.template, rendered) or {}) if text.of and isinstance(item, dict) else {}
            if number != _place(len(blocks), texts):
                kept[_TEXT] = number
            block = TextBlock(text=rendered)
            blocks.append(with_residual(block, API, **kept) if kept else block)
    return (*blocks, *_pictures(attached)) if kind == "file" else tuple(blocks)


def encode(kind: str, blocks: Iterable[Block]) -> dict[str, Any] | None:
    """The attachment of that kind with these blocks; None if it has no values that give them."""
    texts = SENT[kind]
    attached: dict[str, Any] = {"type": kind}
    used = set()
    for at, block in enumerate(blocks):
        if isinstance(block, ImageBlock | DocumentBlock) and kind == "file" and _PICTURE not in used:
            _put(attached, _PICTURE, block.data)
            used.add(_PICTURE)
            continue
        if not isinstance(block, TextBlock):
            return None
        kept = dict(block.extra.get(API, {}))
        text = texts[kept.pop(_TEXT, _place(at, texts))]
        values = _values(text.template, block.text)
        if values is None or text in used:
            return None
        if text.of:
            item = values[""] if "" in values else put_back(values, kept)
            *path, last = text.of.split(".")
            _put(attached, (*path, last), [*_at(attached, text.of, []), item])
        else:
            used.add(text)
            for path, value in values.items():
                _put(attached, path.split("."), value)
    return attached


def _place(at: int, texts: Sequence[_Text]) -> int:
    """The text that a block is of by default: one block each, and the rest are of the last."""
    return min(at, len(texts) - 1)


def _items(attached: dict[str, Any], text: _Text) -> list[Any]:
    if not text.of:
        return [attached]
    given = _at(attached, text.of, [])
    return given if isinstance(given, list) else [given]


def _pictures(attached: dict[str, Any]) -> Iterator[Block]:
    data, kind, mime = (_at(attached, path, None) for path in (".".join(_PICTURE), "content.type", "content.file.type"))
    if isinstance(data, str) and data and kind == "image" and isinstance(mime, str):
        yield ImageBlock(data=data, mime_type=mime)
    elif isinstance(data, str) and data and kind == "pdf":
        yield DocumentBlock(data=data, mime_type="application/pdf")


# --- templates --------------------------------------------------------------------------------------------------------

_FIELD = re.compile(r"\{([\w.]*)\}")


def _rendered(template: str, item: Any) -> str | None:
    """The template with the values of an item; None if it lacks one of them."""
    values = {path: _text(item if not path else _at(item, path, None)) for path in _FIELD.findall(template)}
    return None if None in values.values() else _FIELD.sub(lambda field: values[field[1]] or "", template)


def _text(value: Any) -> str | None:
    if isinstance(value, bool) or not (isinstance(value, int | float) or value):
        return None
    return value if isinstance(value, str) else jsontext.compact(value)


def _values(template: str, text: str) -> dict[str, Any] | None:
    """The values by path, of a text that the template gave; None of any other text."""
    found = _pattern(template).fullmatch(text)
    return dict(zip(_FIELD.findall(template), found.groups(), strict=True)) if found else None


@functools.cache
def _pattern(template: str) -> re.Pattern[str]:
    literals = _FIELD.split(template)[::2]
    groups = ["([^\n]+?)"] * (len(literals) - 2) + ["(.+)"]
    parts = [
        re.escape(literals[0]),
        *(f"{group}{re.escape(rest)}" for group, rest in zip(groups, literals[1:], strict=True)),
    ]
    return re.compile("".join(parts), re.DOTALL)


def _at(value: Any, path: str, default: Any) -> Any:
    for key in path.split("."):
        if not isinstance(value, dict) or key not in value:
            return default
        value = value[key]
    return value


def _put(attached: dict[str, Any], path: Sequence[str], value: Any) -> None:
    *outer, last = path
    for key in outer:
        attached = attached.setdefault(key, {})
    attached[last] = value
