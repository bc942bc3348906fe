"""One sample of an Inspect evaluation log: the messages of a conversation, with the score and everything beside it.

A log holds many samples; `split` takes it apart, and a log with one sample is read as it is. Messages have the roles
system, user, assistant and tool; reasoning, pictures and what the provider's own tools did are parts of the content,
calls stand beside it. A tool's message names the kind of its error.

A row of a dataset has an `input`, text or messages, and the `target` of an answer that is yet to be given, which is no
message. inspect.aisi.org.uk/datasets.html
"""

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from ...values import jsontext
from ...values.errors import BadWire, Unsupported
from ...values.losses import Encoded, Loss, Reporter, SupportTable
from ...values.messages import (
    AssistantMessage,
    AudioBlock,
    Block,
    Content,
    CustomMessage,
    DocumentBlock,
    ImageBlock,
    Message,
    OpaqueBlock,
    ServerToolCall,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
    blocks_of,
    text_of,
)
from ...values.request import Conversation, Entry, ModelDescriptor
from ..residual import (
    an_object,
    body_of,
    count,
    fields_of,
    keeping,
    number,
    optional,
    put_back,
    reading,
    residual,
    residual_of,
    restored,
    same,
    string,
)
from ..wire import FileFormat
from . import records as _records
from .program_content import priced
from .records import FILE, Records

API = "inspect-ai"

SEALED = "~sealed"  # of a thought: its payload stands in `reasoning`, its text in `summary`
CALL = "~call"  # of a block: an item of `tool_calls` that is no call
ERROR = "~error"  # of a result: its text is that of the error
TEXT = "~text"  # of a conversation: the row of a dataset whose input is a text
ROW = "~row"  # of a conversation: the row of a dataset
BLOCKS = "~blocks"  # of an answer with calls: its content is a list of parts
SYSTEM = "~system"  # of a conversation: residual of its first message, the system text
ATTACHED = "~attached"  # of a conversation: its messages name attachments
EMPTY = "~empty"  # of a conversation: the log has no sample
LOG = "~log"  # of a conversation: residual of the log around its one sample

FIELD_SUPPORT: SupportTable = _records.FIELD_SUPPORT


# --- content ---------------------------------------------------------------------------------------------------------


def _decode_content(content: Any) -> Content:
    if content is None or isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise TypeError("content is text or a list of parts")
    return tuple(map(_decode_part, content))


def _decode_part(part: Any) -> Block:
    try:
        block = _block_in(part)
        encoded = _encode_block(block)
        if encoded is not None:
            return keeping(block, API, part, encoded)
    except (KeyError, TypeError, ValueError, AttributeError):
        pass
    return OpaqueBlock(dialect=API, value=part)


def _block_in(part: dict[str, Any]) -> Block:
    match part["type"]:
        case "text":
            return TextBlock(text=string(part["text"]), refusal=part.get("refusal") is True)
        case "reasoning":
            hidden, text = part.get("redacted") is True, string(part["reasoning"])
            if hidden:  # the sealed payload stands where the text would, which a summary may tell
                summary = optional(part.get("summary"))
                if summary:
                    return ThinkingBlock(thinking=summary, thinking_signature=text, extra={API: {SEALED: True}})
                return ThinkingBlock(thinking="", thinking_signature=text, redacted=True)
            return ThinkingBlock(thinking=text, thinking_signature=optional(part.get("signature")))
        case "image":
            return ImageBlock(**_source(part["image"]), detail=optional(part.get("detail")))
        case "audio":
            return AudioBlock(**_source(part["audio"]))
        case "video" | "document" as kind:
            title = optional(part.get("filename")) if kind == "document" else None
            return DocumentBlock(**_source(part[kind]), title=title)
        case "tool_use":
            return ServerToolCall(id=string(part["id"]), name=string(part["name"]), arguments=part["arguments"])
        case kind:
            raise ValueError(f"unknown part {kind!r}")


def _source(where: Any) -> dict[str, Any]:
    """Where a medium is: base64 in a data URL, or a URL or path."""
    head, comma, data = string(where).partition(",")
    if comma and head.startswith("data:") and head.endswith(";base64"):
        return {"data": data, "mime_type": head[len("data:") : -len(";base64")]}
    return {"url": where}


def _encode_block(block: Block) -> dict[str, Any] | None:
    """A part without its residual."""
    match block:
        case TextBlock():
            return {"type": "text", "text": block.text, **({"refusal": True} if block.refusal else {})}
        case ThinkingBlock() if SEALED in residual_of(block.extra, API):
            sealed = block.thinking_signature or ""
            return {"type": "reasoning", "reasoning": sealed, "summary": block.thinking, "redacted": True}
        case ThinkingBlock() if block.redacted:
            return {"type": "reasoning", "reasoning": block.thinking_signature or "", "redacted": True}
        case ThinkingBlock():
            signed = {} if block.thinking_signature is None else {"signature": block.thinking_signature}
            return {"type": "reasoning", "reasoning": block.thinking, **signed}
        case ImageBlock():
            detail = {} if block.detail is None else {"detail": block.detail}
            return _sourced("image", block, detail)
        case AudioBlock():
            return _sourced("audio", block, {})
        case DocumentBlock():
            video = (block.mime_type or "").startswith("video/") or block.title is None
            return _sourced("video" if video else "document", block, {} if video else {"filename": block.title})
        case ServerToolCall():
            return {"type": "tool_use", "id": block.id, "name": block.name, "arguments": block.arguments}
        case _:
            return None


def _sourced(kind: str, block: ImageBlock | AudioBlock | DocumentBlock, more: dict[str, Any]) -> dict[str, Any] | None:
    if block.data is not None and block.mime_type is not None:
        return {"type": kind, kind: f"data:{block.mime_type};base64,{block.data}", **more}
    return None if block.url is None else {"type": kind, kind: block.url, **more}


def _encode_content(content: Content, report: Reporter) -> Any:
    if content is None or isinstance(content, str):
        return content
    encoded = []
    for at, block in enumerate(content):
        report.block = at
        if isinstance(block, OpaqueBlock) and block.dialect == API:
            encoded.append(block.value)
            continue
        part = _encode_block(block)
        if part is None:
            report.lost(type(block).__name__, "the format has no such part")
        else:
            encoded.append(restored(part, block.extra, API))
    report.block = None
    return encoded


# --- messages --------------------------------------------------------------------------------------------------------


def _decode_message(wire: dict[str, Any]) -> list[Any]:
    content = _decode_content(wire.get("content"))
    match wire.get("role"):
        case "user":
            return [UserMessage(content=content)]
        case "system":
            return [SystemMessage(content=content)]
        case "tool":
            return [_decode_result(wire, content)]
        case "assistant":
            calls = wire.get("tool_calls")
            if not isinstance(calls, list) or not calls:
                return [AssistantMessage(content=content, model=optional(wire.get("model")))]
            blocks = (*(blocks_of(content) if content else ()), *map(_decode_call, calls))
            hints = {API: {BLOCKS: True}} if isinstance(content, tuple) else {}
            return [AssistantMessage(content=blocks, model=optional(wire.get("model")), extra=hints)]
        case _:
            return []


def _decode_result(wire: dict[str, Any], content: Content) -> ToolResultMessage:
    """A result; where a tool failed and gave nothing, what the model read is the text of the error."""
    error = wire.get("error") if isinstance(wire.get("error"), dict) else None
    hints: dict[str, Any] = {}
    if error is not None and content == "" and isinstance(error.get("message"), str):
        hints, content = {API: {ERROR: True}}, error["message"]
        error = {key: value for key, value in error.items() if key != "message"}
    return ToolResultMessage(
        tool_call_id=string(wire["tool_call_id"]),
        tool_name=optional(wire.get("function")),
        content=content,
        details=error,
        is_error=error is not None,
        extra=hints,
    )


def _encode_result(result: ToolResultMessage, report: Reporter) -> dict[str, Any]:
    encoded: dict[str, Any] = {"role": "tool", "content": _encode_content(result.content, report)}
    encoded["tool_call_id"] = result.tool_call_id
    if result.tool_name is not None:
        encoded["function"] = result.tool_name
    if result.is_error:
        encoded["error"] = dict(result.details) if isinstance(result.details, dict) else {}
        if result.extra.get(API, {}).get(ERROR):
            encoded["error"]["message"], encoded["content"] = text_of(result.content), ""
    return encoded


def _decode_call(wire: Any) -> Block:
    try:
        call = ToolCall(
            id=string(wire["id"]),
            name=string(wire["function"]),
            arguments=an_object(wire["arguments"], API),
            parse_error=optional(wire.get("parse_error")),
        )
        return keeping(call, API, wire, _encode_call(call))
    except (KeyError, TypeError, IndexError, BadWire):
        return OpaqueBlock(dialect=API, value=wire, extra={API: {CALL: True}})


def _encode_call(call: ToolCall) -> dict[str, Any]:
    wire: dict[str, Any] = {"id": call.id, "function": call.name, "arguments": call.arguments, "type": "function"}
    return wire if call.parse_error is None else {**wire, "parse_error": call.parse_error}


def _encode_message(messages: tuple[Message, ...], report: Reporter) -> dict[str, Any]:
    (message,) = messages
    match message:
        case AssistantMessage():
            named = {} if message.model is None else {"model": message.model}
            return {"role": "assistant", **_encode_answer(message, report), **named}
        case ToolResultMessage():
            return _encode_result(message, report)
        case _:
            role = "system" if isinstance(message, SystemMessage) else "user"
            return {"role": role, "content": _encode_content(message.content, report)}


def _encode_answer(message: AssistantMessage, report: Reporter) -> dict[str, Any]:
    if not isinstance(message.content, tuple):
        return {"content": message.content}
    blocks, calls = [], []
    for block in message.content:
        if isinstance(block, ToolCall):
            calls.append(restored(_encode_call(block), block.extra, API))
        elif isinstance(block, OpaqueBlock) and block.extra.get(API, {}).get(CALL):
            calls.append(block.value)
        else:
            blocks.append(block)
    parts = not calls or bool(message.extra.get(API, {}).get(BLOCKS))
    if not parts and all(isinstance(block, TextBlock) for block in blocks):
        text = "".join(block.text for block in blocks if isinstance(block, TextBlock))
        return {"content": text, "tool_calls": calls}
    encoded = {"content": _encode_content(tuple(blocks), report)}
    return {**encoded, "tool_calls": calls} if calls else encoded


def _records_of() -> Records:
    return Records(API, _decode_message, _encode_message)


# --- samples ---------------------------------------------------------------------------------------------------------


def split(value: Any) -> list[Any] | None:
    """The samples of a log, each as a separate log, or the rows of a dataset; None for any other value."""
    if _is_log(value) and len(value.get("samples", ())) > 1:
        return [{**value, "samples": [sample]} for sample in value["samples"]]
    return value if _are_rows(value) else None


def archive(members: Mapping[str, bytes]) -> Iterator[Any] | None:
    """The samples of a zipped log (`.eval`): each is a file, the rest of the log is in `header.json`.

    An unfinished run has no header yet; its data so far is in `_journal/start.json`. The id of a sample may be a path.
    """
    samples = [name for name in members if re.fullmatch(r"samples/.+_epoch_\d+(?:\.json|/sample\.json)", name)]
    about = next((name for name in ("header.json", "_journal/start.json") if name in members), None)
    if about is None:
        return None
    header = jsontext.read(members[about])
    if not isinstance(header, dict) or not isinstance(header.get("eval"), dict):
        return None
    return ({**header, "samples": [_sample(members, name)]} for name in samples)


def _sample(members: Mapping[str, bytes], name: str) -> Any:
    """A sample of a zipped log. A large one is a folder, with its messages in several files, named by their first item.

    It refers to them by ranges, and to attachments by number; its events are not read.
    src/inspect_ai/log/_recorders/chunked/format.py
    """
    sample = jsontext.read(members[name])
    if not name.endswith("/sample.json") or not isinstance(sample, dict):
        return sample
    folder = name.removesuffix("sample.json")
    ranges = [pair for pair in sample.pop("message_refs", None) or () if isinstance(pair, list) and len(pair) == 2]
    if not all(type(place) is int for pair in ranges for place in pair):
        raise BadWire(API, "expected ranges of messages", "$.message_refs")
    every = _chunks(members, f"{folder}messages/")
    attachments = {str(number): text for number, text in enumerate(_chunks(members, f"{folder}attachments/"))}
    if f"{folder}metadata.json" in members:
        sample["metadata"] = jsontext.read(members[f"{folder}metadata.json"])
    messages = [message for start, end in ranges for message in every[start:end]]
    return {**sample, "messages": messages, "attachments": attachments}


def _chunks(members: Mapping[str, bytes], folder: str) -> list[Any]:
    """The items of the files in a folder."""
    found = [name for name in members if re.fullmatch(re.escape(folder) + r"\d{1,18}\.json", name)]
    lists = (jsontext.read(members[name]) for name in sorted(found, key=lambda name: int(name[len(folder) : -5])))
    return [item for one in lists if isinstance(one, list) for item in one]


# Long texts and media of a sample stand in its `attachments`, by their digest.
_ATTACHED = re.compile(r"attachment://([0-9a-f]{32}|\d+)")


def _replaced(value: Any, find: Callable[[str], str]) -> Any:
    """A JSON value with each string replaced by what `find` gives for it."""
    if isinstance(value, str):
        return find(value)
    if isinstance(value, list):
        return [_replaced(item, find) for item in value]
    if isinstance(value, dict):
        return {key: _replaced(item, find) for key, item in value.items()}
    return value


def _attached(messages: list[Any], attachments: Any) -> list[Any]:
    """The messages with the attachments that they name."""
    if not isinstance(attachments, dict) or not attachments:
        return messages

    def find(text: str) -> str:
        named = _ATTACHED.fullmatch(text)
        given = attachments.get(named[1]) if named else None
        return given if isinstance(given, str) else text

    found: list[Any] = _replaced(messages, find)
    return found if same(_detached(found, attachments), messages) else messages


def _detached(messages: list[Any], attachments: Mapping[str, Any]) -> list[Any]:
    """The inverse: the names of the attachments in the place of what they are."""
    names = {text: f"attachment://{digest}" for digest, text in attachments.items() if isinstance(text, str)}
    found: list[Any] = _replaced(messages, lambda text: names.get(text, text))
    return found


def _total(wire: dict[str, Any]) -> Usage | None:
    """What the sample used, over all models. Some providers count the cached part as input: then the total is less."""
    every = [given for given in fields_of(wire.get("model_usage")).values() if isinstance(given, dict)]
    if not every:
        return None
    buckets = [0, 0, 0, 0]
    for given in every:
        fresh, out = count(given, "input_tokens"), count(given, "output_tokens")
        read, written = count(given, "input_tokens_cache_read"), count(given, "input_tokens_cache_write")
        if (read or written) and count(given, "total_tokens") == fresh + out:
            fresh = max(fresh - read - written, 0)
        buckets = [sum(pair) for pair in zip(buckets, (fresh, out, read, written), strict=True)]
    reasoning = sum(count(given, "reasoning_tokens") for given in every)
    cost = sum(number(given.get("total_cost")) or 0 for given in every)
    found = Usage.of(buckets[0], buckets[1], cache_read=buckets[2], cache_write=buckets[3], reasoning=reasoning or None)
    return priced(found, cost)


def _is_log(value: Any) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("eval"), dict):
        return False
    if "samples" not in value:  # a log may be written, or kept, without them
        return "task" in value["eval"] and "status" in value
    return isinstance(value["samples"], list) and all(map(_is_sample, value["samples"]))


def _is_sample(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("messages"), list) and "epoch" in value


def _is_row(value: Any) -> bool:
    """Whether a value is the row of a dataset: the fields of a `Sample` that was not run yet, and no other."""
    return isinstance(value, dict) and value.keys() <= _ROW_FIELDS and _has_input(value)


def _has_input(value: dict[str, Any]) -> bool:
    target, given = value.get("target"), value.get("input")
    if not isinstance(target, str) and not (
        isinstance(target, list) and target and all(isinstance(one, str) for one in target)
    ):
        return False
    return isinstance(given, str) or (
        isinstance(given, list)
        and bool(given)
        and all(isinstance(one, dict) and one.get("role") in _ROLES and "content" in one for one in given)
    )


def _are_rows(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_is_row, value))


_ROW_FIELDS = frozenset(("input", "target", "choices", "id", "metadata", "sandbox", "files", "setup"))
_ROLES = ("system", "user", "assistant", "tool")


@reading(API)
def decode(data: Any) -> Conversation:
    """A sample, a log that holds but one, or the row of a dataset."""
    wire = an_object(body_of(data, API), API)
    about: dict[str, Any] = {}
    if not wire.keys() & {"messages", "samples", "eval"} and _has_input(wire):
        given = wire["input"]
        about = {ROW: True, TEXT: True} if isinstance(given, str) else {ROW: True}
        about |= residual(wire, {"input": given})
        messages = [{"role": "user", "content": given}] if isinstance(given, str) else given
        sample = decode({"messages": messages, "epoch": 1})
        return replace(sample, extra={API: {**sample.extra[API], **about}})
    samples = wire.get("samples", [] if _is_log(wire) else None)
    if isinstance(samples, list):
        if not samples:
            return Conversation(extra={API: {FILE: True, LOG: residual(wire, {"samples": samples}), EMPTY: True}})
        if len(samples) != 1:
            raise BadWire(API, f"a log of {len(samples)} samples: take one of them", "$.samples")
        about[LOG] = residual(wire, {"samples": samples})
        evaluated, wire = wire.get("eval"), an_object(samples[0], API, "$.samples[0]")
    else:
        evaluated = None
    messages = wire.get("messages")
    if not isinstance(messages, list):
        raise BadWire(API, "a sample has `messages`", "$.messages")
    records = _records_of()
    entries: list[Entry] = []
    given, messages = messages, _attached(messages, wire.get("attachments"))
    if messages is not given:
        about[ATTACHED] = True
    for at, message in enumerate(messages):
        role = an_object(message, API, f"$.messages[{at}]").get("role")
        entries += records.read(message, role if isinstance(role, str) else "message")
    named = optional(evaluated.get("model")) if isinstance(evaluated, dict) else None
    about |= {FILE: True, **residual(wire, {"messages": given})}
    first = entries[0].message if entries else None
    system = first.content if isinstance(first, SystemMessage) and isinstance(first.content, str) else None
    if system is not None:
        about[SYSTEM] = entries.pop(0).extra[API]
    model = ModelDescriptor(id=named) if named else None
    return Conversation(entries=tuple(entries), system=system, model=model, usage=_total(wire), extra={API: about})


def encode(conversation: Conversation) -> Encoded:
    """The sample, or the log of one, that was read."""
    extra_fields = conversation.extra.get(API, {})
    if FILE not in extra_fields:
        raise Unsupported(API, f"a conversation of this format {_records.WHY}")
    records, losses = _records_of().write(conversation, system=True)
    if conversation.system is not None:
        encoded = {"role": "system", "content": text_of(conversation.system)}
        records.insert(0, put_back(encoded, extra_fields.get(SYSTEM, {})))
    if ATTACHED in extra_fields and isinstance(extra_fields.get("attachments"), dict):
        records = _detached(records, extra_fields["attachments"])
    if EMPTY in extra_fields and not records:
        return Encoded(put_back({"samples": []}, extra_fields[LOG]), tuple(losses))
    if ROW in extra_fields:
        kept = {key: value for key, value in extra_fields.items() if key != "epoch"}
        is_text = TEXT in extra_fields and len(records) == 1 and records[0].keys() == {"role", "content"}
        return Encoded(put_back({"input": records[0]["content"] if is_text else records}, kept), tuple(losses))
    sample = put_back({"messages": records}, extra_fields)
    body = put_back({"samples": [sample]}, extra_fields[LOG]) if LOG in extra_fields else sample
    return Encoded(body, tuple(losses))


def chat_messages(conversation: Conversation) -> Encoded:
    """The path of any conversation as Inspect's messages, the system text first, with what they cannot hold."""
    encoded: list[dict[str, Any]] = []
    losses: list[Loss] = []
    if conversation.system is not None:
        encoded.append({"role": "system", "content": text_of(conversation.system)})
    for at, entry in enumerate(conversation.path()):
        if isinstance(entry.message, CustomMessage):
            losses.append(Loss(f"$.messages[{at}]", "message", "no model has read it", "dropped"))
            continue
        report = Reporter(f"$.messages[{at}]")
        wire = _encode_message((entry.message,), report)
        # Inspect requires a text or parts, and a message for every error.
        wire["content"] = wire["content"] or ""
        if "error" in wire:
            message = text_of(entry.message.content)
            wire["error"] = {"type": "unknown", "message": message, **wire["error"]}
        encoded.append(wire)
        losses += report.losses
    return Encoded(encoded, tuple(losses))


def detect(value: Any) -> str | None:
    """Whether a document is a log or one of its samples."""
    if _is_log(value):
        return "`samples` with `messages` and `epoch`, beside `eval`"
    if _is_sample(value) and "input" in value and ("scores" in value or "target" in value):
        return "`messages` beside `input`, `epoch` and a target or scores"
    if _is_row(value) or _are_rows(value):
        return "the `input` and `target` of a dataset"
    return None


FORMAT = FileFormat(
    name="inspect-ai",
    codec=sys.modules[__name__],
    detect=detect,
    split=split,
    array="samples",
    archive=archive,
    writable=False,
    calls_beside=True,
)
