"""OpenHands' trajectories: a list of events, each an action or an observation, from the user, agent or environment.

`tool_call_metadata` of an event has the answer of the model as the provider gave it, with the ids and names of its
calls; several actions may come from one answer. An observation belongs to the call that its metadata names, else to
the action in `cause`. Ids are used again after a condensation, so a call is known by its answer and its id together.
Condensations are events like others here; what they forgot stays on the path. Changes of state are no messages.

The newer SDK writes events with a `kind` (`MessageEvent`, `ActionEvent`, `ObservationEvent`, …), of the same meaning.
"""

import sys
from typing import Any

from msgspec.structs import replace

from ...values.errors import BadWire
from ...values.losses import Encoded, SupportTable
from ...values.messages import AssistantMessage, Block, Content, Message, TextBlock, ToolCall, Usage
from ...values.request import Conversation
from ..residual import body_of, fields_of, optional, reading
from ..wire import FileFormat
from . import records as _records
from .program_content import (
    a_call,
    a_result,
    call_of,
    content_of,
    conversation_of,
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
from .templates import give_back, keep

API = "openhands"
FIELD_SUPPORT: SupportTable = _records.FIELD_SUPPORT

# Actions of the agent that run nothing: they manage the session.
_NO_CALLS = frozenset(
    ("system", "recall", "condensation", "condensation_request", "change_agent_state", "null", "start")
)


def _events(document: Any) -> list[dict[str, Any]] | None:
    """The events of a trajectory, of an evaluation's row, or of one that has them in pairs."""
    found = first(document, "history", "trajectory", "events") if isinstance(document, dict) else document
    if not isinstance(found, list):
        return None
    flat = [event for item in found for event in (item if isinstance(item, list) else [item])]
    return items(flat)


class _Reader:
    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.system: str | None = None
        self.tools: Any = None
        self.usage: Usage | None = None
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
            names = {"input": "prompt_tokens", "output": "completion_tokens"}
            read, wrote = inner(total, "cache_read_tokens"), inner(total, "cache_write_tokens")
            self.usage = inclusive_usage(total, **names, cached=read, written=wrote) or self.usage
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
                self.system = optional(inner(event, "system_prompt", "text")) or self.system
                self.tools = event.get("tools")
            case "MessageEvent":
                content = content_of(inner(event, "llm_message", "content"))
                answered = inner(event, "llm_message", "role") == "assistant"
                asked = event.get("source") == "user"
                message: Message = user(content, when, program=not asked)
                self.messages.append(AssistantMessage(content=content, timestamp=when) if answered else message)
            case "ActionEvent" if id is not None:
                self._newer_action(event, id, when)
            case "ObservationEvent" | "UserRejectObservation" | "AgentErrorEvent" if id is not None:
                observed = event.get("observation")
                given = first(observed, "content", "output") if isinstance(observed, dict) else None
                given = given if given is not None else first(event, "error", "rejection_reason")
                failed = event["kind"] != "ObservationEvent" or inner(observed, "is_error") is True
                name = optional(event.get("tool_name"))
                self.messages.append(a_result(id, given, name=name, failed=failed, when=when))

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
        thoughts = [thinking_of(one) for one in items(event.get("thinking_blocks"))]
        if not thoughts and optional(event.get("reasoning_content")):
            thoughts = [thinking_of({"thinking": event["reasoning_content"]})]
        texts: Any = content_of(event.get("thought")) or ()
        texts = (TextBlock(text=texts),) if isinstance(texts, str) else texts
        content = (*thoughts, *texts, call)
        self.messages.append(AssistantMessage(content=content, response_id=answer, timestamp=when))


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
    reader = _Reader()
    for event in events:
        reader.feed(event)
    found = conversation_of(reader.messages, usage=reader.usage, system=reader.system, tools=openai_tools(reader.tools))
    return keep(found, document, API)


def encode(conversation: Conversation) -> Encoded:
    """The trajectory that was read."""
    return give_back(conversation, API, decode)


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


FORMAT = FileFormat(name=API, codec=sys.modules[__name__], detect=detect, writable=False)
