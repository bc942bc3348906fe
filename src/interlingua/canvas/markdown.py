"""A conversation as Markdown: the path first, then what each other branch has beside it. Pure.

What a message says is Markdown already, and stays as it is, but for what a viewer would run or fetch: raw HTML is
escaped, pictures of other hosts become links, and addresses that run something lead nowhere.
"""

import re
import time
from typing import Any

from ..values.messages import (
    AgentMessage,
    AssistantMessage,
    Block,
    CustomMessage,
    OpaqueBlock,
    ServerToolCall,
    ServerToolResult,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    blocks_of,
)
from ..values.request import Conversation, Entry
from .views import block_text, raw_of

_CODE = re.compile(r"(?ms)^(`{3,}|~{3,})[^\n]*\n.*?(?:^\1[`~]*[ \t]*$|\Z)|(`+)(?!`).*?(?<!`)\2(?!`)")
_TAG = re.compile(r"<(?=[A-Za-z/!?])")
_PICTURE = re.compile(r"!(?=\[)")
_RUNS = re.compile(
    r"(?i)(\]\(\s*<?|^\s{0,3}\[[^\]\n]{1,200}\]:\s*<?)\s*(?=(?:javascript|vbscript|data):)", re.MULTILINE
)


def markdown_of(title: str, conversation: Conversation) -> str:
    """The whole document."""
    path = conversation.path()
    on_path = {entry.id for entry in path}
    parts = [f"# {_line(title)}"]
    if conversation.system:
        text = conversation.system if isinstance(conversation.system, str) else _texts(conversation.system)
        parts += ["## System", inert(text)]
    parts += [part for entry in path for part in _entry(entry)]
    for leaf in _leaves(conversation):
        branch = _beside(conversation, leaf, on_path)
        on_path |= {entry.id for entry in branch}
        if branch:
            parts += ["---", f"# A branch from {_name(conversation, branch[0].parent_id)}"]
            parts += [part for entry in branch for part in _entry(entry)]
    return "\n\n".join(part.strip("\n") for part in parts if part) + "\n"


def inert(text: str) -> str:
    """Markdown in which nothing runs and nothing is fetched; code stays as it is."""
    pieces, at = [], 0
    for code in _CODE.finditer(text):
        pieces += [_harmless(text[at : code.start()]), code[0]]
        at = code.end()
    return "".join((*pieces, _harmless(text[at:])))


def _harmless(text: str) -> str:
    return _RUNS.sub(r"\1#", _PICTURE.sub(r"\\!", _TAG.sub("&lt;", text)))


def _texts(blocks: Any) -> str:
    return "\n\n".join(block.text for block in blocks_of(blocks) if isinstance(block, TextBlock))


def _leaves(conversation: Conversation) -> list[Entry]:
    parents = {entry.parent_id for entry in conversation.entries}
    return [entry for entry in conversation.entries if entry.id is not None and entry.id not in parents]


def _beside(conversation: Conversation, leaf: Entry, shown: set[str | None]) -> list[Entry]:
    """The end of a branch that was not shown yet."""
    by_id = {entry.id: entry for entry in conversation.entries}
    branch: list[Entry] = []
    at: Entry | None = leaf
    while at is not None and at.id not in shown and len(branch) <= len(by_id):
        branch.append(at)
        at = by_id.get(at.parent_id) if at.parent_id is not None else None
    return branch[::-1]


def _name(conversation: Conversation, id: str | None) -> str:
    if id is None:
        return "the beginning"
    message: Any = next((entry.message for entry in conversation.entries if entry.id == id), None)
    text = _texts(message.content) if message is not None and not isinstance(message, CustomMessage) else ""
    return f"“{_line(text)[:60]}”" if text.strip() else f"`{_line(id)}`"


def _entry(entry: Entry) -> list[str]:
    message: AgentMessage = entry.message
    if isinstance(message, CustomMessage):
        summary = message.fields.get("summary")
        return [f"## {_line(message.role)}", inert(summary)] if isinstance(summary, str) else []
    parts = [_heading(message)]
    if isinstance(message, ToolResultMessage):
        text = _texts(message.content)
        media = [_block(block) for block in blocks_of(message.content) if not isinstance(block, TextBlock)]
        return [*parts, *([_fenced(text)] if text else []), *media]
    parts += [_block(block) for block in blocks_of(message.content)]
    if isinstance(message, AssistantMessage) and message.error_message:
        parts.append(f"**Error:** {inert(_line(message.error_message))}")
    return parts


def _heading(message: Any) -> str:
    at = message.timestamp
    when = time.strftime(" · %Y-%m-%d %H:%M UTC", time.gmtime(at / 1000)) if isinstance(at, int) else ""
    match message:
        case AssistantMessage():
            return f"## Assistant{f' · {_line(message.model)}' if message.model else ''}{when}"
        case ToolResultMessage():
            what = "Failed result" if message.is_error else "Result"
            return f"### {what} of {_line(message.tool_name or 'a tool')}{when}"
        case _:
            return f"## {message.role.capitalize()}{when}"


def _block(block: Block) -> str:
    match block:
        case TextBlock():
            return inert(block.text)
        case ThinkingBlock():
            quoted = inert(block.thinking).replace("\n", "\n> ")
            return f"> *Thinking*\n>\n> {quoted}" if block.thinking else "> *Thinking (not shown)*"
        case ToolCall() | ServerToolCall():
            return f"**Call of {_line(block.name)}**\n\n{_fenced(block_text(block), 'json')}"
        case ServerToolResult() | OpaqueBlock():
            return _fenced(block_text(block), "json")
        case _:
            return _media(block)


def _media(block: Any) -> str:
    name = _line(getattr(block, "title", None) or block.type if hasattr(block, "type") else type(block).__name__)
    size = f", {len(raw_of(block.data)):,} bytes" if isinstance(block.data, str) else ""
    where = f", {_line(block.url)}" if isinstance(block.url, str) else ""
    text = getattr(block, "text", None) or getattr(block, "transcript", None)
    label = f"*[{name}: {block.mime_type or 'unknown type'}{size}{inert(where)}]*"
    return f"{label}\n\n{_fenced(text)}" if text else label


def _fenced(text: str, language: str = "") -> str:
    """A code block whose fence is longer than any in the text."""
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def _line(text: str) -> str:
    return inert(" ".join(str(text).split()))
