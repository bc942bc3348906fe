"""`canvas`: shows, controls and captures a canvas beside the conversation.

The tool knows no window: each action is one command to `context.canvas`, which may be a canvas in the browser
(`interlingua.canvas.opened`), a device, or an application's own. The names are those of clawtools.
"""

import base64
import binascii
import uuid
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Protocol, TypeAlias, runtime_checkable

from msgspec import UNSET, Meta, Struct, UnsetType, structs

from ...values.abort import Abort
from ...values.errors import ToolInputError
from ..fs import context_bridge
from ..params import read_arguments, schema_of
from ..tool import (
    MissingContext,
    Tool,
    ToolContext,
    ToolResult,
    as_execute,
    image_result,
    json_result,
    needed,
    text_result,
)
from ._files import contents

DESCRIPTION = (
    "Controls a canvas that the user sees: present (a URL or session), hide, navigate, eval (JavaScript on its page), "
    "snapshot (a picture of it), a2ui_push (interface as JSON lines) and a2ui_reset."
)

Action: TypeAlias = Literal["present", "hide", "navigate", "eval", "snapshot", "a2ui_push", "a2ui_reset"]
COMMANDS: dict[str, str] = {
    "present": "canvas.present",
    "hide": "canvas.hide",
    "navigate": "canvas.navigate",
    "eval": "canvas.eval",
    "snapshot": "canvas.snapshot",
    "a2ui_push": "canvas.a2ui.pushJSONL",
    "a2ui_reset": "canvas.a2ui.reset",
}
_TYPES = {"png": "image/png", "jpg": "image/jpeg", "jpeg": "image/jpeg"}
_MAX_JSONL = 4 << 20
Text: TypeAlias = Annotated[str, Meta(min_length=1)]
Length: TypeAlias = Annotated[float, Meta(ge=0, le=100_000)]


@runtime_checkable
class CanvasNode(Protocol):
    """Shows a canvas. `invoke` returns a command's result, and raises for an unsupported one.

    Results: for `canvas.eval` {"result": text}; for `canvas.snapshot` {"format", "base64"}; for others anything.
    `idempotency_key` is new for each call, so that a command that is sent twice is executed once.
    """

    async def invoke(
        self, command: str, params: dict[str, Any], *, node: str | None = None, idempotency_key: str = ""
    ) -> Any: ...


class CanvasArguments(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    action: Action
    node: Annotated[str, Meta(description="The canvas, if there are several.")] | UnsetType = UNSET
    gateway_url: str | UnsetType = UNSET
    gateway_token: str | UnsetType = UNSET
    timeout_ms: Length | UnsetType = UNSET
    target: Annotated[str, Meta(description="present, navigate: a URL, or a session.")] | UnsetType = UNSET
    url: Annotated[str, Meta(description="As target.")] | UnsetType = UNSET
    x: float | UnsetType = UNSET
    y: float | UnsetType = UNSET
    width: Length | UnsetType = UNSET
    height: Length | UnsetType = UNSET
    java_script: Annotated[str, Meta(description="eval: what to run.")] | UnsetType = UNSET
    output_format: Annotated[Literal["png", "jpg", "jpeg"], Meta(description="snapshot.")] = "png"
    max_width: Length | UnsetType = UNSET
    quality: Annotated[float, Meta(ge=0, le=1)] | UnsetType = UNSET
    delay_ms: Annotated[float, Meta(ge=0, le=60_000)] | UnsetType = UNSET
    jsonl: Annotated[str, Meta(description="a2ui_push: the lines.")] | UnsetType = UNSET
    jsonl_path: Annotated[str, Meta(description="a2ui_push: a file with the lines.")] | UnsetType = UNSET


def canvas_tool(context: ToolContext) -> Tool:
    """Returns the tool, for a context whose `canvas` is a `CanvasNode`."""
    needed(context, "canvas")
    node: CanvasNode = context.canvas

    @as_execute
    async def execute(params: dict[str, Any], signal: Abort | None) -> ToolResult:
        args = read_arguments("canvas", params, CanvasArguments)
        given = await _params(context, args)
        key = str(uuid.uuid4())
        found = await node.invoke(COMMANDS[args.action], given, node=args.node or None, idempotency_key=key)
        return _result(args, found)

    return Tool(
        name="canvas",
        label="Canvas",
        description=DESCRIPTION,
        parameters=schema_of(CanvasArguments),
        execute=execute,
        sequential=True,  # a snapshot must follow what was shown before it
    )


async def _params(context: ToolContext, args: CanvasArguments) -> dict[str, Any]:
    """Returns the parameters of the command; raises ToolInputError if one is missing."""
    match args.action:
        case "present":
            place = {"x": args.x, "y": args.y, "width": args.width, "height": args.height}
            target = {"url": args.target or args.url or UNSET}
            placement = {name: value for name, value in place.items() if value is not UNSET}
            return _known(target) | ({"placement": placement} if placement else {})
        case "navigate":
            url = args.url or args.target
            if not url:
                raise ToolInputError("canvas: navigate needs a url")
            return {"url": url}
        case "eval":
            if not args.java_script:
                raise ToolInputError("canvas: eval needs javaScript")
            return {"javaScript": args.java_script}
        case "snapshot":
            how = {"maxWidth": args.max_width, "quality": args.quality, "delayMs": args.delay_ms}
            return {"format": "jpeg" if args.output_format != "png" else "png", **_known(how)}
        case "a2ui_push":
            return {"jsonl": await _jsonl(context, args)}
        case _:
            return {}


def _known(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not UNSET}


async def _jsonl(context: ToolContext, args: CanvasArguments) -> str:
    if args.jsonl:
        text = args.jsonl
    elif args.jsonl_path:
        try:  # the bridge stays in its root, through links too
            bridge = context_bridge(structs.replace(context, root=context.root or context.workspace_dir))
        except MissingContext:
            raise ToolInputError("canvas: no files can be read here; give jsonl") from None
        text = (await contents(bridge, args.jsonl_path)).decode("utf-8", "replace")
    else:
        raise ToolInputError("canvas: a2ui_push needs jsonl or jsonlPath")
    if len(text.encode("utf-8", "replace")) > _MAX_JSONL:
        raise ToolInputError(f"canvas: more than {_MAX_JSONL:,} bytes of JSON lines; push less at once")
    return text


def _result(args: CanvasArguments, found: Any) -> ToolResult:
    if args.action == "eval":
        value = found.get("result") if isinstance(found, Mapping) else found
        return text_result(value, {"result": value}) if isinstance(value, str) else json_result({"result": value})
    if args.action == "snapshot":
        data = found.get("base64") if isinstance(found, Mapping) else None
        if not isinstance(data, str) or not _is_base64(data):
            raise ToolInputError("canvas: the canvas gave no picture; present something first")
        kind = _TYPES.get(str(found.get("format", args.output_format)), "image/png")
        return image_result(label="canvas", base64=data, mime_type=kind, details={"format": kind})
    return json_result({"ok": True})


def _is_base64(data: str) -> bool:
    try:
        return bool(base64.b64decode(data, validate=True))
    except (binascii.Error, ValueError):
        return False
