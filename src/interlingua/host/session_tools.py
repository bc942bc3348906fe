"""The tools of the host: `sessions_*`, `session_status` and `subagents` for its sessions, `message` for its channels.

The tools parse arguments and format results; the host behind `ToolContext.sessions` decides who may see and do what
(see `interlingua.host.host`). A denied action or a missing session is a result with `status` and `error`, not a tool
failure.
"""

import base64
import binascii
import re
import time
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, to_builtins

from ..tools.fs import context_bridge
from ..tools.params import read_arguments, schema_of
from ..tools.tool import (
    FsBridge,
    MissingContext,
    Tool,
    ToolContext,
    ToolResult,
    ToolRun,
    as_execute,
    json_result,
    needed,
    text_result,
)
from ..values.abort import Abort
from ..values.canonical import SELF
from ..values.errors import FormatError, InterlinguaError, ToolAuthorizationError, ToolInputError
from ..values.messages import ReplyPayload
from .channels import Channels, Sink, channels_of
from .replies import without_reasoning

_MAX_ATTACHMENTS = 50
_KINDS = ("main", "group", "cron", "hook", "node", "other")
_DELIVERY = ("target", "transport", "channel", "to", "threadId", "thread_id", "replyTo", "reply_to")

Key: TypeAlias = Annotated[str, Meta(description="Key or id of the session.", min_length=1)]
Count: TypeAlias = Annotated[int, Meta(ge=1)]


def _tool(context: ToolContext, name: str, description: str, arguments: type[Struct], run: ToolRun) -> Tool:
    needed(context, "sessions", "session_key")

    @as_execute
    async def execute(params: dict[str, Any], signal: Abort | None) -> ToolResult:
        try:
            return await run(params, signal)
        except ToolAuthorizationError as error:
            return _refused("forbidden", error)
        except ToolInputError:
            raise
        except InterlinguaError as error:
            return _refused("error", error)

    return Tool(name=name, description=description, parameters=schema_of(arguments), execute=execute, label=name)


def _refused(status: str, error: Exception) -> ToolResult:
    return json_result({"status": status, "error": str(error)})


# --- sessions_list ---------------------------------------------------------------------------------------------------


class ListArguments(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    kinds: Annotated[list[str], Meta(description=f"Only these kinds: {', '.join(_KINDS)}.")] = []
    limit: Annotated[int, Meta(description="Maximum number of sessions.", ge=1, le=500)] = 50
    active_minutes: Annotated[float, Meta(description="Only those changed so lately.", ge=1)] | UnsetType = UNSET
    message_limit: Annotated[int, Meta(description="Number of latest messages to include for each.", ge=0, le=20)] = 0
    label: Annotated[str, Meta(description="Only the session with this label.")] | UnsetType = UNSET
    agent_id: Annotated[str, Meta(description="Only sessions of this agent.")] | UnsetType = UNSET
    search: Annotated[str, Meta(description="Only those whose key or title contains this text.")] | UnsetType = UNSET


def sessions_list_tool(context: ToolContext) -> Tool:
    async def run(params: dict[str, Any], signal: Abort | None) -> ToolResult:
        args = read_arguments("sessions_list", params, ListArguments)
        kinds = [kind for kind in args.kinds if kind in _KINDS]
        if args.kinds and not kinds:
            raise ToolInputError(f"sessions_list: unknown kind; valid kinds: {', '.join(_KINDS)}")
        rows = context.sessions.list(
            context.sessions.caller(context),
            kinds=kinds,
            limit=args.limit,
            active_minutes=args.active_minutes or None,
            message_limit=args.message_limit,
            label=args.label or None,
            agent=args.agent_id or None,
            search=args.search or None,
        )
        return json_result({"count": len(rows), "sessions": rows})

    text = "Lists the sessions that this one can see: its own and those of its sub-agents, the latest first."
    return _tool(context, "sessions_list", text, ListArguments, run)


# --- sessions_history ------------------------------------------------------------------------------------------------


class HistoryArguments(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    session_key: Key
    limit: Annotated[int, Meta(description="Maximum number of messages.", ge=1, le=1000)] = 50
    offset: Annotated[int, Meta(description="Number of latest messages to skip.", ge=0)] = 0
    include_tools: Annotated[bool, Meta(description="With calls of tools and their results.")] = False


def sessions_history_tool(context: ToolContext) -> Tool:
    async def run(params: dict[str, Any], signal: Abort | None) -> ToolResult:
        args = read_arguments("sessions_history", params, HistoryArguments)
        return json_result(
            context.sessions.history(
                args.session_key,
                by=context.sessions.caller(context),
                limit=args.limit,
                offset=args.offset,
                include_tools=args.include_tools,
            )
        )

    text = "Reads the latest messages of another session. Long texts are cut, media and signatures are left out."
    return _tool(context, "sessions_history", text, HistoryArguments, run)


# --- sessions_send ---------------------------------------------------------------------------------------------------


class SendArguments(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    message: Annotated[str, Meta(description="What to say.", min_length=1)]
    session_key: Key | UnsetType = UNSET
    label: Annotated[str, Meta(description="Label of the session, instead of its key.")] | UnsetType = UNSET
    agent_id: Annotated[str, Meta(description="Whose session has the label.")] | UnsetType = UNSET
    timeout_seconds: Annotated[
        float, Meta(description="How long to wait for the answer; 0 does not wait.", ge=0, le=3600)
    ] = 30.0


def sessions_send_tool(context: ToolContext) -> Tool:
    async def run(params: dict[str, Any], signal: Abort | None) -> ToolResult:
        args = read_arguments("sessions_send", params, SendArguments)
        if bool(args.session_key) == bool(args.label):
            raise ToolInputError("sessions_send: give sessionKey or label, one of them")
        by = context.sessions.caller(context)
        key = args.session_key or context.sessions.labelled(args.label, by, agent=args.agent_id or None)
        return json_result(await context.sessions.send(key, args.message, by=by, seconds=args.timeout_seconds))

    text = "Sends a message to another session and waits for its answer. After the timeout the run continues there."
    return _tool(context, "sessions_send", text, SendArguments, run)


# --- sessions_spawn --------------------------------------------------------------------------------------------------


class AttachedFile(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    name: str
    content: str
    encoding: Literal["utf8", "base64"] = "utf8"
    mime_type: str | UnsetType = UNSET


class AttachAs(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    mount_path: str | UnsetType = UNSET


class SpawnArguments(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    task: Annotated[str, Meta(description="What the sub-agent is to do, with all it must know.", min_length=1)]
    label: Annotated[str, Meta(description="A short name for it.", max_length=200)] | UnsetType = UNSET
    runtime: Literal["subagent", "acp"] = "subagent"
    agent_id: Annotated[str, Meta(description="Which agent is to do it.")] | UnsetType = UNSET
    model: Annotated[str, Meta(description="The model it uses, as provider/model.")] | UnsetType = UNSET
    thinking: Annotated[str, Meta(description="How much it thinks: off, low, medium, high.")] | UnsetType = UNSET
    cwd: Annotated[str, Meta(description="The directory it works in.")] | UnsetType = UNSET
    run_timeout_seconds: Annotated[float, Meta(description="When it is stopped; 0 is never.", ge=0)] | UnsetType = UNSET
    timeout_seconds: Annotated[float, Meta(description="The same.", ge=0)] | UnsetType = UNSET
    thread: Annotated[bool, Meta(description="Keep its session for more than one task.")] = False
    mode: Annotated[Literal["run", "session"], Meta(description="session needs thread.")] | UnsetType = UNSET
    cleanup: Annotated[Literal["keep", "delete"], Meta(description="What becomes of its session.")] = "keep"
    sandbox: Literal["inherit", "require"] = "inherit"
    stream_to: Annotated[Literal["parent"], Meta(description="Only for runtime acp.")] | UnsetType = UNSET
    context: Annotated[Literal["isolated", "fork"], Meta(description="fork: it gets the conversation so far.")] = (
        "isolated"
    )
    attachments: Annotated[list[AttachedFile], Meta(description="Files it is given.", max_length=_MAX_ATTACHMENTS)] = []
    attach_as: AttachAs | UnsetType = UNSET


def sessions_spawn_tool(context: ToolContext) -> Tool:
    async def run(params: dict[str, Any], signal: Abort | None) -> ToolResult:
        for key in _DELIVERY:
            if key in params:
                raise ToolInputError(f"sessions_spawn takes no {key}: the sub-agent reports to this session")
        args = read_arguments("sessions_spawn", params, SpawnArguments)
        begun = await context.sessions.spawn(
            args.task, **_task_options(args), by=context.sessions.caller(context), signal=signal
        )
        fields = {
            "status": "accepted",
            "childSessionKey": begun.key,
            "runId": begun.id,
            "mode": begun.task.mode,
            "note": "It works on its own and reports here when it is done; do not wait for it by asking again.",
        }
        return json_result(fields)

    text = (
        "Starts a sub-agent that works on a task independently, with the same tools, and returns at once. "
        "Its result comes later as a message in this session."
    )
    tool = _tool(context, "sessions_spawn", text, SpawnArguments, run)
    tool.parameters["properties"]["attachments"]["items"] = schema_of(AttachedFile)
    tool.parameters["properties"]["attachAs"] = schema_of(AttachAs)
    return tool


def _task_options(args: SpawnArguments) -> dict[str, Any]:
    """Returns the options of the task for the host."""
    if args.runtime == "acp":
        raise InterlinguaError("the runtime acp is not available; leave out runtime")
    if args.stream_to is not UNSET:
        raise ToolInputError("sessions_spawn: streamTo needs the runtime acp")
    mode = args.mode or ("session" if args.thread else "run")
    if mode == "session" and not args.thread:
        raise ToolInputError("sessions_spawn: mode session needs thread")
    seconds = args.timeout_seconds if args.run_timeout_seconds is UNSET else args.run_timeout_seconds
    mount = args.attach_as.mount_path if isinstance(args.attach_as, AttachAs) else None
    return {
        "label": args.label or None,
        "agent_id": args.agent_id or None,
        "model": args.model or None,
        "thinking": args.thinking or None,
        "cwd": args.cwd or None,
        "seconds": None if isinstance(seconds, UnsetType) else seconds,
        "mode": mode,
        "cleanup": args.cleanup,
        "sandbox": args.sandbox,
        "context": args.context,
        "attachments": _attachments(args.attachments),
        "mount": mount or None,
    }


def _attachments(files: list[AttachedFile]) -> tuple[tuple[str, bytes], ...]:
    names = [file.name for file in files]
    for name in names:
        if not name.strip(". ") or "/" in name or "\\" in name or "\0" in name or names.count(name) > 1:
            raise ToolInputError(f"sessions_spawn: {name[:100]!r} is not a file name; give each attachment one")
    return tuple((file.name, _data(file)) for file in files)


def _data(file: AttachedFile) -> bytes:
    if file.encoding == "utf8":
        return file.content.encode("utf-8", "replace")
    try:
        return base64.b64decode(file.content, validate=True)
    except (binascii.Error, ValueError):
        raise ToolInputError(f"sessions_spawn: the content of {file.name[:100]!r} is not base64") from None


# --- subagents -------------------------------------------------------------------------------------------------------


class SubagentsArguments(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    action: Literal["list", "wait", "cancel", "kill", "steer"] = "list"
    run_id: Annotated[str, Meta(description="The run that is meant.")] | UnsetType = UNSET
    run_ids: Annotated[list[str], Meta(description="Several.", min_length=1, max_length=32)] | UnsetType = UNSET
    target: (
        Annotated[str, Meta(description="Instead of runId: its number in the list, label, session key, or all.")]
        | UnsetType
    ) = UNSET
    message: Annotated[str, Meta(description="The message for steer.")] | UnsetType = UNSET
    timeout_seconds: Annotated[float, Meta(description="How long to wait.", ge=0, le=60)] = 30.0
    recent_minutes: Annotated[float, Meta(description="How long ago one may have ended.", ge=1)] = 60.0


def subagents_tool(context: ToolContext) -> Tool:
    async def run(params: dict[str, Any], signal: Abort | None) -> ToolResult:
        args = read_arguments("subagents", params, SubagentsArguments)
        by = context.sessions.caller(context)
        runs = context.sessions.descendants(by, recent_seconds=args.recent_minutes * 60)
        if args.action == "list":
            return _listed(runs)
        chosen = _chosen(args, runs)
        if args.action == "wait":
            return await _waited(chosen, args.timeout_seconds, signal)
        if args.action == "steer":
            return _steered(context.sessions, chosen, args, by)
        stopped = [run for run in chosen if run.active]
        for one in stopped:
            one.kill("cancelled by the session that began it")
        for one in stopped:
            await one.wait(5.0)
        return json_result({"status": "ok", "cancelled": [one.id for one in stopped], "runs": [*map(_given, chosen)]})

    text = (
        "Lists the sub-agents of this session, waits for them, cancels them, or sends a message to a running one. "
        "Waiting never stops a run."
    )
    return _tool(context, "subagents", text, SubagentsArguments, run)


def _listed(runs: list[Any]) -> ToolResult:
    rows = [{"index": at, **_given(run)} for at, run in enumerate(runs, 1)]
    lines = [f"{row['index']}. {row['label'] or row['runId']}: {row['status']}" for row in rows]
    details = {
        "status": "ok",
        "active": [row for row in rows if row["status"] in ("queued", "running")],
        "recent": [row for row in rows if row["status"] not in ("queued", "running")],
        "text": "\n".join(lines) or "no sub-agents",
    }
    return json_result(details)


def _chosen(args: SubagentsArguments, runs: list[Any]) -> list[Any]:
    names = [
        *(args.run_ids or []),
        *([args.run_id] if args.run_id else []),
        *([args.target] if args.target else []),
    ]
    if not names:
        raise ToolInputError(f"subagents: {args.action} needs runId, runIds or target")
    found: dict[str, Any] = {}
    for name in names:
        matches = runs if name == "all" else [run for at, run in enumerate(runs, 1) if _is_called(run, at, name)]
        if not matches and name != "all":
            raise InterlinguaError(f"no sub-agent {name[:100]!r} of this session")
        found.update((run.id, run) for run in matches)
    return [*found.values()]


def _is_called(run: Any, at: int, name: str) -> bool:
    return name in (run.id, run.key, run.task.label, str(at))


async def _waited(runs: list[Any], seconds: float, signal: Abort | None) -> ToolResult:
    """Waits for all of them up to the timeout; the agent's abort ends the wait, not the runs."""
    until = time.monotonic() + seconds
    for run in runs:
        while run.active and time.monotonic() < until and not (signal is not None and signal.aborted):
            await run.wait(min(0.25, max(until - time.monotonic(), 0)))
    left = [run for run in runs if run.active]
    return json_result({"status": "timeout" if left else "ok", "runs": [*map(_given, runs)]})


def _steered(host: Any, runs: list[Any], args: SubagentsArguments, by: Any) -> ToolResult:
    if not args.message or not args.message.strip():
        raise ToolInputError("subagents: steer needs message")
    for run in runs:
        host.steer(run, args.message, by=by)
    return json_result({"status": "ok", "steered": [run.id for run in runs]})


def _given(run: Any) -> dict[str, Any]:
    """Returns a run as a list row; the result is included once it has ended."""
    seconds = (run.ended or time.time()) - (run.started or run.created)
    return {
        "runId": run.id,
        "sessionKey": run.key,
        "label": run.task.label,
        "task": run.task.text[:200],
        "status": run.status,
        "seconds": round(seconds, 1),
        "usage": to_builtins(run.spent),
        **({"result": run.text[:4000]} if run.text and not run.active else {}),
        **({"error": run.error} if run.error else {}),
    }


# --- session_status --------------------------------------------------------------------------------------------------


class StatusArguments(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    session_key: (
        Annotated[str, Meta(description="Key or id of the session, or current. Without it, this one.")] | UnsetType
    ) = UNSET
    model: (
        Annotated[str, Meta(description="Use this model from the next answer on; default takes that back.")] | UnsetType
    ) = UNSET


def session_status_tool(context: ToolContext) -> Tool:
    async def run(params: dict[str, Any], signal: Abort | None) -> ToolResult:
        args = read_arguments("session_status", params, StatusArguments)
        by = context.sessions.caller(context)
        key = args.session_key or "current"
        if args.model:
            context.sessions.set_model(key, args.model, by=by)
        given = context.sessions.status(key, by=by)
        return text_result(_card(given), details=given)

    text = "Shows the status of a session: model, tokens, cost, running and queued work. Can switch its model."
    return _tool(context, "session_status", text, StatusArguments, run)


def _card(fields: Mapping[str, Any]) -> str:
    used = [
        f"{fields[name]:,} {what}"
        for name, what in (("contextTokens", "in context"), ("totalTokens", "in all"))
        if name in fields
    ]
    lines = [
        f"Session: {fields['sessionKey']}",
        f"State: {fields['status']}, {fields['queued']} waiting, {fields['subagents']} sub-agents at work",
        f"Model: {fields['model']}{' (chosen for this session)' if fields['modelOverride'] else ''}",
        f"Tokens: {', '.join(used) or 'unknown'}",
        f"Cost: ${fields['cost']:.4f}" if "cost" in fields else "Cost: unknown",
        f"Time: {time.strftime('%Y-%m-%d %H:%M UTC', time.gmtime(fields['time'] / 1000))}",
    ]
    return "\n".join(lines)


# --- message ----------------------------------------------------------------------------------------------------------
# It offers exactly what the channels of the context support. If the context is bound to one conversation, it writes
# nowhere else. Reasoning is never sent, nor are files from outside the root.

MESSAGE_DESCRIPTION = "Writes to a chat channel: sends a message with or without media"
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
        description=f"{MESSAGE_DESCRIPTION}. Channels: {', '.join(channels.sinks) or 'none'}.",
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
