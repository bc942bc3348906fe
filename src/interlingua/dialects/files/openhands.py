"""OpenHands' trajectories: a list of events, each an action or an observation, from the user, agent or environment.

`tool_call_metadata` of an event has the answer of the model as the provider gave it, with the ids and names of its
calls; several actions may come from one answer. An observation belongs to the call that its metadata names, else to
the action in `cause`. Condensations are events like others here; what they forgot stays on the path. Changes of state
are no messages.

For models that are not given tools, ids are the numbers of the calls among the messages that were sent (`toolu_24`):
after a condensation, or a `finish`, another call of another answer has the same id. A call is therefore known by its
answer and its id together, and a trajectory has more calls than ids. No observation answers a `finish`.
openhands/llm/fn_call_converter.py

The newer SDK writes events with a `kind` (`MessageEvent`, `ActionEvent`, `ObservationEvent`, …), of the same meaning.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec.structs import replace

from ...values.errors import BadWire
from ...values.messages import (
    AssistantMessage,
    Block,
    Content,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    Usage,
    blocks_of,
)
from ...values.request import Conversation
from ..residual import body_of, fields_of, optional, reading
from ..wire import ListedSession, SessionStream
from .line_sessions import ReadAgain, Record, RowReader, TemplateStream, read
from .program_content import (
    a_call,
    a_result,
    call_of,
    content_of,
    first,
    image_of,
    inclusive_usage,
    inner,
    items,
    moment,
    openai_tools,
    thinking_of,
    user,
)
from .templates import file_format, keep

API = "openhands"

# Actions of the agent that run nothing: they manage the session.
_NO_CALLS = frozenset(
    ("system", "recall", "condensation", "condensation_request", "change_agent_state", "null", "start")
)


_KEYS = ("history", "trajectory", "events")


def _events(document: Any) -> list[dict[str, Any]] | None:
    """The events of a trajectory, of an evaluation's row, or of one that has them in pairs."""
    found = first(document, *_KEYS) if isinstance(document, dict) else document
    if not isinstance(found, list):
        return None
    flat = [event for item in found for event in (item if isinstance(item, list) else [item])]
    return items(flat)


class _Trajectory:
    """The messages of the events so far. The last of the messages may still get calls of the same answer."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.system: str | None = None
        self.tools: Any = None
        self.usage: Usage | None = None
        self.model: str | None = None
        self._ids: dict[tuple[str, str], str] = {}  # (answer, call) -> our id
        self._names: dict[str, str] = {}  # our id -> tool
        self._answers: set[str] = set()
        self._actions: dict[Any, str] = {}  # event -> our id of its call
        self._taken: dict[str, int] = {}

    def feed(self, event: dict[str, Any]) -> None:
        when = moment(event.get("timestamp"))
        if isinstance(event.get("kind"), str):
            self._newer(event, when)
        elif optional(event.get("observation")) is not None:
            self._observation(event, when)
        elif optional(event.get("action")) is not None:
            self._action(event, when)

    def _own_id(self, answer: str, call: str) -> str:
        """An id of the call that no other call has."""
        if (answer, call) not in self._ids:
            self._taken[call] = self._taken.get(call, 0) + 1
            self._ids[answer, call] = call if self._taken[call] == 1 else f"{call}_{self._taken[call]}"
        return self._ids[answer, call]

    # --- actions ---

    def _action(self, event: dict[str, Any], when: int | None) -> None:
        args, action = fields_of(event.get("args")), event["action"]
        total = inner(event, "llm_metrics", "accumulated_token_usage")
        if event.get("source") == "agent" and total is not None:
            self.usage = _accumulated(total) or self.usage
        if action == "system":
            self.system = optional(args.get("content")) or self.system
            self.tools = args.get("tools")
        elif event.get("source") == "user":
            if action == "message":
                self.messages.append(user(_with_pictures(args.get("content"), args.get("image_urls")), when))
        elif event.get("source") == "agent" and action not in _NO_CALLS:
            self._answer(event, args, when)

    def _answer(self, event: dict[str, Any], args: dict[str, Any], when: int | None) -> None:
        about = event.get("tool_call_metadata")
        if isinstance(about, dict):
            self._called(event, about, args, when)
        elif event["action"] in ("message", "finish", "reject"):
            text = optional(first(args, "content", "final_thought", "thought")) or optional(event.get("message"))
            self.messages.append(AssistantMessage(content=text, timestamp=when))
        else:  # an agent that writes its actions as text
            id = self._own_id("", f"event_{event.get('id')}")
            self._actions[event.get("id")] = id
            self._names[id] = event["action"]
            given = {key: value for key, value in args.items() if key != "thought"}
            thought = optional(args.get("thought"))
            texts: tuple[Block, ...] = (TextBlock(text=thought),) if thought else ()
            call = a_call(id, event["action"], given)
            self.messages.append(AssistantMessage(content=(*texts, call), timestamp=when))

    def _called(self, event: dict[str, Any], about: dict[str, Any], args: dict[str, Any], when: int | None) -> None:
        response = fields_of(about.get("model_response"))
        answer = optional(response.get("id")) or f"event_{event.get('id')}"
        id = self._own_id(answer, optional(about.get("tool_call_id")) or "")
        self._actions[event.get("id")] = id
        name = optional(about.get("function_name")) or event["action"]
        self._names[id] = name
        if answer in self._answers:
            return
        self._answers.add(answer)
        choice = (items(response.get("choices")) or [{}])[0]
        message = fields_of(choice.get("message"))
        calls = [self._call(answer, wire) for wire in items(message.get("tool_calls"))]
        found = [call for call in calls if call is not None] or [a_call(id, name, args)]
        thoughts = [thinking_of(wire) for wire in items(message.get("thinking_blocks"))]
        if not thoughts and optional(message.get("reasoning_content")):
            thoughts = [thinking_of({"thinking": message["reasoning_content"]})]
        text = optional(message.get("content"))
        usage = inclusive_usage(
            response.get("usage"),
            input="prompt_tokens",
            output="completion_tokens",
            cached=inner(response, "usage", "prompt_tokens_details", "cached_tokens"),
        )
        texts: tuple[Block, ...] = (TextBlock(text=text),) if text else ()
        self.messages.append(
            AssistantMessage(
                content=(*thoughts, *texts, *found),
                model=optional(response.get("model")),
                usage=usage,
                response_id=optional(response.get("id")),
                timestamp=when,
            )
        )

    def _call(self, answer: str, wire: dict[str, Any]) -> ToolCall | None:
        call = call_of(wire)
        if call is None:
            return None
        id = self._own_id(answer, call.id)
        self._names[id] = call.name
        function = wire.get("function")
        return a_call(id, call.name, first(fields_of(function) or wire, "arguments", "input"))

    # --- observations ---

    def _observation(self, event: dict[str, Any], when: int | None) -> None:
        about = event.get("tool_call_metadata")
        id = self._actions.get(event.get("cause"))
        if isinstance(about, dict) and optional(about.get("tool_call_id")) is not None:
            answer = optional(inner(about, "model_response", "id"))
            id = self._ids.get((answer, about["tool_call_id"])) if answer is not None else id
        if id is not None:
            failed = event.get("observation") == "error" or event.get("success") is False
            result = a_result(id, event.get("content"), name=self._names.get(id), failed=failed, when=when)
            self.messages.append(result)
        elif event["observation"] == "recall":
            given = fields_of(event.get("extras"))
            known = [item.get("content") for item in items(given.get("microagent_knowledge"))]
            texts = [given.get("repo_instructions"), given.get("additional_agent_instructions"), *known]
            self.messages += [user(text, when, program=True) for text in texts if isinstance(text, str) and text]
        elif (
            event.get("source") == "environment" and event["observation"] == "error" and optional(event.get("content"))
        ):
            self.messages.append(user(event["content"], when, program=True))

    # --- events of the newer SDK ---

    def _newer(self, event: dict[str, Any], when: int | None) -> None:
        id = optional(event.get("tool_call_id"))
        match event["kind"]:
            case "SystemPromptEvent":
                texts = [optional(inner(event, key, "text")) for key in ("system_prompt", "dynamic_context")]
                self.system = "\n\n".join(text for text in texts if text) or self.system
                self.tools = event.get("tools")
            case "MessageEvent":
                self._newer_message(event, fields_of(event.get("llm_message")), when)
            case "ConversationStateUpdateEvent":
                self._state(event)
            case "ActionEvent" if id is not None:
                self._newer_action(event, id, when)
            case "Condensation" if optional(event.get("summary")):  # of the events that were forgotten
                self.messages.append(user(event["summary"], when, program=True))
            case "ACPToolCallEvent" if id is not None and event.get("status") in ("completed", "failed"):
                # A call of an agent that runs by itself; events before it have its progress.
                called = a_call(id, optional(first(event, "tool_kind", "title")) or "", event.get("raw_input"))
                given, failed = first(event, "raw_output", "content"), event.get("is_error") is True
                self.messages.append(AssistantMessage(content=(called,), timestamp=when))
                self.messages.append(a_result(id, given, name=called.name, failed=failed, when=when))
            case "ObservationEvent" | "UserRejectObservation" | "AgentErrorEvent" if id is not None:
                observed = event.get("observation")
                given = first(observed, "content", "output") if isinstance(observed, dict) else None
                given = given if given is not None else first(event, "error", "rejection_reason")
                failed = event["kind"] != "ObservationEvent" or inner(observed, "is_error") is True
                name = optional(event.get("tool_name"))
                result = a_result(id, given, name=name, failed=failed, when=when)
                added = _extended(event)
                self.messages.append(replace(result, content=(*blocks_of(result.content), *added)) if added else result)

    def _newer_message(self, event: dict[str, Any], wire: dict[str, Any], when: int | None) -> None:
        content = content_of(wire.get("content"))
        if wire.get("role") == "assistant":
            thoughts = _thoughts(wire)
            content = (*thoughts, *blocks_of(content)) if thoughts else content
            self.messages.append(AssistantMessage(content=content, timestamp=when))
            return
        self.messages.append(user(content, when, program=event.get("source") != "user"))
        added = _extended(event)  # text that skills, activated by the prompt, add for the model
        if added:
            self.messages.append(user(added, when, program=True))

    def _state(self, event: dict[str, Any]) -> None:
        """The model, and the tokens of all calls: the agent has one counter, its condenser another."""
        value = event.get("value")
        whole = {event.get("key"): value} if event.get("key") != "full_state" else fields_of(value)
        self.model = optional(inner(whole.get("agent"), "llm", "model")) or self.model
        spent = fields_of(inner(whole.get("stats"), "usage_to_metrics"))
        usages = [_accumulated(inner(metrics, "accumulated_token_usage")) for metrics in spent.values()]
        known = [usage for usage in usages if usage is not None]
        if known:
            names = ("input", "output", "cache_read", "cache_write")
            total = {name: sum(getattr(usage, name) for usage in known) for name in names}
            self.usage = Usage.of(total.pop("input"), total.pop("output"), **total)

    def _newer_action(self, event: dict[str, Any], id: str, when: int | None) -> None:
        wire = fields_of(event.get("tool_call"))
        given = first(fields_of(wire.get("function")) or wire, "arguments")
        name = optional(event.get("tool_name")) or optional(wire.get("name")) or ""
        call = a_call(id, name, given if given is not None else event.get("action"))
        answer = optional(event.get("llm_response_id"))
        last = self.messages[-1] if self.messages else None
        if isinstance(last, AssistantMessage) and answer is not None and last.response_id == answer:
            content: Any = last.content
            self.messages[-1] = replace(last, content=(*content, call))
            return
        thoughts = _thoughts(event)
        texts: Any = content_of(event.get("thought")) or ()
        texts = (TextBlock(text=texts),) if isinstance(texts, str) else texts
        content = (*thoughts, *texts, call)
        self.messages.append(AssistantMessage(content=content, response_id=answer, timestamp=when))


def _accumulated(total: Any) -> Usage | None:
    names = {"input": "prompt_tokens", "output": "completion_tokens"}
    read, wrote = inner(total, "cache_read_tokens"), inner(total, "cache_write_tokens")
    return inclusive_usage(total, **names, cached=read, written=wrote)


def _thoughts(wire: dict[str, Any]) -> list[ThinkingBlock]:
    thoughts = [thinking_of(one) for one in items(wire.get("thinking_blocks"))]
    reasoned = optional(wire.get("reasoning_content"))
    return thoughts or ([thinking_of({"thinking": reasoned})] if reasoned else [])


def _extended(event: dict[str, Any]) -> tuple[Block, ...]:
    """What the program added to a message for the model."""
    return blocks_of(content_of(event.get("extended_content")))


def _with_pictures(content: Any, urls: Any) -> Content:
    pictures = [image for url in urls or () if (image := image_of({"url": url})) is not None] if urls else []
    text = optional(content)
    return (TextBlock(text=text or ""), *pictures) if pictures else text


@reading(API)
def decode(data: Any) -> Conversation:
    """A trajectory, or a row of an evaluation that has one."""
    document = body_of(data, API)
    events = _events(document)
    if events is None:
        raise BadWire(API, "a trajectory is a list of events")
    return keep(read(_Reader(), events), document, API)


@reading(API)
def listed(header: Record, events: ReadAgain) -> SessionStream:
    """The same, one entry at a time."""
    key = next((key for key in _KEYS if header.get(key) is not None), "")
    if header and not isinstance(header.get(key), list):
        raise BadWire(API, "a trajectory is a list of events")
    return TemplateStream(_Reader(), events, API, key, header)


class _Reader(RowReader):
    def messages(self, records: Iterable[Record]) -> Iterator[Message]:
        found = _Trajectory()
        for event in records:
            found.feed(event)
            yield from found.messages[:-1]
            del found.messages[:-1]
        yield from found.messages
        self.fields = {"usage": found.usage, "system": found.system, "tools": openai_tools(found.tools)}
        self.fields |= {"model": found.model} if found.model else {}


_KINDS = frozenset(("SystemPromptEvent", "MessageEvent", "ActionEvent", "ObservationEvent", "AgentErrorEvent"))


def _is_event(event: dict[str, Any]) -> bool:
    kind = event.get("kind")
    if isinstance(kind, str):  # changes of state, pauses, condensations and others are events as well
        return "source" in event and (kind in _KINDS or ("id" in event and "timestamp" in event))
    known = event.get("source") in ("user", "agent", "environment")
    return known and (isinstance(event.get("args"), dict) or "observation" in event) and "timestamp" in event


def detect(value: Any) -> str | None:
    """Events from a user, an agent or an environment."""
    if isinstance(value, dict) and "instance_id" not in value:
        return None
    events = _events(value)
    named = [event for event in events or () if "kind" in event]
    if named and not any(isinstance(event["kind"], str) and event["kind"] in _KINDS for event in named):
        return None
    if events and all(map(_is_event, events[:20])):
        return "events with a `source` and an `action` or `observation`"
    return None


FORMAT = file_format(API, decode, detect=detect, listed=ListedSession(("", *_KEYS), listed))
