"""`read`: a file for the model, one page at a time; images as images."""

import asyncio
import base64
from typing import Any

from ...conversion import resizing
from ...values.abort import Abort
from ...values.errors import ToolInputError
from ...values.messages import ImageBlock, TextBlock
from ..fs import context_bridge
from ..params import read_boolean_param, read_number_param
from ..paths import shown
from ..tool import Tool, ToolContext, ToolResult, as_execute, text_result
from ._files import PATH, contents, counted, path_param, stop_if_aborted, with_variant
from ._text import DecodedText, decode_text, line_ending, split_lines

MAX_LINES = 2000
PAGE_BYTES = 32 * 1024
MAX_PAGE_BYTES = 128 * 1024  # if the caller gives a limit
# 5 MB as base64 is the smallest provider limit: Anthropic's (docs.anthropic.com/en/docs/build-with-claude/vision).
MAX_PICTURE_BYTES = 3_750_000
_RESIZED = resizing.ImageLimits(
    side=2000, length=MAX_PICTURE_BYTES // 3 * 4
)  # accepted by all providers, also for many images
_PICTURE_NAMES = (".png", ".jpg", ".jpeg", ".gif", ".webp")

_DESCRIPTION = f"""Read a file. Text comes with line numbers (number, tab, line; they are not part of the file), at most
{MAX_LINES} lines or {PAGE_BYTES // 1024} KB at a time: a notice at the end says which offset continues. PNG, JPEG, GIF
and WebP files come as images. Other binary files are refused."""
_PARAMETERS = {
    "type": "object",
    "properties": {
        "path": PATH,
        "offset": {"type": "integer", "minimum": 0, "description": "First line to read, counted from 1; 0 is 1."},
        "limit": {"type": "integer", "minimum": 1, "description": "How many lines to read."},
        "lineNumbers": {"type": "boolean", "description": "Number the lines (default true)."},
    },
    "required": ["path"],
}


def read_tool(context: ToolContext) -> Tool:
    bridge = context_bridge(context)

    @as_execute
    async def execute(params: dict[str, Any], signal: Abort | None) -> ToolResult:
        path = path_param(params)
        offset = _at_least(params, "offset", 0) or 1  # the example in the clawtools specification starts at 0
        limit = _at_least(params, "limit", 1)
        numbered = read_boolean_param(params, "lineNumbers", True)
        stop_if_aborted(signal)
        data = await contents(bridge, path)
        stop_if_aborted(signal)
        picture = resizing.look(base64.b64encode(data[: 64 * 1024]).decode())
        if picture is not None:
            return await with_variant(bridge, path, await asyncio.to_thread(_picture, path, data, picture))
        if path.lower().endswith(_PICTURE_NAMES):
            raise ToolInputError(f"{shown(path)}: named as an image, but not an image ({len(data):,} bytes)")
        page = await asyncio.to_thread(_page, path, data, offset, limit, numbered)
        return await with_variant(bridge, path, page)

    return Tool(
        name="read",
        label="Read",
        description=_DESCRIPTION.replace("\n", " "),
        parameters=_PARAMETERS,
        execute=execute,
    )


def _at_least(params: dict[str, Any], key: str, least: int) -> int | None:
    number = read_number_param(params, key, integer=True)
    if number is not None and number < least:
        raise ToolInputError(f"{key} must be {least} or more")
    return number


def _picture(path: str, data: bytes, picture: resizing.Picture) -> ToolResult:
    size = f", {picture.width}×{picture.height}" if picture.width else ""
    header = f"Image {shown(path)} [{picture.mime_type}{size}, {len(data):,} bytes]"
    details: dict[str, Any] = {
        "path": path,
        "mimeType": picture.mime_type,
        "bytes": len(data),
        "width": picture.width,
        "height": picture.height,
    }
    encoded = base64.b64encode(data).decode()
    block = ImageBlock(data=encoded, mime_type=picture.mime_type)
    if len(data) > MAX_PICTURE_BYTES:
        smaller = resizing.resized(encoded, _RESIZED)
        if smaller is None:
            remedy = "" if resizing.is_available() else f", or {resizing.INSTALL}"
            raise ToolInputError(
                f"{shown(path)}: {picture.mime_type} of {len(data):,} bytes, more than the {MAX_PICTURE_BYTES:,} "
                f"that can be shown; make it smaller first{remedy}"
            )
        block = ImageBlock(data=smaller.data, mime_type=smaller.mime_type)
        header += f", shown as {smaller.mime_type} of {smaller.width}×{smaller.height}"
        details["shown"] = {"mimeType": smaller.mime_type, "width": smaller.width, "height": smaller.height}
    return ToolResult(content=(TextBlock(text=header), block), details=details)


def _page(path: str, data: bytes, offset: int, limit: int | None, numbered: bool) -> ToolResult:
    decoded = decode_text(data, path)
    lines = split_lines(decoded.text)
    if offset > max(1, len(lines)):
        raise ToolInputError(
            f"{shown(path)}: offset {offset} is past the end, the file has {counted(len(lines), 'line')}"
        )
    max_bytes = PAGE_BYTES if limit is None else MAX_PAGE_BYTES
    chosen = lines[offset - 1 : offset - 1 + (limit or MAX_LINES)]
    page, size, cut = list[str](), 0, False
    for number, line in enumerate(chosen, offset):
        given = f"{number:>6}\t{line}" if numbered else line
        length = len(given.encode()) + 1
        if size + length > max_bytes:
            cut = True
            if not page:  # a single line is too long
                page.append(given.encode()[:max_bytes].decode(errors="ignore"))
                size = max_bytes
            break
        page.append(given)
        size += length
    end = offset + len(page)  # the next line
    notices = _notices(decoded, lines, page, offset, end, cut)
    truncation = {
        "truncated": cut or end <= len(lines),
        "truncatedBy": "bytes" if cut else "lines" if end <= len(lines) else None,
        "totalLines": len(lines),
        "totalBytes": len(data),
        "firstLine": offset,
        "outputLines": len(page),
        "outputBytes": size,
        "nextOffset": end if end <= len(lines) else None,
    }
    ending = "crlf" if line_ending(decoded.text) == "\r\n" else "lf"
    details = {"path": path, "encoding": decoded.encoding, "lineEnding": ending, "truncation": truncation}
    return text_result("\n".join([*(page or ["(empty file)"]), *notices]), details)


def _notices(decoded: DecodedText, lines: list[str], page: list[str], offset: int, end: int, cut: bool) -> list[str]:
    notices = []
    first_size = len(lines[offset - 1].encode()) if lines else 0
    if cut and len(page) == 1 and first_size > len(page[0].encode()):
        notices.append(
            f"[Line {offset} is {first_size:,} bytes long and was cut; its rest cannot be read with offset.]"
        )
    if end <= len(lines):
        why = "The output is full. " if cut else ""
        notices.append(f"[{why}Lines {offset}–{end - 1} of {len(lines)}. Use offset={end} to continue.]")
    if decoded.encoding not in ("utf-8", "latin-1"):
        notices.append(f"[Encoding: {decoded.encoding}.]")
    elif decoded.encoding == "latin-1":
        notices.append("[Not valid UTF-8: shown as latin-1.]")
    return ["", *notices] if notices else []
