"""`write`: a whole file, new or replaced in one step."""

from typing import Any

from ...values.abort import Abort
from ...values.errors import ToolInputError
from ..fs import context_bridge
from ..paths import shown
from ..tool import Tool, ToolContext, ToolResult, as_execute, text_result
from ._files import PATH, exact_state, path_param, stop_if_aborted, store

_PARAMETERS = {
    "type": "object",
    "properties": {"path": PATH, "content": {"type": "string", "description": "The whole new content of the file."}},
    "required": ["path", "content"],
}


def write_tool(context: ToolContext) -> Tool:
    bridge = context_bridge(context)

    @as_execute
    async def execute(params: dict[str, Any], signal: Abort | None) -> ToolResult:
        path = path_param(params)
        content = _content(params)
        try:
            data = content.encode()
        except UnicodeEncodeError as error:
            raise ToolInputError(f"unpaired surrogate in content (at {error.start:,}); send valid Unicode") from None
        stop_if_aborted(signal)
        old = await exact_state(bridge, path)
        if old is not None and old.is_directory:
            raise ToolInputError(f"{shown(path)}: is a directory")
        await store(bridge, path, data)
        verb = "Created" if old is None else "Replaced"
        details = {
            "path": path,
            "created": old is None,
            "oldBytes": old.size if old else 0,
            "newBytes": len(data),
            "newLines": content.count("\n") + (not content.endswith("\n") and content != ""),
        }
        return text_result(f"{verb} {shown(path)} ({len(data):,} bytes).", details)

    return Tool(
        name="write",
        label="Write",
        description="Write a file: creates it, with its directories, or replaces all of its content.",
        parameters=_PARAMETERS,
        execute=execute,
        sequential=True,
    )


def _content(params: dict[str, Any]) -> str:
    """The text to write; some models send it as text blocks."""
    content = params.get("content")
    if isinstance(content, str):
        return content
    if isinstance(content, list) and all(isinstance(b, dict) and isinstance(b.get("text"), str) for b in content):
        return "".join(block["text"] for block in content)
    raise ToolInputError("content required; give the whole text of the file, then try again")
