"""LangSmith: runs as its API, its SDK and its exports return them; each call of a model (`run_type` `llm`) by itself.

`inputs` has the messages (LangChain's, in one list or in a batch of one, or a provider's) or `prompts`; `outputs` has
`generations`, a provider's response, or a message; a traced function has names of its own in both. Usage is in the
message, in `usage_metadata`, whose input includes the cached part, or in the counts of the run. Runs may be nested in
`child_runs`. Where a file has no call of a model, the root of a trace is read if its outputs are messages, as those of
a graph are; other runs are left out.
docs.langchain.com/langsmith/run-data-format
"""

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from ...values import jsontext
from ...values.errors import BadWire
from ...values.messages import AssistantMessage, UserMessage
from ...values.request import Conversation, Entry, ModelDescriptor
from ..residual import body_of, fields_of, optional, reading
from . import langchain, templates
from .program_content import first, inner, items, moment, openai_tools, priced
from .reading import openai_usage, read_json
from .wire_bodies import CHAT, answer_in, failure, request_in, wire_of_answer, wire_of_request

API = "langsmith"
_TYPES = frozenset(("llm", "chain", "tool", "retriever", "embedding", "prompt", "parser"))


def _is_run(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and value.get("run_type") in _TYPES
        and isinstance(value.get("inputs"), dict)
        and not value.keys().isdisjoint(("trace_id", "dotted_order", "start_time"))
    )


def _runs(value: Any) -> Iterator[dict[str, Any]]:
    """All runs of a document; none if it has anything else."""
    listed = value.get("runs", [value]) if isinstance(value, dict) else value
    if isinstance(listed, list) and listed and all(map(_is_run, listed)):
        for run in listed:
            yield run
            yield from _runs(run.get("child_runs"))


def _calls(value: Any) -> list[dict[str, Any]]:
    """The runs of a document that are conversations."""
    runs = list(_runs(value))
    calls = [run for run in runs if run["run_type"] == "llm"]
    return calls or [
        run for run in runs if run.get("parent_run_id") is None and _is_thread(_messages(run.get("outputs")))
    ]


def _messages(given: Any) -> Any:
    """The messages of inputs or outputs; a batch of one is that one."""
    found = inner(given, "messages")
    return found[0] if isinstance(found, list) and len(found) == 1 and isinstance(found[0], list) else found


def _plain(messages: Any) -> list[dict[str, Any]]:
    """Messages as LangChain has them, which a graph may have written without their empty fields."""
    found = items(messages)
    return [{"additional_kwargs": {}, **one} if str(one.get("type")) in langchain.KINDS else one for one in found]


def _is_thread(messages: Any) -> bool:
    found = _plain(messages)
    has_roles = all(isinstance(one.get("role"), str) for one in found)
    return bool(found) and len(found) == len(messages) and (has_roles or langchain.detect(found) is not None)


def _thread(messages: Any) -> Conversation | None:
    """Messages of LangChain or of a provider; None for anything else."""
    if not _is_thread(messages):
        return None
    if "role" in messages[0]:
        return request_in({"messages": messages}, CHAT)
    return replace(langchain.decode(_plain(messages)), extra={})


def _asked(run: dict[str, Any]) -> Conversation:
    inputs = run["inputs"]
    thread = _thread(_messages(inputs))
    wire = wire_of_request(inputs) if thread is None or "model" in inputs else None
    if wire is not None:
        return request_in(inputs, wire)
    if thread is not None:
        return replace(thread, tools=thread.tools or openai_tools(inner(run, "extra", "invocation_params", "tools")))
    prompts = inputs.get("prompts") or [first(inputs, "prompt", "input", "text")]
    texts = [text for text in (prompts if isinstance(prompts, list) else []) if isinstance(text, str)]
    return Conversation(entries=tuple(Entry(message=UserMessage(content=text)) for text in texts[:1] or _text(inputs)))


def _text(given: Any) -> list[str]:
    """What a function with names of its own was given or returned: its only text, or all of it as JSON."""
    if not isinstance(given, dict) or not any(given.values()):
        return []
    texts = [value for value in given.values() if isinstance(value, str)]
    return texts if len(given) == 1 and texts else [jsontext.compact(given)]


def _answer(outputs: Any, fields: dict[str, Any]) -> list[Any]:
    wire = wire_of_answer(outputs)
    if wire is not None:
        return [answer_in(outputs, wire, **fields)]
    given = inner(outputs, "generations")
    while isinstance(given, list):  # of the prompts of a batch, the answers to each
        given = given[0] if given else None
    given = given or outputs
    message = first(fields_of(given), "message", "output", "content") if "role" not in fields_of(given) else given
    thread = _thread(message if isinstance(message, list) else [message]) or _thread(_messages(given))
    if thread is not None:
        return [
            replace(entry.message, **{name: value for name, value in fields.items() if value is not None})
            for entry in thread.entries
            if isinstance(entry.message, AssistantMessage)
        ]
    text = optional(message) or optional(inner(given, "text"))
    texts = [text] if text else _text(outputs) if "generations" not in fields_of(outputs) else []
    return [AssistantMessage(content=one, **fields) for one in texts]


def _usage(run: dict[str, Any]) -> Any:
    outputs = run.get("outputs")
    details = {"input_token_details": run.get("prompt_token_details")}
    details |= {"output_token_details": run.get("completion_token_details")}
    counts = {"input_tokens": run.get("prompt_tokens"), "output_tokens": run.get("completion_tokens")}
    return (
        langchain.usage_in(inner(outputs, "usage_metadata"))
        or openai_usage(inner(outputs, "llm_output", "token_usage"))
        or (langchain.usage_in({**counts, **details}) if run.get("total_tokens") else None)
    )


def _conversation(run: dict[str, Any]) -> Conversation:
    """One run."""
    if run["run_type"] != "llm":
        return _thread(_messages(run.get("outputs"))) or Conversation()
    about = fields_of(run.get("extra"))
    model = optional(inner(about, "metadata", "ls_model_name"))
    model = model or optional(first(fields_of(about.get("invocation_params")), "model", "model_name"))
    asked = _asked(run)
    began, ended = moment(run.get("start_time")), moment(run.get("end_time"))
    messages: list[Any] = [
        replace(entry.message, timestamp=began) if isinstance(entry.message, UserMessage) else entry.message
        for entry in asked.entries
    ]
    fields: dict[str, Any] = {"model": model, "timestamp": ended or began}
    found = _answer(run.get("outputs"), fields)
    if not found and run.get("error"):
        found = [failure(run["error"], **fields)]
    if found:
        cost = run.get("total_cost")  # which the API gives as text
        usage = priced(found[-1].usage or _usage(run), read_json(cost) if isinstance(cost, str) else cost)
        found[-1] = replace(found[-1], usage=usage)
    model = model or (asked.model.id if asked.model is not None else None)
    entries = tuple(Entry(message=message) for message in (*messages, *found))
    return replace(asked, entries=entries, model=ModelDescriptor(id=model) if model else None, extra={})


@reading(API)
def decode(data: Any) -> Conversation:
    """One run."""
    body = body_of(data, API)
    calls = _calls(body)
    if len(calls) != 1:
        raise BadWire(API, f"expected one run that is a call of a model or a thread of messages, got {len(calls)}")
    return templates.keep(_conversation(calls[0]), body, API)


def detect(value: Any) -> str | None:
    """Whether a document has runs that are conversations."""
    return "runs with a `run_type`" if _calls(value) else None


def split(value: Any) -> list[Any] | None:
    """The runs of a document that are conversations, if there are several."""
    found = _calls(value)
    return found if len(found) > 1 else None


FORMAT = templates.file_format(API, decode, detect=detect, split=split, rank=20)
