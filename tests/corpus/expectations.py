"""What the vendor's own package made of a recorded answer, against the message that we decoded."""

import json
from collections.abc import Callable, Iterable, Mapping
from itertools import groupby
from typing import Any

from interlingua.values.folding import arguments_text
from interlingua.values.messages import (
    AssistantMessage,
    ServerToolCall,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    Usage,
    blocks_of,
)

from .cases import Case
from .differences import differences, shown


def against_expected(case: Case, message: AssistantMessage) -> list[str]:
    """What the message has otherwise than the vendor's package.

    Where that package crashed on real traffic, its last words are the beginning of ours, and nothing else is known.
    """
    expected = case.expected
    if not expected:  # no package of this vendor's read it
        return []
    error = expected.get("error") or {}
    if error.get("exception", "").startswith("builtins."):
        return _beginning(expected, message)
    found = _content(case, message) + _order(case, message) + _usage(case, message) + _stop(case, message)
    if error and message.stop_reason != "error":
        found.append(f"stop_reason: expected an error ({error['message']}), got {message.stop_reason}")
    if error and error["message"] not in (message.error_message or ""):
        found.append(f"error_message: expected {error['message']!r} in it, got {message.error_message!r}")
    return found


def _beginning(expected: Mapping[str, Any], message: AssistantMessage) -> list[str]:
    text = expected.get("text") or ""
    return [] if message.text.startswith(text) else [f"text: expected to begin with {shown(text)}"]


def _content(case: Case, message: AssistantMessage) -> list[str]:
    expected = case.expected
    found = differences(_text(case), plain_text(message), "text")
    found += differences(expected.get("refusal") or "", refusal(message), "refusal")
    if expected["thinking"] or b'"reasoning_details"' not in case.body:  # a place where the corpus does not look
        found += differences(expected["thinking"] or "", thinking(message, case.dialect_name), "thinking")
    return found + _calls(case, message)


def _text(case: Case) -> str:
    """The words of the answer. Of Bedrock's whole answers the corpus leaves out the cited ones, of its streams not."""
    if case.content_is_object:  # a host that parsed the answer; the corpus joins the keys
        return json.dumps(case.wire["choices"][0]["message"]["content"], separators=(",", ":"), ensure_ascii=False)
    if "citationsContent" not in case.expected.get("blocks", ()):
        return case.expected["text"] or ""
    blocks = case.wire["output"]["message"]["content"]
    cited = (block.get("citationsContent", {"content": [block]})["content"] for block in blocks)
    return "".join(piece.get("text", "") for pieces in cited for piece in pieces)


def _order(case: Case, message: AssistantMessage) -> list[str]:
    """The kinds of blocks, as the wire calls them, in their order. Whether neighbours are joined is left open."""
    given = next((case.expected[name] for name in ("blocks", "items", "parts") if name in case.expected), None)
    if given is None or case.expected.get("error"):
        return []
    kinds: Iterable[str] = map(_kind, _pieces(case.dialect.encode_response(message).body, case.dialect_name))
    if case.is_stream:  # where cited words are text as well
        kinds = ("text" if kind == "citationsContent" else kind for kind in kinds)
    return differences(_runs(given), _runs(kinds), "order of blocks")


def _pieces(body: Any, dialect: str) -> list[dict[str, Any]]:
    """The blocks, items or parts of a whole answer."""
    if dialect == "openai-responses":
        return list(body["output"])
    if dialect == "bedrock-converse-stream":
        return list(body["output"]["message"]["content"])
    if "candidates" in body:
        return [part for candidate in body["candidates"][:1] for part in candidate.get("content", {}).get("parts", ())]
    return list(body.get("content", ()))


def _kind(piece: dict[str, Any]) -> str:
    if "type" in piece:
        return str(piece["type"])
    if piece.get("thought"):
        return "thought"
    name = next((key for key in piece if key in _KEYS), next(iter(piece)))
    return _KEYS.get(name, name)


# Blocks without a `type` are named by their key; the corpus spells some of Google's in its package's way.
_KEYS = {
    **{
        name: name for name in ("text", "toolUse", "toolResult", "reasoningContent", "citationsContent", "functionCall")
    },
    "executableCode": "executable_code",
    "codeExecutionResult": "code_execution_result",
    "toolCall": "tool_call",
    "toolResponse": "tool_response",
}


def _runs(kinds: Iterable[str]) -> list[str]:
    return [kind for kind, _ in groupby(kinds)]


def plain_text(message: AssistantMessage) -> str:
    """The words of the answer that are not a refusal."""
    return "".join(b.text for b in blocks_of(message.content) if isinstance(b, TextBlock) and not b.refusal)


def refusal(message: AssistantMessage) -> str:
    return "".join(b.text for b in blocks_of(message.content) if isinstance(b, TextBlock) and b.refusal)


def thinking(message: AssistantMessage, dialect: str) -> str:
    """The thinking as the corpus joins it: blank lines between the items of Responses, nothing elsewhere."""
    if dialect == "openai-responses":
        return message.thinking
    return "".join(b.thinking for b in blocks_of(message.content) if isinstance(b, ThinkingBlock))


def _calls(case: Case, message: AssistantMessage) -> list[str]:
    if case.expected["tool_calls"] is None:  # arguments in pieces, which Google's package does not put together
        return []
    expected = [given for given in case.expected["tool_calls"] if not _is_servers(given, case, message)]
    calls = message.tool_calls
    if len(expected) != len(calls):
        return [f"tool calls: expected {len(expected)}, got {len(calls)}"]
    found = []
    for at, (given, call) in enumerate(zip(expected, calls, strict=True)):
        path = f"tool_calls[{at}]"
        found += _id(given["id"], call, f"{path}.id")
        found += differences(given["name"], call.name, f"{path}.name")
        found += _arguments(given, call, path, as_text=case.dialect_name.startswith("openai"))
    return found


def _is_servers(given: Mapping[str, Any], case: Case, message: AssistantMessage) -> bool:
    """Whether a call is one that Bedrock runs itself; the corpus lists these among the client's."""
    if b"server_tool_use" not in case.body:
        return False
    return any(isinstance(b, ServerToolCall) and b.id == given["id"] for b in blocks_of(message.content))


def _id(reported: str | None, call: ToolCall, path: str) -> list[str]:
    """An id may be generated exactly when the wire gave none."""
    if is_generated(call) != (not reported):
        origin = "generated" if is_generated(call) else "not generated"
        return [f"{path}: the wire has {reported!r}, ours is {call.id!r}, {origin}"]
    return [] if is_generated(call) else differences(reported, call.id, path)


def free_text(call: ToolCall) -> str | None:
    """Arguments that are no JSON object: the only one of them, as of a custom tool, or text that could not be read."""
    alone = [value for value in call.arguments.values() if isinstance(value, str)]
    if len(alone) == len(call.arguments) == 1:
        return alone[0]
    return call.arguments_text if call.parse_error else None


def is_generated(call: ToolCall) -> bool:
    return any(residual.get("~minted") for residual in call.extra.values())


def _arguments(given: Mapping[str, Any], call: ToolCall, path: str, *, as_text: bool) -> list[str]:
    """The arguments as values; and where the wire has them as text, in its very spelling."""
    raw, arguments = given.get("arguments_raw"), given["arguments"]
    if arguments is None and (raw or "").strip():  # a custom tool's, or broken ones
        return differences(raw, free_text(call), f"{path}.arguments, which are not JSON")
    blank = not ((raw or "").strip() or call.arguments)  # no text at all is no arguments, however it is said
    found = differences(raw, arguments_text(call), f"{path}.arguments as text") if as_text and not blank else []
    return found + differences(arguments or {}, call.arguments, f"{path}.arguments")


# --- usage: the conventions of each wire, in our disjoint buckets ----------------------------------------------------


def _usage(case: Case, message: AssistantMessage) -> list[str]:
    given = case.expected["usage"]
    if not given:
        return []
    if message.usage is None:
        return [f"usage: expected {shown(given)}, got none"]
    return differences(_USAGES[case.dialect_name](given), _buckets(message.usage, given), "usage")


def _buckets(usage: Usage, given: Mapping[str, Any]) -> dict[str, int | None]:
    return {
        "all input": usage.input + usage.cache_read + usage.cache_write,
        "cache read": usage.cache_read,
        "output": usage.output,
        "total": usage.total_tokens,
    }


def _anthropic(reported: Mapping[str, Any]) -> dict[str, int]:
    read, write = _count(reported, "cache_read_input_tokens"), _count(reported, "cache_creation_input_tokens")
    given, output = _count(reported, "input_tokens"), _count(reported, "output_tokens")
    everything = given + read + write
    return {"all input": everything, "cache read": read, "output": output, "total": everything + output}


def _completions(given: Mapping[str, Any]) -> dict[str, int]:
    details = given.get("prompt_tokens_details") or {}
    read = next((n for n in (_count(details, "cached_tokens"), *(_count(given, k) for k in _CACHED)) if n), 0)
    reasoning = _count(given.get("completion_tokens_details") or {}, "reasoning_tokens")
    return _openai(_count(given, "prompt_tokens"), _count(given, "completion_tokens"), read, reasoning, given)


_CACHED = ("prompt_cache_hit_tokens", "cache_read_input_tokens", "num_cached_tokens", "cached_tokens")


def _responses(given: Mapping[str, Any]) -> dict[str, int]:
    read = _count(given.get("input_tokens_details") or {}, "cached_tokens")
    reasoning = _count(given.get("output_tokens_details") or {}, "reasoning_tokens")
    return _openai(_count(given, "input_tokens"), _count(given, "output_tokens"), read, reasoning, given)


def _openai(given: int, output: int, read: int, reasoning: int, reported: Mapping[str, Any]) -> dict[str, int]:
    """All input counts what was cached. Reasoning is part of the output, unless the total says that it is not."""
    total = reported.get("total_tokens")
    if read > given:  # hosts that count the cache beside the prompt
        given += read
    if reasoning and total == given + output + reasoning:
        output += reasoning
    return {
        "all input": given,
        "cache read": read,
        "output": output,
        "total": given + output if total is None else total,
    }


def _google(reported: Mapping[str, Any]) -> dict[str, int]:
    given = _count(reported, "promptTokenCount") + _count(reported, "toolUsePromptTokenCount")
    output = _count(reported, "candidatesTokenCount") + _count(reported, "thoughtsTokenCount")
    return {
        "all input": given,
        "cache read": _count(reported, "cachedContentTokenCount"),
        "output": output,
        "total": reported.get("totalTokenCount", given + output),
    }


def _bedrock(given: Mapping[str, Any]) -> dict[str, int]:
    read, write = _count(given, "cacheReadInputTokens"), _count(given, "cacheWriteInputTokens")
    return {
        "all input": given["inputTokens"] + read + write,
        "cache read": read,
        "output": given["outputTokens"],
        "total": given["totalTokens"],
    }


def _ollama(reported: Mapping[str, Any]) -> dict[str, int]:
    given, output = _count(reported, "prompt_eval_count"), _count(reported, "eval_count")
    return {"all input": given, "cache read": 0, "output": output, "total": given + output}


def _count(given: Mapping[str, Any], key: str) -> int:
    return given.get(key) or 0


_USAGES: dict[str, Callable[[Mapping[str, Any]], dict[str, int]]] = {
    "anthropic-messages": _anthropic,
    "bedrock-invoke-anthropic": _anthropic,
    "bedrock-converse-stream": _bedrock,
    "google-generative-ai": _google,
    "google-vertex": _google,
    "ollama-chat": _ollama,
    "openai-completions": _completions,
    "openai-responses": _responses,
}


# --- why it ended ----------------------------------------------------------------------------------------------------


def _stop(case: Case, message: AssistantMessage) -> list[str]:
    found = _stop_word(case, message)
    usual = message.stop_reason not in ("length", "error", "aborted")
    if usual and (message.stop_reason == "toolUse") != bool(message.tool_calls):
        found.append(f"stop_reason: {message.stop_reason} with {len(message.tool_calls)} tool calls")
    return found


def _stop_word(case: Case, message: AssistantMessage) -> list[str]:
    expected = case.expected
    if expected.get("error"):
        return []  # the stream broke: there is no word for the end
    if expected.get("block_reason"):
        return differences("error", message.stop_reason, "stop_reason of a blocked prompt")
    word = expected.get("incomplete_reason") or expected["stop_reason"] or None
    return differences(word, message.stop_detail or None, "stop_detail")
