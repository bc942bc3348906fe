"""`message`: writes to people over the channels of the tool context.

It offers exactly what these channels support. If the context is bound to one conversation, it writes nowhere else.
Reasoning is never sent, nor are files from outside the root.
"""

import re
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from ..tools.fs import context_bridge
from ..tools.params import read_arguments, schema_of
from ..tools.results import json_result
from ..tools.tool import FsBridge, MissingContext, Tool, ToolContext, ToolResult, as_execute, needed
from ..values.abort import Abort
from ..values.canonical import SELF
from ..values.errors import FormatError, InterlinguaError, ToolAuthorizationError, ToolInputError
from ..values.messages import ReplyPayload
from .channels import Channels, Sink, channels_of
from .replies import without_reasoning

DESCRIPTION = "Writes to a chat channel: sends a message with or without media"
_MAX_TARGETS = 20
_URL = re.compile(r"https?://\S+\Z", re.IGNORECASE)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")

Place: TypeAlias = Annotated[str, Meta(description="A path inside the root, or an http(s) URL. No data: URLs.")]


class MessageArguments(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    action: Literal["send", "reply", "react"] = "send"
    channel: Annotated[str, Meta(description="Which channel; without it, the one at hand.")] | UnsetType = UNSET
    target: Annotated[str, Meta(description="To whom: a chat, room or user of the channel.")] | UnsetType = UNSET
    targets: Annotated[list[str], Meta(description="To several.", max_length=_MAX_TARGETS)] | UnsetType = UNSET
    message: Annotated[str, Meta(description="The text, as Markdown.")] | UnsetType = UNSET
    caption: Annotated[str, Meta(description="The text beside media.")] | UnsetType = UNSET
    media: Place | UnsetType = UNSET
    path: Place | UnsetType = UNSET
    file_path: Place | UnsetType = UNSET
    reply_to: Annotated[str, Meta(description="Id of the message that this answers.")] | UnsetType = UNSET
    message_id: Annotated[str, Meta(description="Id of the message to react to.")] | UnsetType = UNSET
    emoji: Annotated[str, Meta(description="The reaction.", max_length=64)] | UnsetType = UNSET
    remove: Annotated[bool, Meta(description="Take the reaction away.")] = False
    as_voice: Annotated[bool, Meta(description="Send sound as a voice note.")] = False
    silent: Annotated[bool, Meta(description="Without a notification.")] = False
    dry_run: Annotated[bool, Meta(description="Check it, send nothing.")] = False


def message_tool(context: ToolContext) -> Tool:
    needed(context, "channel")
    channels = channels_of(context.channel)
    if context.message_channel is not None and context.message_channel in channels.sinks and channels.bound is None:
        channels.default = context.message_channel
    actions = channels.actions

    @as_execute
    async def execute(params: dict[str, Any], signal: Abort | None) -> ToolResult:
        args = read_arguments("message", params, MessageArguments)
        if args.action not in actions:
            raise ToolInputError(f"message: the channels here cannot {args.action}; they can {', '.join(actions)}")
        try:
            return await _Sending(context, channels, args, signal).run()
        except FormatError as error:
            raise ToolInputError(f"message: {error.message}") from None

    return Tool(
        name="message",
        description=f"{DESCRIPTION}. Channels: {', '.join(channels.sinks) or 'none'}.",
        parameters=_narrowed(schema_of(MessageArguments), actions),
        execute=execute,
        label="message",
        sequential=True,
    )


def _narrowed(schema: dict[str, Any], actions: tuple[str, ...]) -> dict[str, Any]:
    """Returns the schema, restricted to what the channels support."""
    unused = {"messageId", "emoji", "remove"} if "react" not in actions else set()
    unused |= {"replyTo"} if "reply" not in actions else set()
    kept = {name: value for name, value in schema["properties"].items() if name not in unused}
    kept["action"] = {**kept["action"], "enum": [*actions]}
    return {**schema, "properties": kept}


class _Sending:
    """One call: its arguments are validated, then executed for each target."""

    def __init__(self, context: ToolContext, channels: Channels, args: MessageArguments, signal: Abort | None) -> None:
        self._context = context
        self._channels = channels
        self._args = args
        self._signal = signal

    async def run(self) -> ToolResult:
        args = self._args
        places = self._places()
        for sink, _ in places:
            if args.action not in sink.actions:
                raise ToolInputError(f"message: the channel {sink.name} cannot {args.action}")
        if args.action == "react":
            return await self._react(places)
        files = self._files()
        payload = await self._payload(files)
        here = all(self._is_here(sink.name, target) for sink, target in places)
        fields: dict[str, Any] = {"text": payload.text, "here": here} if payload.text else {"here": here}
        if args.dry_run:
            return json_result({"status": "dryRun", **fields, "to": [_named(sink, target) for sink, target in places]})
        sent, failed = [], []
        for sink, target in places:
            try:
                receipt = await sink.send(payload, target=target, files=files, signal=self._signal)
            except InterlinguaError as error:
                if len(places) == 1:
                    raise
                failed.append({"to": _named(sink, target), "error": str(error)})
            else:
                sent.append(msgspec.to_builtins(receipt))
        status = "sent" if not failed else "partial" if sent else "error"
        first = {"messageId": sent[0].get("messageId"), "channel": sent[0]["channel"]} if sent else {}
        return json_result(
            {"status": status, **first, **fields, "receipts": sent} | ({"failed": failed} if failed else {})
        )

    async def _react(self, places: list[tuple[Sink, str | None]]) -> ToolResult:
        args = self._args
        if not args.message_id or not args.emoji:
            raise ToolInputError("message: react needs messageId and emoji")
        if args.dry_run:
            return json_result({"status": "dryRun", "to": [_named(sink, target) for sink, target in places]})
        how: dict[str, Any] = {"remove": args.remove, "signal": self._signal}
        able: list[tuple[Any, str | None]] = [*places]  # a sink with the action `react` has the method
        receipts = [await sink.react(args.message_id, args.emoji, target=target, **how) for sink, target in able]
        return json_result({"status": "sent", "receipts": [*map(msgspec.to_builtins, receipts)]})

    def _places(self) -> list[tuple[Sink, str | None]]:
        args = self._args
        if args.target and args.targets:
            raise ToolInputError("message: give target or targets, not both")
        targets: list[str | None] = [*dict.fromkeys(args.targets)] if args.targets else [args.target or None]
        return [self._channels.place(args.channel or None, target) for target in targets]

    def _is_here(self, channel: str, target: str | None) -> bool:
        """Whether a place is the conversation that the agent replies to anyway."""
        bound = self._channels.bound
        return (channel, target) == bound if bound else channel == self._channels.default and target is None

    def _files(self) -> FsBridge | None:
        try:
            return context_bridge(self._context)
        except MissingContext:
            return None

    async def _payload(self, files: FsBridge | None) -> ReplyPayload:
        args = self._args
        text = without_reasoning(args.message or args.caption or "")
        media = await self._media(files)
        if not text and not media:
            raise ToolInputError("message: nothing to send; give message or media")
        if args.action == "reply" and not args.reply_to:
            raise ToolInputError("message: reply needs replyTo")
        marks = {"audioAsVoice": True} if args.as_voice else {}
        marks |= {"silent": True} if args.silent else {}
        return ReplyPayload(
            text=text or None,
            media_url=media[0] if media else None,
            media_urls=media or None,
            reply_to_id=args.reply_to or None,
            extra={SELF: marks} if marks else {},
        )

    async def _media(self, files: FsBridge | None) -> tuple[str, ...]:
        args = self._args
        given = [place.strip() for place in (args.media, args.path, args.file_path) if place and place.strip()]
        return tuple([await self._checked(place, files) for place in dict.fromkeys(given)])

    async def _checked(self, place: str, files: FsBridge | None) -> str:
        """Returns a place that may be sent: a web URL, or a file that the agent may read."""
        if _URL.match(place):
            return place
        if place.lower().startswith("data:"):
            raise ToolInputError("message: data: URLs are not sent; write the data to a file and give its path")
        if _SCHEME.match(place):
            raise ToolInputError(f"message: {place.partition(':')[0]}: is not sent; give a path or an http(s) URL")
        if files is None:
            raise ToolAuthorizationError("message: no files can be sent from here; give an http(s) URL")
        stat = await files.stat(place)
        if stat is None or not stat.is_file:
            raise ToolInputError(f"message: no file {place[:200]!r}")
        return place


def _named(sink: Sink, target: str | None) -> str:
    return f"{sink.name}:{target}" if target else sink.name
