"""Large session files are read entry by entry, with the same result as their conversation."""

import contextlib
import gc
import gzip
import io
import json
import random
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard
from click.testing import CliRunner, Result
from msgspec.structs import replace

import interlingua as il
from interlingua.cli import bulk
from interlingua.cli import convert as convert_module
from interlingua.cli.convert import command as convert
from interlingua.cli.formats import check_command, detect_command
from interlingua.cli.formats import stats_command as stats
from interlingua.cli.show import command as show
from interlingua.conversion import arrays, large_sessions, sources
from interlingua.conversion.adapting import pieces
from interlingua.conversion.checks import check, check_large
from interlingua.conversion.large_encoding import encode_large
from interlingua.conversion.large_sessions import LargeSession, detect_large, is_large, open_large
from interlingua.conversion.sources import Source, SourceProblem, documents, first_objects
from interlingua.conversion.training import trainers
from interlingua.dialects import FORMATS, WIRES
from interlingua.dialects.files import templates
from interlingua.dialects.files.joining import unlike
from interlingua.dialects.files.qwen_code import HOOK as QWEN_HOOK
from interlingua.dialects.files.templates import beginning
from interlingua.dialects.registry import register, unregister
from interlingua.values import jsontext

WIRE = Path(__file__).parent / "wire"
STREAMED = sorted(name for name, form in FORMATS.items() if form.stream is not None)
FILES = sorted(path for name in STREAMED for path in (WIRE / name).glob("*.jsonl"))
NAMES = [f"{path.parent.name}/{path.name}" for path in FILES]

# One answer over lines that do not follow each other, a branch, a line twice, a sub-agent and a title.
CLAUDE = [
    {"type": "summary", "summary": "Eggs", "leafUuid": "u5"},
    {"type": "user", "uuid": "u1", "parentUuid": None, "message": {"role": "user", "content": "Count"}},
    *(
        {
            "type": "assistant",
            "uuid": uuid,
            "parentUuid": parent,
            "message": {
                "id": "m1",
                "type": "message",
                "role": "assistant",
                "model": "claude-x",
                "content": [{"type": "tool_use", "id": f"c{uuid}", "name": "Task", "input": {"prompt": "Look"}}],
                "stop_reason": "tool_use",
                "usage": {"input_tokens": 3, "output_tokens": 4},
            },
        }
        for uuid, parent in (("u2", "u1"), ("u3", "u2"))
    ),
    {
        "type": "user",
        "uuid": "s1",
        "parentUuid": None,
        "isSidechain": True,
        "message": {"role": "user", "content": "Look"},
    },
    *(
        {
            "type": "user",
            "uuid": uuid,
            "parentUuid": parent,
            "message": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call, "content": "12"}]},
        }
        for uuid, parent, call in (("u4", "u2", "cu2"), ("u5", "u3", "cu3"), ("u5", "u3", "cu3"))
    ),
    {"type": "user", "uuid": "u6", "parentUuid": "u4", "message": {"role": "user", "content": "Thanks"}},
    {"type": "user", "uuid": "u7", "parentUuid": "u1", "message": {"role": "user", "content": "Again"}},
]
# Two compactions that keep messages.
CLAUDE_COMPACTED = [
    *CLAUDE[:-1],
    *(
        line
        for number, kept, parent in ((1, ["u3", "u4", "u6"], "u6"), (2, ["u6", "v1"], "t2"))
        for line in (
            {
                "type": "system",
                "subtype": "compact_boundary",
                "uuid": f"b{number}",
                "parentUuid": None,
                "compactMetadata": {
                    "preservedSegment": {"headUuid": kept[0], "anchorUuid": f"t{number}", "tailUuid": kept[-1]},
                    "preservedMessages": {"anchorUuid": f"t{number}", "uuids": kept},
                },
            },
            {"type": "mode", "mode": "normal"},
            {
                "type": "user",
                "uuid": f"t{number}",
                "parentUuid": f"b{number}",
                "isCompactSummary": True,
                "message": {"role": "user", "content": f"Summary {number}"},
            },
            {
                "type": "user",
                "uuid": f"v{number}",
                "parentUuid": parent,
                "message": {"role": "user", "content": f"Later {number}"},
            },
        )
    ),
]
# Answers with usage that follows, and two turns that are taken back.
CODEX = [
    {"type": "session_meta", "payload": {"id": "s", "base_instructions": {"text": "Be short."}}},
    *(
        line
        for turn in range(4)
        for line in (
            {"type": "turn_context", "payload": {"model": f"gpt-{turn}"}},
            {
                "type": "response_item",
                "payload": {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
            },
            {"type": "response_item", "payload": {"type": "reasoning", "summary": [], "encrypted_content": "x"}},
            {"type": "event_msg", "payload": {"type": "agent_message", "message": "Yes"}},
            {
                "type": "response_item",
                "payload": {
                    "type": "message",
                    "role": "assistant",
                    "content": [{"type": "output_text", "text": "Yes"}],
                },
            },
            {
                "type": "event_msg",
                "payload": {
                    "type": "token_count",
                    "info": {
                        "total_token_usage": {"input_tokens": 9 * turn + 9, "output_tokens": turn},
                        "last_token_usage": {"input_tokens": 9, "output_tokens": 1},
                    },
                },
            },
            *([{"type": "event_msg", "payload": {"type": "thread_rolled_back", "num_turns": 2}}] if turn == 2 else []),
        )
    ),
]
TRANSCRIPT = [
    {"role": "session", "version": 1, "title": "Eggs"},
    {"role": "user", "content": "Hi", "id": "a", "parentId": None},
    {"role": "assistant", "content": "Yes", "id": "b", "parentId": "a"},
    {"role": "user", "content": "No", "id": "c", "parentId": "a"},
    {"role": "head", "target": "b"},
]
# Messages alone, as in the formal specification.
PLAIN = [
    {"role": "user", "content": "Look", "timestamp": 1},
    {"role": "assistant", "content": [{"type": "toolCall", "id": "c", "name": "ls", "arguments": {}}], "model": "m"},
    {"role": "toolResult", "toolCallId": "c", "toolName": "ls", "content": "12", "isError": False},
    {"role": "note", "text": "x"},
    {"role": "assistant", "content": "12", "stopReason": "stop", "model": "m"},
    {"role": "user", "content": "Thanks"},
]
# Records that grow, a rewound turn, and a history that was set anew.
GEMINI = [
    {"sessionId": "s", "projectHash": "p", "kind": "main"},
    {"id": "u1", "timestamp": "2026-01-01T00:00:00.000Z", "type": "user", "content": "Hi"},
    {"id": "g1", "timestamp": "2026-01-01T00:00:01.000Z", "type": "gemini", "content": "", "model": "gemini-x"},
    {"id": "u2", "timestamp": "2026-01-01T00:00:02.000Z", "type": "user", "content": "And?"},
    {"id": "g1", "timestamp": "2026-01-01T00:00:01.000Z", "type": "gemini", "content": "Yes", "model": "gemini-x"},
    {"$set": {"summary": "Eggs"}},
    {"id": "g2", "timestamp": "2026-01-01T00:00:03.000Z", "type": "gemini", "content": "No", "model": "gemini-y"},
    {"$rewindTo": "u2"},
    {"id": "u3", "timestamp": "2026-01-01T00:00:04.000Z", "type": "user", "content": "Well"},
]
GEMINI_SET = [
    *GEMINI,
    {"$set": {"messages": [GEMINI[1], {"type": "info", "content": "short"}]}},
    {"id": "u1", "timestamp": "2026-01-01T00:00:05.000Z", "type": "user", "content": "Anew"},
    {"id": "u4", "timestamp": "2026-01-01T00:00:06.000Z", "type": "user", "content": "More"},
]


def _qwen(uuid: str, parent: str | None, kind: str, **fields: Any) -> dict[str, Any]:
    return {"uuid": uuid, "parentUuid": parent, "sessionId": "s", "cwd": "/work", "type": kind, **fields}


# Fragments of one answer, a branch, a hook's text, a compression and a title.
QWEN = [
    _qwen("u", None, "user", message={"parts": [{"text": "How many?"}, {"text": f"{QWEN_HOOK}cold"}]}),
    *(
        _qwen("a", "u", "assistant", model="m", message={"parts": [part]})
        for part in ({"text": "Count", "thought": True}, {"functionCall": {"id": "c", "name": "ls", "args": {}}})
    ),
    _qwen("x", "a", "system", subtype="custom_title", systemPayload={"customTitle": "Eggs"}),
    _qwen("t", "x", "tool_result", message={"parts": [{"functionResponse": {"id": "c", "response": {"output": "9"}}}]}),
    _qwen("b", "u", "assistant", model="n", message={"parts": [{"text": "How many eggs are there?"}]}),
    _qwen(
        "z",
        "b",
        "system",
        subtype="chat_compression",
        systemPayload={"compressedHistory": [{"parts": [{"text": "So far"}]}, {"role": "model", "parts": []}]},
    ),
    _qwen("v", "z", "user", message={"parts": [{"text": "How many eggs are there?"}]}),
    {"type": "user", "sessionId": "s", "message": {"parts": [{"text": "No id"}]}},
]
# A summary in the place of what came before, and what the command prints.
DROID = [
    {"type": "session_start", "id": "s", "title": "A title of some length", "cwd": "/work"},
    *(
        line
        for text in ("First", "Again", "Then")
        for line in (
            {"type": "message", "message": {"role": "user", "content": text}},
            {"type": "message", "message": {"role": "assistant", "content": [{"type": "text", "text": text}]}},
            {"type": "compaction_state", "summaryText": f"{text} was asked, and answered"},
        )
    ),
    {"type": "message", "message": {"role": "assistant", "model": "m", "content": "A title of some length"}},
]
DROID_OUTPUT = [
    {"type": "system", "model": "m"},
    {"type": "message", "role": "user", "text": "Count"},
    {"type": "message", "role": "assistant", "text": "I count."},
    {"type": "tool_call", "id": "c", "toolName": "ls", "parameters": {}},
    {"type": "tool_call", "toolName": "cat", "parameters": {"a": 1}},
    {"type": "tool_result", "id": "c", "value": "12"},
    {"type": "tool_call", "id": "d", "toolName": "ls", "parameters": {}},
    {"type": "tool_result", "id": "d", "value": [{"type": "text", "text": "13"}]},
    {"type": "message", "role": "assistant", "text": "Twelve."},
    {"type": "completion", "finalText": "Twelve, or thirteen.", "usage": {"input_tokens": 1, "output_tokens": 2}},
]


def _event(id: str | None, kind: str, **data: Any) -> dict[str, Any]:
    line = {"type": kind, "data": data, "id": id, "timestamp": "2026-01-01T00:00:00.000Z", "parentId": None}
    return {key: value for key, value in line.items() if key != "id" or id is not None}


def _asks(id: str, *calls: str, **data: Any) -> dict[str, Any]:
    requests = [{"toolCallId": call, "name": "task", "arguments": {}} for call in calls]
    return _event(id, "assistant.message", content="", toolRequests=requests, **data)


# Results far behind their calls, before them and for two of them; a sub-agent, and a session that goes back twice.
COPILOT = [
    _event("0", "session.start", selectedModel="m"),
    _event("1", "tool.execution_complete", toolCallId="early", result={"content": "before its call"}),
    _event("2", "user.message", content="How many?"),
    _asks("3", "t", "u", "early", "none"),
    _event("4", "user.message", content="Look", parentToolCallId="t"),
    _asks("5", "v", parentToolCallId="t"),
    _event("6", "tool.execution_complete", toolCallId="v", result="5"),
    _event("7", "tool.execution_complete", toolCallId="u", success=False, error={"message": "no"}),
    _event("8", "tool.execution_complete", toolCallId="u", result={"content": "yes"}),
    _event("9", "tool.execution_complete", toolCallId="t", result={"content": "12 eggs in all"}),
    _asks("10", "u", ""),
    _event(None, "user.message", content="No id"),
    _event("11", "session.snapshot_rewind", upToEventId="10"),
    _event("12", "session.title_changed", title="Eggs"),
    _event("2", "user.message", content="12 eggs in all"),
    _event("13", "session.snapshot_rewind", upToEventId="none"),
    _event("14", "user.message", content="Anew"),
]
# Messages that a compaction took from the model, and notices.
GOOSE = [
    {"working_dir": "/work", "description": "Eggs", "model_config": {"model_name": "m"}},
    *(
        {
            "role": role,
            "created": at,
            "content": [{"type": "text", "text": f"Text number {at // 2}"}],
            "metadata": {"agentVisible": at > 3 and at != 6, "userVisible": at != 5},
        }
        for at, role in enumerate(["user", "assistant"] * 5)
    ),
    {"role": "user", "created": 9, "content": [{"type": "toolResponse", "id": "c", "toolResult": {"value": "x"}}]},
]
GROK = [
    {"type": "system", "content": "Be short."},
    {"type": "user", "content": "Count", "prompt_index": 0},
    {"type": "reasoning", "summary": [{"text": "Hm"}]},
    {"type": "assistant", "content": "", "tool_calls": [{"id": "c", "name": "ls", "arguments": "{}"}], "model_id": "m"},
    {"type": "tool_result", "tool_call_id": "c", "content": "12"},
    {"type": "reasoning", "encrypted_content": "sealed"},
    {"type": "user", "content": "Well?", "synthetic_reason": "reminder"},
    {"type": "reasoning", "summary": [{"text": "Hm, hm"}]},
]
KIRO = [
    *(
        {"version": "v1", "kind": kind, "data": {"content": [{"kind": "text", "data": f"Text {at}"}]}}
        for at, kind in enumerate(["Prompt", "AssistantMessage"] * 2)
    ),
    {"version": "v1", "kind": "Compaction", "data": {"summary": "They counted all of the eggs"}},
    {"version": "v1", "kind": "Prompt", "data": {"content": [{"kind": "text", "data": "Again"}]}},
    {"version": "v1", "kind": "Clear", "data": {}},
    {
        "version": "v1",
        "kind": "Prompt",
        "data": {"content": [{"kind": "text", "data": "They counted all of the eggs"}]},
    },
]
GPTME = [
    {"role": role, "content": text, "timestamp": "2026-01-02T03:04:05+00:00", **more}
    for role, text, more in (
        ("system", "You are a bot", {"pinned": True}),
        ("system", "Tools: shell", {"hide": True}),
        ("user", [{"type": "text", "text": "Count all of them"}], {}),
        ("assistant", "Count all of them", {"metadata": {"model": "m"}}),
        ("system", "Ran command", {}),
    )
]
VIBE = [
    {"role": "user", "content": "Hi", "injected": False, "message_id": "1"},
    {"role": "user", "content": "Be brief.", "injected": True, "message_id": "2"},
    {
        "role": "assistant",
        "content": "I look.",
        "injected": False,
        "reasoning_content": "Look.",
        "tool_calls": [{"id": "c", "type": "function", "function": {"name": "ls", "arguments": "{}"}}],
    },
    {"role": "tool", "content": "a", "injected": False, "name": "ls", "tool_call_id": "c"},
]
JAN = [
    {
        "object": "thread.message",
        "role": role,
        "content": [{"type": "text", "text": {"value": text, "annotations": []}}],
        "created_at": 1771340000000,
    }
    for role, text in (("user", "Hi"), ("assistant", "Hello."), ("user", "Bye"))
]
HERMES = [
    {"role": "session_meta", "model": "m", "title": "Eggs", "system_prompt": "Be short.", "input_tokens": 3},
    {"role": "system", "content": "Be shorter still"},
    {"role": "user", "content": "Count"},
    {"role": "assistant", "content": "", "tool_calls": [{"id": "c", "function": {"name": "ls", "arguments": "{}"}}]},
    {"role": "tool", "tool_call_id": "c", "content": "12"},
    {"role": "tool", "content": "13"},
    {"role": "system", "content": "Be shorter still"},
    {"role": "other", "content": "x"},
]
SILLY = [
    {"user_name": "You", "character_name": "Seraphina"},
    {
        "name": "S",
        "is_user": False,
        "mes": "Welcome, dear guest",
        "swipes": ["Hi", "Welcome, dear guest"],
        "swipe_id": 1,
    },
    {"name": "You", "is_user": True, "mes": "Count"},
    {
        "name": "S",
        "is_user": False,
        "is_system": True,
        "mes": "tools",
        "extra": {"tool_invocations": [{"id": "c", "name": "ls", "parameters": "{}", "result": "12"}] * 2},
    },
    {"name": "S", "is_user": False, "mes": "12", "extra": {"model": "m"}, "swipes": ["12", "13"], "swipe_id": 0},
    {"name": "S", "is_user": False, "mes": "It rains", "extra": {"type": "narrator"}},
]


def _step(at: int, source: str, kind: str, **fields: Any) -> dict[str, Any]:
    return {"step_index": at, "source": source, "type": kind, "created_at": "2026-06-11T20:43:42Z", **fields}


# Results under names of their own and those of other calls, and steps without a call.
ANTIGRAVITY = [
    _step(0, "MODEL", "VIEW_FILE", content="before all"),
    _step(1, "USER_EXPLICIT", "USER_INPUT", content="<USER_REQUEST>\nCount\n</USER_REQUEST>\nnow"),
    _step(2, "MODEL", "PLANNER_RESPONSE", tool_calls=[{"name": "list_dir"}, {"name": "view_file", "args": {}}]),
    _step(3, "MODEL", "VIEW_FILE", content="twelve eggs in it"),
    _step(4, "SYSTEM", "NOTE", content="be quick"),
    _step(5, "MODEL", "LIST_DIRECTORY", content="a\nb", status="ERROR"),
    _step(6, "MODEL", "CODE_ACTION", content="twelve eggs in it"),
    _step(7, "USER_EXPLICIT", "PLANNER_RESPONSE", content="odd"),
    _step(8, "MODEL", "PLANNER_RESPONSE", content="Done", model="m"),
]


def _loop(kind: str, step: str | None = None, **fields: Any) -> dict[str, Any]:
    own = {"uuid" if kind.startswith("step") else "stepUuid": step} if step else {}
    return {"type": "context.append_loop_event", "event": {"type": kind, **own, **fields}, "time": 1785397665000}


def _say(role: str, content: Any, **fields: Any) -> dict[str, Any]:
    return {"type": "context.append_message", "message": {"role": role, "content": content, **fields}}


# Parts of steps that are over, prompts that are taken back, compactions that keep the last messages, and usage.
KIMI = [
    {"type": "metadata", "protocol_version": "1.4"},
    _say("user", "How many eggs are there?", origin={"kind": "user"}),
    _loop("step.begin", "s"),
    {"type": "llm.request", "model": "m"},
    _loop("content.part", "s", part={"type": "text", "text": "I count."}),
    _loop("tool.call", "s", toolCallId="c", name="Glob", args={}),
    _loop("tool.result", toolCallId="c", result={"output": "Twelve of them"}),
    _loop("step.begin", "t"),
    _loop("content.part", "s", part={"type": "text", "text": "Late"}),
    _loop("step.end", "s", usage={"inputOther": 1, "output": 2}),
    _loop("content.part", part={"type": "text", "text": "Twelve of them"}),
    {"type": "usage.record", "model": "n", "usage": {"inputOther": 1, "output": 2}},
    _say("user", "Wrong", origin={"kind": "user"}),
    {"type": "context.undo", "count": 1},
    _say("user", "Right", origin={"kind": "user"}),
    {"type": "context.apply_compaction", "compactedCount": 3, "summary": "So far"},
    _loop("content.part", "t", part={"type": "text", "text": "Still"}),
    _loop("content.part", "u", part={"type": "text", "text": "Unknown step"}),
    {"type": "context.apply_compaction", "compactedCount": 1, "summary": "So far and further"},
    {"type": "usage.record", "model": "n", "usage": {"inputOther": 1, "output": 2}},
    {"type": "context.undo", "count": 1},
    _say("assistant", "Done", toolCalls=[{"id": "d", "name": "Glob", "arguments": "{}"}]),
    {"type": "context.clear"},
    _say("user", "How many eggs are there?", origin={"kind": "user"}),
]
KIMI_CONTEXT = [
    {"role": "_system_prompt", "content": "You are Kimi"},
    {"role": "user", "content": "You are Kimi"},
    {"role": "_checkpoint", "id": 0},
    {"role": "assistant", "content": "", "tool_calls": [{"id": "c", "function": {"name": "ls", "arguments": "{}"}}]},
    {"role": "tool", "tool_call_id": "c", "content": "12"},
]
MADE = {
    "kimi": KIMI,
    "kimi-context": KIMI_CONTEXT,
    "qwen-code": QWEN,
    "droid": DROID,
    "droid-output": DROID_OUTPUT,
    "copilot-cli": COPILOT,
    "goose": GOOSE,
    "goose-unread": [*GOOSE[:4], *GOOSE[7:8]],
    "grok": GROK,
    "kiro": KIRO,
    "gptme": GPTME,
    "hermes": HERMES,
    "vibe": VIBE,
    "jan": JAN,
    "silly-tavern": SILLY,
    "antigravity": ANTIGRAVITY,
    "claude-code": CLAUDE,
    "claude-code-compacted": CLAUDE_COMPACTED,
    "codex-cli": CODEX,
    "transcript": TRANSCRIPT,
    "transcript-plain": PLAIN,
    "transcript-ids": [{**line, "id": f"i{at}"} for at, line in enumerate(PLAIN)],
    "transcript-roots": [
        TRANSCRIPT[0],
        {"role": "toolResult", "toolCallId": "x", "content": "1", "isError": False, "id": "r", "parentId": None},
        {"role": "user", "content": "Hi", "id": "s", "parentId": None},
    ],
    "transcript-mixed": [
        {"role": "note", "text": "first"},
        *TRANSCRIPT[1:3],
        {"role": "summary", "text": "x"},
        {"role": "journal", "kind": "end", "callId": "c", "result": {"content": "12"}},
        {"role": "user", "content": "Anew", "id": "d", "parentId": None},
        {"role": "user", "content": "No id", "parentId": None},
        TRANSCRIPT[3],
    ],
    "gemini-cli": GEMINI,
    "gemini-cli-set": GEMINI_SET,
    "gemini-cli-plain": [GEMINI[at] for at in (0, 1, 4, 3)],
    "gemini-cli-rewound": [*GEMINI, {"$rewindTo": "u1"}],
}


# Of the formats that are kept as templates, a command reads all in the same way.
TEMPLATES = sorted(
    {name for name in STREAMED if FORMATS[name].copy is None} - {"transcript", "openclaw", "gemini-cli", "qwen-code"}
)
COMMANDED = [name for name in (*NAMES, *MADE) if not name.startswith(tuple(TEMPLATES))]
commanded = pytest.mark.parametrize("path", COMMANDED, indirect=True)


@pytest.fixture(params=[*NAMES, *MADE])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    if request.param in MADE:
        made = tmp_path / f"{request.param}.jsonl"
        made.write_bytes(lines_of(MADE[request.param]))
        return made
    return WIRE / request.param


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Histories are checked in as many pieces as possible."""
    monkeypatch.setattr(pieces, "MESSAGES", 1)


def lines_of(values: list[Any]) -> bytes:
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


def conversation_in(session: LargeSession) -> il.Conversation:
    entries = tuple(session.entries())
    return replace(session.about, entries=entries, head=session._stream.head, problems=())


def same_as_whole(path: Path) -> bool:
    """Compares the two ways to read a file; False if it is only read as a whole."""
    torn: list[SourceProblem] = []
    session = open_large(Source(path), None, torn)
    if session is None:
        return False
    problems: list[SourceProblem] = []
    (document,) = documents(Source(path), None, problems)
    name = unlike_whole(session, document.data)
    whole = replace(il.decode(document.data, name), problems=())
    known = replace(whole, extra=beginning(whole.extra)) if session.is_partial else whole
    assert conversation_in(session) == known
    assert torn == problems
    on_path = zip(session.path(), session.entries(), strict=True)
    assert tuple(entry for is_on_path, entry in on_path if is_on_path) == whole.path()
    assert b"".join(session.transcript()) == il.encode(whole, "transcript").bytes()
    assert b"".join(session.json()) == il.encode(il.decode(document.data, name), "interlingua").bytes()
    assert check_large(session, unnamed=name is None) == check(document.data, name)
    return True


def unlike_whole(session: LargeSession, data: Any) -> str | None:
    """The format of a session, if all of its lines are not detected as it: only the first lines of a file are."""
    found = il.detect(data)
    return None if found is not None and found.dialect == session.dialect else session.dialect


def test_entries_path_transcript_and_findings_are_those_of_the_conversation(path: Path) -> None:
    """With title, usage, model and head."""
    assert same_as_whole(path)


@pytest.mark.parametrize("seed", range(5))
def test_so_are_those_of_a_file_with_other_lines(path: Path, tmp_path: Path, seed: int) -> None:
    """Lines missing, twice, in another order, torn, or without one of their keys."""
    chance = random.Random(seed)
    lines = path.read_bytes().splitlines(keepends=True)
    for number in range(10):
        changed = list(lines)
        for _ in range(chance.randrange(1, 4)):
            chance.choice(CHANGES)(changed, chance)
        made = tmp_path / f"{number}.jsonl"
        made.write_bytes(b"".join(changed))
        same_as_whole(made)


LISTED = {
    name: (*form.listed.keys, *form.listed.nodes) for name, form in sorted(FORMATS.items()) if form.listed is not None
}
DOCUMENTS = sorted(path for name in LISTED for path in (WIRE / name).glob("*.json"))
WHOLE = (WIRE / "otel" / "openinference.json",)  # a list of spans: the conversation is that of the last call


def _swe(role: str, content: str, **fields: Any) -> dict[str, Any]:
    return {"role": role, "content": content, "agent": "main", **fields}


_SWE_CALL = {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}
SWE = [
    _swe("system", "You are a programmer."),
    _swe("user", "Count the eggs in the basket"),
    _swe("assistant", "I look into the basket", tool_calls=[_SWE_CALL], action="ls"),
    _swe("tool", "twelve eggs and a hen", tool_call_ids=["c1"]),
]
SWE_STEPS = [{"action": "ls", "observation": "twelve eggs and a hen", "thought": f"step {at}"} for at in range(30)]
OPENHANDS_EVENTS: list[Any] = json.loads((WIRE / "openhands" / "trajectory.json").read_bytes())
WEBUI: list[Any] = json.loads((WIRE / "open-webui" / "export.json").read_bytes())
CHATGPT: dict[str, Any] = json.loads((WIRE / "chatgpt-export" / "conversation.json").read_bytes())
THREAD: list[Any] = json.loads((WIRE / "openai-assistants" / "list.json").read_bytes())["data"]
ATTO: dict[str, Any] = json.loads((WIRE / "attocode" / "chat.json").read_bytes())
CLAW: dict[str, Any] = json.loads((WIRE / "clawtools" / "tool_loop.json").read_bytes())
# Calls with and without ids, parallel ones, and a picture that was moved behind its result.
CONTENTS = [
    {"role": "user", "parts": [{"text": "How many eggs are in the basket?"}]},
    {
        "role": "model",
        "parts": [
            {"functionCall": {"name": "look", "args": {"at": "basket"}}},
            {"functionCall": {"name": "look", "args": {"at": "nest"}}},
        ],
    },
    {
        "role": "user",
        "parts": [
            {"functionResponse": {"name": "look", "response": {"output": "twelve eggs"}}},
            {"functionResponse": {"name": "look", "response": {"output": "(see what follows the results)"}}},
        ],
    },
    {
        "role": "user",
        "parts": [
            {"text": "Attached to tool result 2 (look):"},
            {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}},
        ],
    },
    {"role": "model", "parts": [{"text": "Hm", "thought": True}, {"functionCall": {"id": "c1", "name": "count"}}]},
    {"role": "user", "parts": [{"functionResponse": {"id": "c1", "name": "count", "response": {"result": 12}}}]},
    {"role": "model", "parts": [{"text": "Twelve."}]},
]
# Documents with several lists, with their lists in other places, and of programs' first versions.
MADE_DOCUMENTS: dict[str, Any] = {
    "opencode-compacted": {
        "info": {"id": "s", "title": "Eggs"},
        "messages": [
            {
                "info": {"id": id, "role": role, "parentID": parent, "summary": id == "m6", "finish": "stop"},
                "parts": [
                    {"type": "compaction", "tail_start_id": "m3"}
                    if id == "m5"
                    else {"type": "text", "text": f"{id} eggs"}
                ],
            }
            for id, role, parent in (
                *(("m1", "user", None), ("m2", "assistant", "m1"), ("m3", "user", None), ("m4", "assistant", "m3")),
                *(("m5", "user", None), ("m6", "assistant", "m5"), ("m7", "user", None), ("m8", "assistant", "m7")),
            )
        ],
    },
    "open-webui-row": WEBUI[0],
    "open-webui-chat": WEBUI[0]["chat"],
    "open-webui-plain": [{**WEBUI[0], "chat": {"history": WEBUI[0]["chat"]["history"]}}],
    "chatgpt-list": [CHATGPT],
    "chatgpt-backwards": {**CHATGPT, "mapping": dict(reversed(CHATGPT["mapping"].items()))},
    "chatgpt-children": {
        **CHATGPT,
        "mapping": {
            key: {field: value for field, value in node.items() if field not in ("parent", "id")}
            for key, node in CHATGPT["mapping"].items()
        },
    },
    "assistants-thread": {"id": "t", "object": "thread", "messages": {"object": "list", "data": THREAD[::-1]}},
    "assistants-list": THREAD,
    "chatbox": {
        "id": "s",
        "name": "Eggs",
        "settings": {"modelId": "m"},
        "threads": [{"messages": []}],
        "messages": [
            {"id": "0", "role": "system", "contentParts": [{"type": "text", "text": "Be short."}]},
            {"id": "1", "role": "user", "contentParts": [{"type": "text", "text": "How many eggs?"}]},
            {"id": "2", "role": "assistant", "contentParts": [{"type": "text", "text": "Twelve."}]},
        ],
    },
    "cursor-store": {
        "agent": {"agentId": "a", "latestRootBlobId": "0" * 64, "name": "Eggs", "lastUsedModel": "m"},
        "messages": [
            {"role": "system", "content": "Count well, and be short."},
            {"role": "user", "content": [{"type": "text", "text": "How many eggs are in the basket?"}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "reasoning", "text": "I look into the basket", "signature": "sig"},
                    {"type": "tool-call", "toolCallId": "c1", "toolName": "Read", "args": {"path": "basket"}},
                ],
            },
            {
                "role": "tool",
                "content": [
                    {"type": "tool-result", "toolCallId": "c1", "toolName": "Read", "result": "twelve eggs and a hen"}
                ],
            },
            {"role": "system", "content": "The basket is closed."},
            {"role": "assistant", "content": "Twelve."},
        ],
    },
    "gemini-cli-history": {"authType": "oauth-personal", "history": CONTENTS},
    "gemini-cli-restored": {"history": [{"type": "user", "text": "Hi"}], "clientHistory": CONTENTS, "commitHash": "c"},
    "attocode-list": ATTO["messages"],
    "attocode-mistakes": {**ATTO, "messages": [*ATTO["messages"], {"role": "tool", "content": None}]},
    "clawtools-list": CLAW["messages"],
    "clawtools-mistakes": {**CLAW, "system": "Be long.", "messages": [*CLAW["messages"], {"role": "tool"}]},
    "le-chat": [
        {"id": id, "chatId": "c", "role": role, "content": id * 20, "createdAt": f"2026-01-0{day}T00:00:00Z", **more}
        for id, role, day, more in (
            ("b", "assistant", 2, {"parentId": "a"}),
            ("a", "user", 1, {"parentId": None}),
            ("d", "user", 4, {"parentId": "b"}),
            ("c", "assistant", 3, {"parentId": "a", "version": 1}),
        )
    ],
    "swe-agent": {"environment": "main", "trajectory": SWE_STEPS, "history": SWE, "info": {"exit_status": "done"}},
    "swe-agent-behind": {"history": SWE, "info": {}, "trajectory": SWE_STEPS},
    "swe-agent-mixed": {"trajectory": [*SWE_STEPS, 5, *SWE_STEPS], "history": SWE, "messages": ["a"], "requests": [{}]},
    "openhands": {"instance_id": "i", "metadata": {"events": 1}, "history": OPENHANDS_EVENTS, "metrics": {}},
    "openhands-events": {"instance_id": "i", "history": None, "events": OPENHANDS_EVENTS},
    "codex-cli": {
        "session": {"id": "s", "timestamp": "2025-05-01T00:00:00.000Z", "instructions": "Be short."},
        "items": [
            {"role": "user", "content": [{"type": "input_text", "text": "Hi"}], "type": "message"},
            {"id": "r", "type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm"}]},
            {"type": "function_call", "name": "shell", "arguments": '{"command": ["ls"]}', "call_id": "c1"},
            {"type": "function_call_output", "call_id": "c1", "output": '{"output": "eggs", "metadata": {}}'},
            {"role": "assistant", "content": [{"type": "output_text", "text": "Eggs."}], "type": "message"},
        ],
        "more": 1,
    },
    "librechat": {
        "conversationId": "c",
        "title": "Eggs",
        "messages": [
            {"messageId": "b", "parentMessageId": "a", "text": "Twelve", "isCreatedByUser": False, "model": "m"},
            {"messageId": "a", "parentMessageId": "0", "text": "How many?", "isCreatedByUser": True},
            {"messageId": "c", "parentMessageId": "b", "text": "Thanks", "isCreatedByUser": True},
            {"messageId": "d", "parentMessageId": "a", "text": "Ten", "isCreatedByUser": False, "model": "m"},
        ],
    },
}


# Texts with turns beside the path, without white space around them, and of other programs' line ends.
TEXTS = {
    "specstory": (WIRE / "specstory" / "session.md").read_bytes(),
    "specstory-branches": b"""<!-- Generated by SpecStory -->\r
# Eggs\r
_**User (2026-01-01 00:00:00Z)**_
How many?
---
_**Agent - sidechain (m)**_

---

_**Agent - sidechain (m)**_
I look\x0cinto it

---
_**Agent (model n, mode Agent)**_

Twelve \xff eggs.
---
""",
    "aider": b"""
# aider chat started at 2026-01-01 00:00:00

> Main model: m with diff edit format
> Repo-map: none

#### How many?

Twelve.\x0c
# aider is a duck

#### /ask
#### And now?
> Tokens: 3
Ten \xff eggs.

""",
}
TEXT_FORMS = {name: next(form for form in FORMATS if name.startswith(form)) for name in TEXTS}


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", TEXTS)
def test_so_are_those_of_a_text(tmp_path: Path, name: str, seed: int) -> None:
    """Also with other lines."""
    chance = random.Random(seed)
    for number in range(5 if seed else 1):
        lines = TEXTS[name].splitlines(keepends=True)
        for _ in range(chance.randrange(1, 4) if seed else 0):
            chance.choice(TEXT_CHANGES)(lines, chance)
        path = tmp_path / f"{number}.md"
        path.write_bytes(b"".join(lines))
        found = il.detect(path.read_bytes())
        if found is None or found.dialect != TEXT_FORMS[name] or len(list(documents(Source(path), None, []))) > 1:
            continue
        assert same_as_whole(path) or seed
        encodes_the_same(path, *SESSIONS, *ROWS, TEXT_FORMS[name])


def listed_in(document: Any, keys: tuple[str, ...]) -> list[Any] | dict[str, Any]:
    """The items of a document that are read one at a time."""
    if isinstance(document, list) and "" in keys:
        return document
    found: list[Any] = []
    for key in filter(None, keys):
        templates.put(document, key, found.append)
    return next((items for items in found if isinstance(items, list | dict)), [])


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("source", [*DOCUMENTS, *MADE_DOCUMENTS], ids=lambda source: str(source)[-40:])
def test_so_are_those_of_a_document_with_a_list_of_messages(source: Any, tmp_path: Path, seed: int) -> None:
    """Also with other items; nothing is streamed that is only read as a whole."""
    chance, is_file = random.Random(seed), isinstance(source, Path)
    given = source.read_bytes() if is_file else json.dumps(MADE_DOCUMENTS[source]).encode()
    detected = il.detect(given)
    if detected is None:
        return
    name = source.parent.name if is_file else detected.dialect
    for number in range(5 if seed else 1):
        document = json.loads(given)
        found = listed_in(document, LISTED[name])
        for _ in range(chance.randrange(1, 4) if seed and found else 0):
            if isinstance(found, dict):
                _change_fields(found, chance)
            else:
                chance.choice(ITEM_CHANGES)(found, chance)
        made = tmp_path / f"{number}.json"
        made.write_text(json.dumps(document, indent=chance.choice([None, 2])))
        if il.detect(made.read_bytes()) is None:
            continue
        streamed = same_as_whole(made)
        assert streamed == (source not in WHOLE) or seed or not found, made
        encodes_the_same(made, *(TARGETS if seed < 2 else SESSIONS), name)


def _drop_item(items: list[Any], chance: random.Random) -> None:
    if len(items) > 1:
        del items[chance.randrange(len(items))]


def _repeat_item(items: list[Any], chance: random.Random) -> None:
    items.insert(chance.randrange(len(items) + 1), json.loads(json.dumps(chance.choice(items))))


def _omit_from_item(items: list[Any], chance: random.Random) -> None:
    item = chance.choice(items)
    if isinstance(item, dict) and item:
        del item[chance.choice(list(item))]


def _scalar_item(items: list[Any], chance: random.Random) -> None:
    items.insert(chance.randrange(len(items) + 1), chance.choice([None, 5, "text", [1]]))


def _change_fields(fields: dict[str, Any], chance: random.Random) -> None:
    """The same of an object: also in another order, and with values under another key."""
    items = list(fields.items())
    match chance.randrange(5):
        case 0:
            del items[chance.randrange(len(items)) :][1:]
        case 1:
            items.append((f"{items[0][0]}-again", json.loads(json.dumps(chance.choice(items)[1]))))
        case 2:
            _omit_from_item([value for _, value in items], chance)
        case 3:
            items.append(("other", chance.choice([None, 5, "text", [1]])))
        case _:
            chance.shuffle(items)
    fields.clear()
    fields.update(items)


ITEM_CHANGES: list[Callable[[list[Any], random.Random], None]] = [
    _drop_item,
    _repeat_item,
    _repeat_item,
    _omit_from_item,
    _scalar_item,
]


SESSIONS = sorted(name for name, form in FORMATS.items() if form.writer or (form.tree_writer and form.lines))
ROWS = sorted(name for name, form in FORMATS.items() if form.rows or (form.tree_writer and not form.lines))
TARGETS = [*SESSIONS, *sorted(WIRES), *ROWS]


class Lost(list[il.Loss]):
    """Losses of all stages."""

    def add(self, stage: int, loss: il.Loss) -> None:
        self.append(loss)


def encodes_the_same(path: Path, *targets: str) -> bool:
    """Compares sessions of other programs that are written message by message; False if one is written as a whole."""
    problems: list[SourceProblem] = []
    whole: il.Conversation | None = None
    streamed = 0
    for target in targets:
        session = open_large(Source(path), None, problems)
        losses = Lost()
        found = None if session is None else encode_large(session, target, losses)
        if found is None:
            continue
        if whole is None:  # read once for all targets
            (document,) = documents(Source(path), None, problems)
            whole = il.decode(document.data, unlike_whole(session, document.data))
        expected = il.encode(whole, target)
        assert b"".join(found.parts()) == expected.bytes(), target
        assert Counter(losses) == Counter(expected.losses), target
        streamed += 1
    return streamed == len(targets)


@pytest.mark.parametrize("seed", range(6))
def test_sessions_of_other_programs_are_those_of_the_conversation(path: Path, tmp_path: Path, seed: int) -> None:
    """Also of files with other lines."""
    chance = random.Random(seed)
    lines = path.read_bytes().splitlines(keepends=True)
    for number in range(10 if seed else 1):
        changed = list(lines)
        for _ in range(chance.randrange(1, 4) if seed else 0):
            chance.choice(CHANGES)(changed, chance)
        made = tmp_path / f"{number}.jsonl"
        made.write_bytes(b"".join(changed))
        encodes_the_same(made, *(TARGETS if seed < 2 else SESSIONS))
        session = open_large(Source(made), None, [])
        if session is not None and session.is_partial:
            assert encodes_the_same(made, session.dialect)  # returned as it was


TEMPLATED = [path for path in (*FILES, *DOCUMENTS) if FORMATS[path.parent.name].copy is None]


@pytest.mark.parametrize("window", [None, 1])
@pytest.mark.parametrize(
    "source",
    [*TEMPLATED, *MADE],
    ids=lambda source: source if isinstance(source, str) else f"{source.parent.name}/{source.name}",
)
def test_a_file_returns_from_a_transcript_of_its_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: Any, window: int | None
) -> None:
    """Also if the records are forgotten before their entries are read: then less of them is in the messages alone."""
    monkeypatch.setattr(templates, "WINDOW", window or templates.WINDOW)
    path = source if isinstance(source, Path) else tmp_path / "s.jsonl"
    if not isinstance(source, Path):
        path.write_bytes(lines_of(MADE[source]))
    session = open_large(Source(path), None, [])
    if session is None or not session.is_partial:
        return
    (document,) = documents(Source(path), None, [])
    made = tmp_path / "transcript.jsonl"
    made.write_bytes(b"".join(session.transcript()))
    assert same_as_whole(made)
    for again in (il.decode(made.read_bytes()), il.decode(b"".join(session.json()))):
        assert il.encode(again, session.dialect).body == document.data
        assert not il.encode(again, session.dialect).losses
    # Records of a transcript are read in their order alone.
    assert encodes_the_same(made, session.dialect) or session.dialect in ("le-chat", "lobe-chat", "openai-assistants")
    for again in (il.Session.open(made).conversation(), *il.read(made)):
        assert il.encode(again, session.dialect).body == document.data


def test_a_transcript_with_the_records_in_its_first_line_is_read_and_written_as_it_is() -> None:
    """Transcripts were once written so."""
    whole = il.decode(lines_of(QWEN), "qwen-code")
    first, *rest = il.encode(whole, "transcript").body
    kept = {"qwen-code": {**first["extra"]["qwen-code"], "~file": whole.extra["qwen-code"]["~file"]}}
    old = [{**first, "extra": kept}, *rest[len(QWEN) :]]
    again = il.decode(lines_of(old))
    assert il.encode(again, "transcript").body == old
    assert il.encode(again, "qwen-code").body == QWEN


@pytest.mark.parametrize("lost", [1, 5, len(QWEN)])
def test_a_transcript_without_one_of_its_records_is_not_returned_as_another_file(tmp_path: Path, lost: int) -> None:
    """It is read all the same, and written as it is."""
    lines = list(il.encode(il.decode(lines_of(QWEN), "qwen-code"), "transcript").body)
    del lines[lost]
    path = tmp_path / "s.jsonl"
    path.write_bytes(lines_of(lines))
    assert same_as_whole(path)
    again = il.decode(lines_of(lines))
    assert il.encode(again, "transcript").body == lines
    assert again.path() == il.decode(lines_of(QWEN), "qwen-code").path()
    session = open_large(Source(path), None, [])
    assert session is not None and again.problems == session.about.problems
    assert ["records of the file are missing"] == [problem.message.partition(":")[0] for problem in again.problems]
    with pytest.raises(il.Unsupported, match="records of the file"):
        il.encode(again, "qwen-code")


@pytest.mark.parametrize(
    ("old", "new", "is_streamed"),
    [("How many?", "How few?", True), ('"model":"n"', '"model":"o"', False), ('"title":"Eggs"', '"title":"Ham"', True)],
)
@pytest.mark.parametrize("near", [1, 100])
def test_a_transcript_with_records_that_was_edited_returns_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str, is_streamed: bool, near: int
) -> None:
    """With the text as it is now, where the file has a place for it; else as a whole, with a loss."""
    monkeypatch.setattr(templates, "NEAR", near)
    lines = il.encode(il.decode(lines_of(QWEN), "qwen-code"), "transcript").bytes().decode().splitlines(keepends=True)
    edited = [line.replace(old, new) if '"record"' not in line else line for line in lines]
    assert edited != lines
    path = tmp_path / "s.jsonl"
    path.write_text("".join(edited))
    assert encodes_the_same(path, "qwen-code") is is_streamed
    assert is_streamed or il.encode(il.decode(path.read_bytes()), "qwen-code").losses


def test_records_of_a_transcript_are_not_searched() -> None:
    """They are no messages."""
    lines = il.encode(il.decode(lines_of(QWEN), "qwen-code"), "transcript").body
    reader = FORMATS["transcript"].line_reader(lines, None)
    read = [message.role for line in lines for _, message in reader.read(line)]
    assert [entry.message.role for entry in il.decode(lines_of(QWEN), "qwen-code").entries] == read


COPIED = sorted(name for name, form in FORMATS.items() if form.copy is not None)


@pytest.mark.parametrize("path", [name for name in [*NAMES, *MADE] if name.startswith(tuple(COPIED))], indirect=True)
@pytest.mark.parametrize("is_transcript", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_sessions_return_to_their_format_in_pieces(path: Path, tmp_path: Path, seed: int, is_transcript: bool) -> None:
    """As they were, also of files with other lines; from a transcript, too, to which a message may have been added."""
    name = next(found.dialect for found in [il.detect(path.read_bytes())] if found is not None)
    chance = random.Random(seed)
    lines = path.read_bytes().splitlines(keepends=True)
    for number in range(10 if seed else 1):
        changed = list(lines)
        for _ in range(chance.randrange(1, 4) if seed else 0):
            chance.choice(CHANGES)(changed, chance)
        made = tmp_path / f"{number}.jsonl"
        made.write_bytes(b"".join(changed))
        if not is_transcript:
            assert encodes_the_same(made, name) is (open_large(Source(made), None, []) is not None)
            continue
        problems: list[SourceProblem] = []
        (document,) = documents(Source(made), None, problems)
        made.write_bytes(il.convert(document.data, "transcript", name).bytes())
        added = {"role": "user", "content": "More", "id": "new", "parentId": None}
        more = chance.randrange(2) if FORMATS[name].writable else 0  # others refuse it
        made.write_bytes(made.read_bytes() + lines_of([added] * more))
        assert encodes_the_same(made, name) is (open_large(Source(made), None, []) is not None)


def _session(chance: random.Random) -> bytes:
    """A transcript of some turns."""
    lines: list[Any] = [{"role": "session", "version": 1, "title": "T", "systemPrompt": "Be short."}]
    for turn in range(chance.randrange(1, 12)):
        lines += _turn(turn, chance)
    for habit in HABITS:
        if chance.random() < 0.3:
            habit(lines, chance)
    for at, line in enumerate(lines[1:]):
        line |= {"id": f"e{at}", "parentId": f"e{at - 1}" if at else None}
    return lines_of(lines)


def _rename_ids(lines: list[Any], chance: random.Random) -> None:
    """Ids that are there again, alike, too long, empty, or not of the letters that targets take."""
    names = [chance.choice(["c", "call_x", "", f"c {at}|fc", f"{at}" * 50, f"c{at}"]) for at in range(9)]
    _change_calls(lines, "id", "toolCallId", lambda id: names[sum(map(ord, id)) % len(names)])


def _rename_tools(lines: list[Any], chance: random.Random) -> None:
    """Names that targets do not take, and one that looks like those which they get instead."""
    names = ["read file", "mcp.server/list", "ü", "read", "r" * 90]
    chance.shuffle(names)
    _change_calls(lines, "name", "toolName", lambda name: names[len(name) % len(names)] if len(name) < 9 else name)
    if chance.random() < 0.5:
        lines[0]["tools"] = [{"name": name, "input_schema": {"type": "object"}} for name in names[:2]]


def _change_calls(lines: list[Any], key: str, result_key: str, change: Callable[[str], str]) -> None:
    for line in lines:
        if result_key in line:
            line[result_key] = change(line[result_key])
        for block in line["content"] if isinstance(line.get("content"), list) else ():
            if block["type"] == "toolCall":
                block[key] = change(block[key])


def _mark(lines: list[Any], chance: random.Random) -> None:
    """Cache markers: more than targets take, on blocks, results, thinking and the system text, of all lifetimes."""
    share = chance.choice([0.1, 0.9])
    for line in lines:
        cache = {"cache": {"type": "ephemeral", **chance.choice([{}, {"ttl": "1h"}, {"ttl": "5m"}])}}
        if chance.random() > share:
            continue
        if line["role"] == "session" and chance.random() < 0.5:
            line["systemPrompt"] = [{"type": "text", "text": "Be short.", **cache}]
        elif line["role"] == "toolResult" and chance.random() < 0.5:
            line |= cache
        elif line["role"] == "user" and isinstance(line["content"], str):
            line["content"] = [{"type": "text", "text": line["content"]}, {"type": "text", "text": "And?", **cache}]
        elif isinstance(line.get("content"), list):
            block = chance.choice(line["content"])
            kept = {"extra": {"anthropic-messages": {"cache_control": {"type": "ephemeral"}}}}
            block |= kept if block["type"] == "thinking" else cache


def _keep_journal(lines: list[Any], chance: random.Random) -> None:
    """Results in a journal: of a call with a result, and of one without."""
    ids = [line["toolCallId"] for line in lines if "toolCallId" in line]
    for id in (*ids[:1], "none"):
        journal = {"role": "journal", "kind": "end", "callId": id, "result": {"content": "12"}}
        lines.insert(chance.randrange(1, len(lines) + 1), journal)


def _limit(lines: list[Any], chance: random.Random) -> None:
    """A model with a window, which the history fills in part."""
    lines[0]["model"] = {"id": "m", "api": "", "contextWindow": chance.choice([60, 9000]), "maxTokens": 80}
    lines[0]["options"] = chance.choice([{"maxTokens": 50}, {}])


def _answer_in_parts(lines: list[Any], chance: random.Random) -> None:
    """Answers in a row, which some formats read as one: a text before an answer, or a result twice."""
    for at in reversed(range(1, len(lines))):
        if lines[at]["role"] == "assistant" and chance.random() < 0.3:
            lines.insert(at, {"role": "assistant", "content": "Well", "model": "m", "stopReason": "stop"})
        elif lines[at]["role"] == "toolResult" and chance.random() < 0.2:
            lines.insert(at, {**lines[at], "content": "13"})


def _begin_with_system(lines: list[Any], chance: random.Random) -> None:
    """A first message of the system, which a list has for the system text."""
    lines[0].pop("systemPrompt")
    lines.insert(1, {"role": "system", "content": "Be brief."})


HABITS: list[Callable[[list[Any], random.Random], None]] = [
    _rename_ids,
    _rename_tools,
    _mark,
    _keep_journal,
    _limit,
    _answer_in_parts,
    _begin_with_system,
]


@pytest.mark.parametrize("seed", range(12))
def test_generated_sessions_become_those_of_other_programs(tmp_path: Path, seed: int) -> None:
    """Turns that end in an answer, in a result or in a call; failed answers; thinking; notes of a program; `HABITS`."""
    chance = random.Random(seed)
    path = tmp_path / "s.jsonl"
    for _ in range(5):
        path.write_bytes(_session(chance))
        assert encodes_the_same(path, *TARGETS)


@pytest.mark.parametrize("wire", [*sorted(WIRES), *trainers()])
@pytest.mark.parametrize("seed", range(3))
def test_generated_sessions_are_checked_for_a_target(tmp_path: Path, wire: str, seed: int) -> None:
    """A wire or a trainer, with the findings of the whole, in their order."""
    chance = random.Random(seed)
    path = tmp_path / "s.jsonl"
    for _ in range(3):
        path.write_bytes(_session(chance))
        session = open_large(Source(path), None, [])
        assert session is not None
        found = check_large(session, unnamed=True, target=wire)
        assert found == check(path.read_bytes(), target=wire)


def test_a_missing_parent_is_found_for_a_target(tmp_path: Path) -> None:
    """Whatever is asked of the messages, the tree is checked."""
    path = tmp_path / "s.jsonl"
    path.write_bytes(lines_of([*PLAIN, {"role": "user", "content": "Ho", "id": "b", "parentId": "gone"}]))
    session = open_large(Source(path), None, [])
    assert session is not None
    for target in (None, "anthropic-messages"):
        found = check_large(session, unnamed=True, target=target)
        assert found == check(path.read_bytes(), target=target)
        assert found is not None and "parent: no entry 'gone'" in [finding.message for finding in found]


def test_a_result_of_a_call_that_the_service_stores_is_found_in_no_target(tmp_path: Path) -> None:
    """The call is in the answer with `previous_response_id`."""
    path = tmp_path / "s.jsonl"
    about = {"role": "session", "version": 1, "extra": {"openai-responses": {"previous_response_id": "r"}}}
    path.write_bytes(lines_of([about, PLAIN[0], PLAIN[2], *PLAIN[4:]]))
    session = open_large(Source(path), None, [])
    assert session is not None
    found = check_large(session, unnamed=True, target="anthropic-messages")
    assert found == check(path.read_bytes(), target="anthropic-messages")
    assert found is not None and not [finding for finding in found if "tool result" in finding.message]


def test_the_own_rules_of_a_format_of_lines_are_for_the_whole(tmp_path: Path) -> None:
    """A plugin's may have some; ours are of documents, whose messages they take one at a time."""
    path = tmp_path / "s.jsonl"
    path.write_bytes(lines_of([{"role": "session", "version": 1}, *PLAIN]))
    session = open_large(Source(path), None, [])
    assert session is not None and check_large(session, unnamed=True) is not None
    register(replace(FORMATS["transcript"], mistakes=lambda value: [("$[0]", "no title", "write one")]))
    try:
        assert check_large(session, unnamed=True) is None
        assert "no title" in [finding.message for finding in check(path.read_bytes())]
    finally:
        unregister("transcript")


OPENAIS_PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
SHOWN = {"role": "user", "content": [OPENAIS_PICTURE]}
CALLED = {"role": "assistant", "content": [{"type": "toolCall", "name": "ls", "arguments": {}}]}  # without an id


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (lines_of([{"role": "session", "version": 1}, *PLAIN, SHOWN]), "shape: "),
        (json.dumps([*CLAW["messages"], CALLED]).encode(), "shape: "),
        (json.dumps([*CLAW["messages"], {"role": "tool"}]).encode(), "role `tool`"),
    ],
    ids=["lines", "list", "list with a mistake"],
)
def test_shapes_of_other_wires_are_found_once(tmp_path: Path, document: bytes, expected: str) -> None:
    """The format's own rules say it better, where they have one."""
    path = tmp_path / "s.json"
    path.write_bytes(document)
    assert same_as_whole(path)
    session = open_large(Source(path), None, [])
    assert session is not None
    found = check_large(session, unnamed=True) or ()
    assert len([finding for finding in found if expected in finding.message]) == 1


def test_pictures_in_results_count_for_a_trainer(tmp_path: Path) -> None:
    """As those of users do: the limit is on all of an example."""
    path = tmp_path / "s.jsonl"
    result = {"role": "toolResult", "content": [MEDIA[0]], "isError": False}
    calls = [{"type": "toolCall", "id": f"c{at}", "name": "look", "arguments": {}} for at in range(11)]
    results = [{**result, "toolCallId": call["id"]} for call in calls]
    path.write_bytes(lines_of([PLAIN[0], {"role": "assistant", "content": calls}, *results, *PLAIN[4:]]))
    session = open_large(Source(path), None, [])
    assert session is not None
    found = check_large(session, unnamed=True, target="openai-finetune")
    assert found == check(path.read_bytes(), target="openai-finetune")
    assert ["images: 11 images; an example has at most 10"] == [one.message for one in found if "images" in one.message]


@pytest.mark.parametrize("trainer", trainers())
def test_long_messages_are_told_apart_for_a_trainer(tmp_path: Path, trainer: str) -> None:
    """Two answers of many calls that differ in the last one: unreadable arguments are found where they are."""
    lines: list[Any] = [{"role": "session", "version": 1}]
    for turn in range(2):
        calls = [{"type": "toolCall", "id": f"c{turn}-{at}", "name": "look", "arguments": {}} for at in range(40)]
        if turn:
            calls[-1] |= {"rawArguments": "{", "parseError": "the end is missing"}
        lines.append({"role": "user", "content": "Look"})
        lines.append({"role": "assistant", "content": calls, "model": "m", "stopReason": "toolUse"})
        for call in calls:
            result = {"role": "toolResult", "toolCallId": call["id"], "toolName": "look", "content": "x"}
            lines.append({**result, "isError": False})
    lines.append({"role": "assistant", "content": "Yes", "model": "m", "stopReason": "stop"})
    for at, line in enumerate(lines[1:]):
        line |= {"id": f"e{at}", "parentId": f"e{at - 1}" if at else None}
    path = tmp_path / "s.jsonl"
    path.write_bytes(lines_of(lines))
    session = open_large(Source(path), None, [])
    assert session is not None
    found = check_large(session, unnamed=True, target=trainer)
    assert found == check(path.read_bytes(), target=trainer)


PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
MEDIA = [
    {"type": "image", "data": PICTURE, "mimeType": "image/png"},
    {"type": "image", "data": "AAAA", "mimeType": "image/tiff"},
    {"type": "image", "url": "https://example.com/a.png"},
    {"type": "document", "data": "JVBERi0=", "mimeType": "application/pdf", "title": "Paper"},
    {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
]


@pytest.mark.parametrize("target", TARGETS)
def test_limits_on_media_are_those_of_the_whole_history(tmp_path: Path, target: str) -> None:
    """Anthropic takes 100 images in a request."""
    lines: list[Any] = [{"role": "session", "version": 1}]
    for turn in range(105):
        lines.append({"role": "user", "content": [{"type": "text", "text": "See"}, MEDIA[turn % 2 and 3]]})
        lines.append({"role": "user", "content": [MEDIA[0]]})
        lines.append({"role": "assistant", "content": "Yes", "model": "m", "stopReason": "stop"})
    for at, line in enumerate(lines[1:]):
        line |= {"id": f"e{at}", "parentId": f"e{at - 1}" if at else None}
    path = tmp_path / "s.jsonl"
    path.write_bytes(lines_of(lines))
    assert encodes_the_same(path, target)


def test_a_mark_in_a_text_is_not_taken_for_one_of_a_picture(tmp_path: Path) -> None:
    """Then the pictures are not read, and all turns differ: the row is made as a whole."""
    path = tmp_path / "s.jsonl"
    for content in ([{"type": "text", "text": "See"}, MEDIA[0]], "See"):
        lines = [
            {"role": "session", "version": 1},
            {"role": "user", "content": content, "id": "a", "parentId": None},
            {"role": "assistant", "content": "Yes", "id": "b", "parentId": "a"},
            {"role": "user", "content": "Write <image>", "id": "c", "parentId": "b"},
        ]
        path.write_bytes(lines_of(lines))
        assert encodes_the_same(path, "sharegpt") is (content == "See")


@pytest.mark.parametrize("target", ROWS)
def test_what_a_record_of_the_target_says_beside_is_kept(tmp_path: Path, target: str) -> None:
    """A conversation of the target that became a transcript."""
    asked = [il.UserMessage(content="Hi"), il.AssistantMessage(content="Yes"), il.UserMessage(content="And?")]
    lines = il.convert(il.encode(asked, target).body, "transcript", target).body
    path = tmp_path / "s.jsonl"
    about = [line for line in lines if line["role"] == "session"] or [{"role": "session", "version": 1}]
    turns = [line for line in lines if line["role"] != "session"]
    placed = [{**line, "id": str(at), "parentId": str(at - 1) if at else None} for at, line in enumerate(turns)]
    path.write_bytes(lines_of([*about, *placed]))
    assert open_large(Source(path), None, []) is not None
    encodes_the_same(path, target)


@pytest.mark.parametrize("target", ROWS)
def test_a_rejected_answer_stays_beside_the_chosen_one(tmp_path: Path, target: str) -> None:
    """In formats that have rows of two answers."""
    lines = [
        {"role": "session", "version": 1},
        {"role": "user", "content": "Hi", "id": "a", "parentId": None},
        {"role": "assistant", "content": "Yes", "id": "chosen", "parentId": "a"},
        {"role": "assistant", "content": "No", "id": "rejected", "parentId": "a"},
        {"role": "head", "target": "chosen"},
    ]
    path = tmp_path / "s.jsonl"
    path.write_bytes(lines_of(lines))
    assert open_large(Source(path), None, []) is not None
    encodes_the_same(path, target)


@pytest.mark.parametrize("wire", sorted(WIRES))
def test_messages_of_the_system_are_in_their_place(tmp_path: Path, wire: str) -> None:
    """The first ones may be part of the system prompt, which is before all pieces."""
    lines: list[Any] = [{"role": "session", "version": 1, "systemPrompt": "Be short."}]
    for turn in range(4):
        blocks = [{"type": "text", "text": f"Rule {turn}"}]
        lines += [{"role": "system", "content": blocks}] * (turn % 2 == 0)
        lines.append({"role": "user", "content": "Hi"})
        lines.append({"role": "assistant", "content": "Yes", "model": "m", "stopReason": "stop"})
    for at, line in enumerate(lines[1:]):
        line |= {"id": f"e{at}", "parentId": f"e{at - 1}" if at else None}
    path = tmp_path / "s.jsonl"
    path.write_bytes(lines_of(lines))
    assert encodes_the_same(path, wire)


@pytest.mark.parametrize("wire", sorted(WIRES))
@pytest.mark.parametrize("seed", range(5))
def test_a_session_of_the_same_wire_is_not_adapted(tmp_path: Path, wire: str, seed: int) -> None:
    """Its body is what the wire's encoder makes of the history."""
    chance = random.Random(seed)
    path = tmp_path / "s.jsonl"
    for _ in range(5):
        first, *rest = _session(chance).splitlines(keepends=True)
        model = {"model": {"id": "m", "api": wire}}
        path.write_bytes(lines_of([{**json.loads(first), **model}]) + b"".join(rest))
        assert encodes_the_same(path, wire)


def _turn(number: int, chance: random.Random) -> Iterator[dict[str, Any]]:
    when = {"timestamp": 1_760_000_000_000 + number} if chance.random() < 0.8 else {}
    if chance.random() < 0.1:
        kept = {"firstKept": f"e{chance.randrange(2 * number + 1)}"} if chance.random() < 0.7 else {}
        yield {"role": "compaction", "summary": f"So far {number}", **kept}
    if chance.random() < 0.05:
        items = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Earlier"}]}]
        replaced = {"replacement_history": items} if chance.random() < 0.5 else {}
        yield {"role": "compacted", "payload": {"message": "In short", **replaced}}
    if chance.random() < 0.2:
        yield {"role": "user", "content": [{"type": "text", "text": "See"}, *chance.sample(MEDIA, 2)]}
    yield {"role": "user", "content": f"Question {number}", **({"origin": "program"} if chance.random() < 0.2 else {})}
    for step in range(chance.choice([0, 1, 2, 2, 8])):
        name = "read" if number % 2 else "list"
        ids = [f"c{number}_{step}", f"d{number}_{step}"][: 1 if chance.random() < 0.8 else 2]
        content: list[Any] = [{"type": "thinking", "thinking": "Hm"}] if chance.random() < 0.3 else []
        content += [{"type": "text", "text": chance.choice(["Look", " ", "x"])}] if chance.random() < 0.5 else []
        content += [{"type": "toolCall", "id": id, "name": name, "arguments": {"at": step}} for id in ids]
        stop = chance.choice(["toolUse", "toolUse", "toolUse", "error"])
        usage = {"input": 3, "output": 4, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 7}
        yield {
            "role": "assistant",
            "content": content,
            "stopReason": stop,
            "model": "m",
            "usage": usage,
            **when,
        }
        for id in ids:
            if chance.random() < 0.2:
                continue
            result = {"toolCallId": id, "toolName": name, "isError": chance.random() < 0.2}
            shown = [{"type": "text", "text": "12"}, chance.choice(MEDIA[:2])]
            yield {"role": "toolResult", "content": shown if chance.random() < 0.2 else "12", **result}
        if chance.random() < 0.05:
            yield {"role": "compaction", "summary": f"So far {number}", "firstKept": f"e{2 * number}"}
    if chance.random() < 0.6:
        yield {"role": "assistant", "content": chance.choice(["Yes", "", [{"type": "thinking", "thinking": "Hm"}]])}


def _drop(lines: list[bytes], chance: random.Random) -> None:
    if len(lines) > 3:
        del lines[chance.randrange(1, len(lines))]


def _repeat(lines: list[bytes], chance: random.Random) -> None:
    lines.insert(chance.randrange(1, len(lines)), chance.choice(lines))


def _move(lines: list[bytes], chance: random.Random) -> None:
    lines.insert(chance.randrange(1, len(lines)), lines.pop(chance.randrange(1, len(lines))))


def _tear(lines: list[bytes], chance: random.Random) -> None:
    at = chance.randrange(1, len(lines))
    lines[at] = lines[at][: len(lines[at]) // 2] + b"\n"


def _omit(lines: list[bytes], chance: random.Random) -> None:
    at = chance.randrange(1, len(lines))
    try:
        line = json.loads(lines[at])
    except ValueError:
        return
    if line:
        del line[chance.choice(list(line))]
    lines[at] = json.dumps(line).encode() + b"\n"


CHANGES: list[Callable[[list[bytes], random.Random], None]] = [_drop, _repeat, _move, _tear, _omit]
TEXT_CHANGES = [_drop, _repeat, _move]


def test_a_file_that_is_read_at_once_is_the_same(path: Path) -> None:
    """Its lines are not in memory as values then."""
    (name,) = {found.dialect for found in [il.detect(path.read_bytes())] if found is not None}
    values = [json.loads(line) for line in path.read_bytes().splitlines()]
    form = FORMATS[name]
    with path.open("rb") as file:
        found = form.read(file) if form.read is not None else None
    assert found is None or found == form.codec.decode(values)


def test_lines_that_are_written_meanwhile_are_left_out(tmp_path: Path) -> None:
    """The program may be at work: every pass reads the same lines."""
    path = tmp_path / "s.jsonl"
    path.write_bytes(lines_of(CLAUDE) + b'{"type": "user", "uuid": "u8", "parent')
    problems: list[SourceProblem] = []
    session = open_large(Source(path), None, problems)
    assert session is not None and [len(CLAUDE) + 1] == [problem.line for problem in problems]
    before = conversation_in(session)
    with path.open("ab") as file:
        file.write(b'Uuid": "u7", "message": {"role": "user", "content": "More"}}\n' + lines_of(CLAUDE[2:4]))
    assert conversation_in(session) == before


# --- the commands ----------------------------------------------------------------------------------------------------


def both(monkeypatch: pytest.MonkeyPatch, work: Callable[[], Any]) -> tuple[Any, Any]:
    """What `work` returns with files read entry by entry, and with files read as a whole."""
    monkeypatch.setattr(large_sessions, "LARGE", 1)
    streamed = work()
    monkeypatch.setattr(large_sessions, "LARGE", 1 << 40)
    return streamed, work()


def outcome(result: Result) -> tuple[int, str, str]:
    return result.exit_code, result.stdout, result.stderr


@commanded
@pytest.mark.parametrize("options", [[], ["--all"], ["--full", "--thinking"], ["--json"]], ids=" ".join)
def test_show_prints_the_same(path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str]) -> None:
    """Also the numbers of what it leaves out."""
    runner = CliRunner()
    streamed, whole = both(monkeypatch, lambda: outcome(runner.invoke(show, [str(path), *options])))
    assert streamed == whole


@pytest.mark.parametrize(
    "source", [*FILES, *DOCUMENTS, *MADE, *(f"document-{name}" for name in MADE_DOCUMENTS)], ids=lambda s: str(s)[-40:]
)
def test_stats_counts_the_same(source: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages, lines of a program's own kinds, tools, usage and cost."""
    path = source if isinstance(source, Path) else tmp_path / f"{source}.jsonl"
    if not isinstance(source, Path):
        made = MADE_DOCUMENTS.get(source.removeprefix("document-"))
        path.write_bytes(lines_of(MADE[source]) if source in MADE else json.dumps(made).encode())

    def count() -> Any:
        result = CliRunner().invoke(stats, [str(path), "--json"])
        return json.loads(result.stdout) if result.exit_code == 0 else result.output

    streamed, whole = both(monkeypatch, count)
    assert streamed == whole


def test_stats_count_the_lines_around_a_torn_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The torn ones are problems, with their numbers."""
    good = '{"role":"user","content":"Hi","id":"a","parentId":null}\n'
    path = tmp_path / "t.jsonl"
    path.write_text('{"role":"session","version":1}\n' + good + good.replace('"a"', '"b"') + '{"role":\n' + "42\n")
    streamed, whole = both(monkeypatch, lambda: CliRunner().invoke(stats, [str(path)]).output)
    assert streamed == whole
    assert "2 user" in streamed and "t.jsonl:4: " in streamed and "t.jsonl:5: " in streamed


def test_the_format_of_a_large_session_is_in_its_first_lines(tmp_path: Path) -> None:
    """A file of a gigabyte is not read for that; one that is no session in lines is left to others."""
    path = tmp_path / "t.jsonl"
    with path.open("wb") as file:
        file.write((b'{"role":"session","version":1}\n' + b'{"role":"user","content":"Hi"}\n') * 100)
        file.truncate(1 << 30)
    assert is_large(Source(path))
    found = detect_large(Source(path))
    assert found is not None and found.dialect == "transcript"
    path.write_text('{"messages": []}')
    assert detect_large(Source(path)) is None


@commanded
@pytest.mark.parametrize(
    "options", [[], ["--json"], *(["--for", name] for name in (*sorted(WIRES), *trainers()))], ids=" ".join
)
def test_check_finds_the_same(path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str]) -> None:
    """Of good files and of those with torn lines."""
    runner = CliRunner()
    streamed, whole = both(monkeypatch, lambda: outcome(runner.invoke(check_command, [str(path), *options])))
    assert streamed == whole and whole[1]


@commanded
@pytest.mark.parametrize("target", ["transcript", "interlingua"])
@pytest.mark.parametrize("options", [[], ["-m", "openai/gpt-x"], ["--strict"]], ids=" ".join)
def test_convert_writes_the_same(path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], target: str) -> None:
    """To standard output; with another model; without losses."""
    runner = CliRunner()
    given = [str(path), "-t", target, *options]
    streamed, whole = both(monkeypatch, lambda: outcome(runner.invoke(convert, given)))
    assert streamed == whole and whole[1]


@commanded
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("options", [[], ["-m", "openai/gpt-x"], ["--strict"]], ids=" ".join)
def test_convert_writes_the_same_session_of_another_program(
    path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], target: str
) -> None:
    """In strict mode, the loss that is named may be another one."""
    runner = CliRunner()
    streamed, whole = both(monkeypatch, lambda: outcome(runner.invoke(convert, [str(path), "-t", target, *options])))
    assert streamed[:2] == whole[:2]
    assert streamed == whole or (options == ["--strict"] and f"{target}: " in streamed[2])


@pytest.mark.parametrize("target", ["transcript", "interlingua", *TARGETS])
@pytest.mark.parametrize(
    "options", [["in"], ["in", "--strict"], ["in", "-o", "out.json"], ["in", "-o", "out/"]], ids=" ".join
)
def test_rows_for_programs_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], target: str
) -> None:
    """With all losses, in the order of the messages; of workers, too."""
    monkeypatch.chdir(tmp_path)
    folder, chance = tmp_path / "in", random.Random(target)
    folder.mkdir()
    for number in range(convert_module.MANY if "out/" in options else 1):
        (folder / f"{number}.jsonl").write_bytes(_session(chance))

    def work() -> Any:
        result = CliRunner().invoke(convert, [*options, "-t", target, "--json", "-j", "2"])
        report = json.loads(result.stdout)
        for row in report["results"]:
            row["losses"].sort(key=json.dumps)
        made = sorted(path for path in tmp_path.rglob("out*") if path.is_file())
        made += sorted((tmp_path / "out").iterdir()) if "out/" in options else []
        return result.exit_code, report, {path.name: path.read_bytes() for path in made}

    streamed, whole = both(monkeypatch, work)
    if "--strict" in options:  # it may name another loss
        for _, report, _ in (streamed, whole):
            report["errors"] = len(report["errors"])
    assert streamed == whole and (whole[2] or "-o" not in options)


@pytest.mark.parametrize("name", [*TEXTS, "several"])
def test_the_commands_say_the_same_of_a_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """One session, or several in a history, which are read one at a time."""
    monkeypatch.setattr(sources, "LARGE_OBJECT", 1)
    path = tmp_path / "in.md"
    path.write_bytes(TEXTS[name] if name in TEXTS else TEXTS["aider"] * 3)
    for command, given in (
        (show, []),
        (show, ["--json"]),
        (stats, ["--json"]),
        (check_command, []),
        (detect_command, []),
        *((convert, ["-j", "1", "-t", to]) for to in ("openai-completions", "transcript", "interlingua")),
        (convert, ["-j", "1", "-t", TEXT_FORMS.get(name, "aider")]),
    ):
        streamed, whole = both(monkeypatch, lambda: outcome(CliRunner().invoke(command, [str(path), *given])))  # noqa: B023
        assert streamed == whole


@pytest.mark.parametrize("name", ["out.jsonl", "out.jsonl.gz", "out.jsonl.zst", "folder/"])
def test_convert_writes_the_same_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Packed or in a folder; torn lines are reported."""
    path, out = tmp_path / "in.jsonl", tmp_path / name
    path.write_bytes(lines_of(CLAUDE) + b"{\n")
    if name.endswith("/"):
        out.mkdir()

    def work() -> Any:
        result = CliRunner().invoke(convert, [str(path), "-t", "transcript", "-o", f"{tmp_path}/{name}"])
        file = out / "in.jsonl" if out.is_dir() else out
        (conversation,) = il.read(file)
        return outcome(result), conversation

    streamed, whole = both(monkeypatch, work)
    assert streamed == whole and whole[0][0] == 1


@pytest.mark.parametrize(
    ("name", "target"),
    [
        (name, target)
        for name in ("-", "out.json", "out.jsonl.gz", "out.jsonl.zst", "out.parquet", "folder/")
        for target in ("anthropic-messages", "openai-completions", *ROWS)
        if not (name.endswith(".parquet") and target in ("langchain", "vercel-ui"))  # a list has no columns
    ],
)
def test_convert_writes_the_same_bodies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, target: str
) -> None:
    """A file, also packed or as a row; a line for each of two sessions, or a file for each in a folder."""
    if name.endswith(".parquet"):
        pytest.importorskip("pyarrow")
    sources = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"][: 1 if name.startswith("out") else 2]
    for source in sources:
        source.write_bytes(lines_of(CLAUDE))
    given = [*map(str, sources), "-t", target, "-j", "1"]
    given += ["-o", f"{tmp_path}/{name}"] if name != "-" else []

    def work() -> Any:
        result = CliRunner().invoke(convert, given)
        made = sorted(path for path in tmp_path.rglob("*") if path.is_file() and path not in sources)
        found = [(path.name, list(il.read(path))) for path in made]
        for path in made:
            path.unlink()
        return outcome(result), found

    streamed, whole = both(monkeypatch, work)
    assert streamed == whole and whole[0][0] == 0
    made = {"-": [], "folder/": ["a.json", "b.json"]}.get(name, [name])
    assert made == [name for name, conversations in whole[1] if conversations]


def test_bodies_of_workers_are_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file each, with the name that a body has."""
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    for number in range(convert_module.MANY):
        lines = [{"type": "custom-title", "customTitle": str(number)}, *(CLAUDE if number % 2 else CODEX)]
        (folder / f"{number}.jsonl").write_bytes(lines_of(lines))

    def work() -> Any:
        result = CliRunner().invoke(convert, [str(folder), "-t", "openai-responses", "-o", f"{out}/", "-j", "2"])
        return outcome(result), {path.name: path.read_bytes() for path in out.iterdir()}

    streamed, whole = both(monkeypatch, work)
    assert streamed == whole and [f"{number}.json" for number in range(convert_module.MANY)] == sorted(whole[1])


def test_two_sessions_do_not_become_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is written then."""
    for name in ("a.jsonl", "b.jsonl"):
        (tmp_path / name).write_bytes(lines_of(CLAUDE))
    given = [str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl"), "-t", "transcript"]
    streamed, whole = both(monkeypatch, lambda: outcome(CliRunner().invoke(convert, given)))
    assert streamed == whole and whole[:2] == (1, "")


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_several_large_sessions_are_converted_in_parallel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jobs: str
) -> None:
    """Into the same files, with the same reports in the same order; no temporary file is left."""
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    for number in range(convert_module.MANY):
        lines = [{"type": "custom-title", "customTitle": str(number)}, *(CLAUDE if number % 2 else CODEX)]
        (folder / f"{number}.jsonl").write_bytes(lines_of(lines) + b"{\n" * (number % 3 == 0))

    def work() -> Any:
        result = CliRunner().invoke(convert, [str(folder), "-t", "transcript", "-o", f"{out}/", "-j", jobs, "--report"])
        return outcome(result), {path.name: path.read_bytes() for path in out.iterdir()}

    streamed, whole = both(monkeypatch, work)
    assert streamed == whole and len(whole[1]) == convert_module.MANY


def test_a_worker_converts_a_large_session(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(lines_of(CLAUDE))
    task = bulk.PieceTask(None, "transcript", None, False, 1 << 20)
    tasks = [(at, bulk.SourcePiece(Source(path), "stream")) for at in range(3)]
    expected = il.convert(lines_of(CLAUDE), "transcript").bytes()
    found = []
    for at, _, result in bulk.run(tasks, task, 2, tmp_path / "out"):
        assert result.spooled is not None and result.spooled.exists() and result.streamed is not None
        found.append((at, b"".join(result.streamed)))
        assert not result.spooled.exists()
    assert [(at, expected) for at in range(3)] == found
    assert list(tmp_path.iterdir()) == [path]


def test_a_packed_session_is_read_entry_by_entry(tmp_path: Path) -> None:
    """Each pass unpacks it."""
    path = tmp_path / "s.jsonl.gz"
    path.write_bytes(gzip.compress(lines_of(CLAUDE)))
    session = open_large(Source(path), None, [])
    assert session is not None and conversation_in(session) == il.decode(lines_of(CLAUDE))


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress], ids=["gzip", "zstd"])
def test_so_is_a_packed_document(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    """Its lists are found without going back in it."""
    path = tmp_path / "s.json"
    given = (WIRE / "zed" / "thread.json").read_bytes()
    path.write_bytes(pack(given))
    session = open_large(Source(path), None, [])
    whole = il.decode(given)
    assert session is not None
    assert conversation_in(session) == replace(whole, extra=beginning(whole.extra))


HALF = {"role": "user", "content": "a \ud83d b"}
SURROGATES: dict[str, Any] = {
    "first": {"v": 1, "id": "T-1", "title": "x \ud83d y", "messages": [HALF, *[_swe("user", "b")] * 3, HALF]},
    "list": [{**HALF, "ts": 1}, {**HALF, "content": "b", "ts": 2}, {**HALF, "ts": 3}],
    "other": {"messages": [HALF, HALF], "v": 1, "id": "T-1", "history": [{"a": "\ud83d"}, HALF]},
}


@pytest.mark.parametrize("name", SURROGATES)
def test_text_that_is_no_unicode_is_reported_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """In the messages of a document, and beside them."""
    path = tmp_path / "s.json"
    path.write_text(json.dumps(SURROGATES[name]))
    given = [str(path), "-t", "openai-completions", "--report", "-j", "1"]
    streamed, whole = both(monkeypatch, lambda: outcome(CliRunner().invoke(convert, given)))
    assert whole[0] == 0 and "U+FFFD" in whole[2] and streamed[:2] == whole[:2]
    places, expected = ({word for word in found[2].split() if word.startswith("$")} for found in (streamed, whole))
    assert {place for place in places if "[]" not in place} == expected  # those with it are of a group


def test_bytes_that_are_no_unicode_are_reported_in_lines_without_an_end_between_them(tmp_path: Path) -> None:
    """Each in its message."""
    path = tmp_path / "s.jsonl"
    lines = lines_of([*PLAIN[:1], {"role": "user", "content": "a# b"}, {"role": "user", "content": "c# d"}, PLAIN[5]])
    path.write_bytes(lines.replace(b"#", b"\xff").replace(b'b"}\n', b'b"}'))
    places = ["$[1].content", "$[2].content"]
    (whole,) = il.read(path)
    assert places == [problem.message.rpartition("(at ")[2].rstrip(")") for problem in whole.problems]
    with jsontext.Repairs() as repaired:
        session = open_large(Source(path), None, [])
    assert session is not None and whole.entries == conversation_in(session).entries
    assert places == list(dict.fromkeys(repaired))


def test_data_behind_a_list_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    path.write_text(json.dumps(SURROGATES["list"]) + "{}")
    assert open_large(Source(path), "cline", []) is None


TURN = '{"role": "user", "content": [{"type": "text", "text": "Look"}]}'
BROKEN_LISTS = {
    "a comma at the end": f"[{TURN}, {TURN},]",
    "no comma": f"[{TURN} {TURN}]",
    "two commas": f"[{TURN},, {TURN}]",
    "a comma at the beginning": f"[, {TURN}]",
    "another bracket": f"[{TURN}}}",
    "nothing": "[]",
    "null": f"[{TURN}, null, {TURN}]",
}


@pytest.mark.parametrize("target", ["openai-completions", "transcript", "interlingua", "amp"])
@pytest.mark.parametrize("name", BROKEN_LISTS)
def test_an_odd_list_in_a_document_is_read_as_in_a_small_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, target: str
) -> None:
    """Or refused as there: a list that is no JSON, an empty one, or one with other values."""
    path = tmp_path / "s.json"
    path.write_text(f'{{"v": 1, "id": "T-1", "title": "Eggs", "": 5, "messages": {BROKEN_LISTS[name]}}}')
    given = [str(path), "-t", target, "-j", "1"]
    streamed, whole = both(monkeypatch, lambda: outcome(CliRunner().invoke(convert, given)))
    assert streamed[:2] == whole[:2]


def test_a_document_that_is_changed_while_it_is_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    path.write_text(f'{{"v": 1, "id": "T-1", "messages": [{TURN}, {TURN}]}}')
    session = open_large(Source(path), "amp", [])
    assert session is not None and 2 == len(conversation_in(session).entries)
    path.write_text(f'{{"v": 1, "id": "T-1", "messages": [{TURN}, {TURN}, {TURN}]}}')
    with pytest.raises(il.InterlinguaError, match="changed while it was read"):
        conversation_in(session)


def test_of_two_lists_at_one_key_the_last_counts(tmp_path: Path) -> None:
    """As in any JSON: the file is read as a whole then."""
    path = tmp_path / "s.json"
    header = '"v": 1, "id": "T-1", "messages": [{"role": "user", "content": "Look"}]'
    for again in (
        '"messages": 5',
        '"messages": [{"role": "user", "content": "No"}]',
        '"messages": []',
        '"mess\\u0061ges": []',
        '"mess\\u0061ges": [{"role": "user", "content": "No"}]',
    ):
        path.write_text("{" + header + ", " + again + "}")
        session = open_large(Source(path), "amp", [])
        assert session is None or conversation_in(session).entries == il.decode(path.read_bytes(), "amp").entries


def test_a_session_with_a_long_first_line_is_read_entry_by_entry(tmp_path: Path) -> None:
    """A picture in the first prompt does not make a document of it."""
    path = tmp_path / "s.jsonl"
    path.write_bytes(lines_of([{**CLAUDE[0], "summary": "eggs " * 500_000}, *CLAUDE[1:]]))
    assert same_as_whole(path)


def test_a_line_that_is_there_many_times_takes_linear_time() -> None:
    """A new id is found without trying all that were given before, and it is the next one."""
    looks = 0

    class Known(set[str | None]):
        def __contains__(self, id: object) -> bool:
            nonlocal looks
            looks += 1
            return super().__contains__(id)

    known = Known({"u"})
    for number in range(2, 2000):
        entry = unlike(il.Entry(message=il.UserMessage(content="hi"), id="u"), known, "claude-code")
        assert f"u~{number}" == entry.id
        known.add(entry.id)
    assert looks < 2000 * 30


# --- memory ----------------------------------------------------------------------------------------------------------

LONG = "let x = 1; // words\n" * 3000


def _long_claude(at: int) -> Iterator[Any]:
    call = {"type": "tool_use", "id": f"toolu_{at}", "name": "Read", "input": {}}
    answer = {"id": f"msg_{at}", "type": "message", "role": "assistant", "model": "claude-x", "content": [call]}
    result = {"type": "tool_result", "tool_use_id": f"toolu_{at}", "content": LONG}
    messages = [{"role": "user", "content": "Look"}, answer, {"role": "user", "content": [result]}]
    for number, message in enumerate(messages):
        before = f"{at}-{number - 1}" if number else f"{at - 1}-2" if at else None
        place = {"uuid": f"{at}-{number}", "parentUuid": before, "timestamp": "2026-01-01T00:00:00.000Z"}
        yield {"type": message["role"], **place, "sessionId": "s", "message": message}


def _long_codex(at: int) -> Iterator[Any]:
    if not at:
        yield {"type": "session_meta", "payload": {"id": "s"}}
    for item in (
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Look"}]},
        {"type": "function_call", "name": "shell", "arguments": "{}", "call_id": f"c{at}"},
        {"type": "function_call_output", "call_id": f"c{at}", "output": LONG},
    ):
        yield {"timestamp": "2026-01-01T00:00:00.000Z", "type": "response_item", "payload": item}


def _long_openclaw(at: int) -> Iterator[Any]:
    if not at:
        yield {"type": "session", "version": 3, "id": "s", "timestamp": "2026-01-01T00:00:00.000Z", "cwd": "/"}
    for line in _long_transcript(at):
        place = {"id": line.pop("id"), "parentId": line.pop("parentId"), "timestamp": "2026-01-01T00:00:00.000Z"}
        yield {"type": "message", **place, "message": line}


def _long_transcript(at: int) -> Iterator[Any]:
    call = {"type": "toolCall", "id": f"c{at}", "name": "read", "arguments": {}}
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "Look", "timestamp": 1},
        {"role": "assistant", "content": [call], "model": "m", "stopReason": "toolUse", "timestamp": 2},
        {"role": "toolResult", "toolCallId": f"c{at}", "content": LONG, "isError": False, "timestamp": 3},
    ]
    for number, message in enumerate(messages):
        before = f"{at}-{number - 1}" if number else f"{at - 1}-2" if at else None
        yield {**message, "id": f"{at}-{number}", "parentId": before}


def _long_odd(at: int) -> Iterator[Any]:
    """The same id in each turn, a name that targets do not take, cache markers and pictures."""
    for line in _long_transcript(at):
        if line["role"] == "user":
            line["content"] = [{"type": "text", "text": "Look", "cache": {"type": "ephemeral"}}, MEDIA[0]]
        elif line["role"] == "assistant":
            line["content"][0] |= {"id": "call 1", "name": "read file"}
        else:
            line["toolCallId"] = "call 1"
        yield line


def _long_gemini(at: int) -> Iterator[Any]:
    if not at:
        yield GEMINI[0]
    when = {"timestamp": "2026-01-01T00:00:00.000Z"}
    yield {"id": f"u{at}", **when, "type": "user", "content": [{"text": LONG}]}
    for text in ("", "Yes"):  # written again as it grows
        yield {"id": f"g{at}", **when, "type": "gemini", "content": text, "model": "gemini-x"}


LONG_FILES: dict[str, Callable[[int], Iterator[Any]]] = {
    "claude-code": _long_claude,
    "codex-cli": _long_codex,
    "openclaw": _long_openclaw,
    "transcript": _long_transcript,
    "gemini-cli": _long_gemini,
    "odd": _long_odd,
}
CHECKED = ("anthropic-messages", "ollama-chat", "training")
WAYS: dict[str, tuple[Any, list[str]]] = {
    "show --json": (show, ["--json"]),
    "check": (check_command, []),
    **{f"check --for {name}": (check_command, ["--for", name]) for name in CHECKED},
    "convert -t transcript": (convert, ["-t", "transcript", "-j", "1"]),
    "convert -t codex-cli": (convert, ["-t", "codex-cli", "-j", "1"]),
    "convert -t claude-code": (convert, ["-t", "claude-code", "-j", "1"]),
    "convert --json": (convert, ["-t", "openai-completions", "--json", "-j", "1"]),
    "convert -t interlingua": (convert, ["-t", "interlingua", "-j", "1"]),
    "convert -t openclaw": (convert, ["-t", "openclaw", "-j", "1"]),
    **{f"convert -t {name}": (convert, ["-t", name, "-j", "1"]) for name in (*sorted(WIRES), *ROWS)},
}


def _peak(command: Any, given: list[str], path: Path) -> int:
    """The largest size of the Python values in memory, in bytes."""
    gc.collect()
    gc.disable()  # in a long test run it comes too late for cycles: there must be none that hold messages
    tracemalloc.start()
    try:
        out = path.with_suffix(".out").open("w")
        with out, contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
            command.main([str(path), *given], standalone_mode=False)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        gc.enable()


@pytest.mark.parametrize(
    ("name", "way"),
    [
        (name, way)
        for way in WAYS
        for name in LONG_FILES
        if name in ("transcript", "odd") or way.split()[-1] not in (*WIRES, *ROWS)
        if not (name == "transcript" and way == "convert -t transcript")  # copied in other pieces
        if (wire := WIRES.get(way.split()[-1])) is None or wire.base == wire.api
    ],
)
def test_memory_does_not_grow_with_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, way: str
) -> None:
    """By the ids of the entries at most: a conversation in memory is four to five times as large as its file."""
    monkeypatch.setattr(large_sessions, "LARGE", 1)
    command, given = WAYS[way]
    peaks, sizes = [], []
    for turns in (10, 40, 100):  # the first for what is loaded once
        path = tmp_path / f"{turns}.jsonl"
        path.write_bytes(lines_of([line for at in range(turns) for line in LONG_FILES[name](at)]))
        peaks.append(_peak(command, given, path))
        sizes.append(path.stat().st_size)
    limit = peaks[1] + 0.3 * (sizes[2] - sizes[1])
    # Twice: Python sometimes builds its table of interned strings anew, which is some megabytes in a long test run.
    assert peaks[2] < limit or _peak(command, given, path) < limit


def _long_qwen(at: int) -> Iterator[Any]:
    yield _qwen(f"u{at}", f"t{at - 1}" if at else None, "user", message={"parts": [{"text": "Look"}]})
    call = {"functionCall": {"id": f"c{at}", "name": "read", "args": {}}}
    yield _qwen(f"a{at}", f"u{at}", "assistant", model="m", message={"parts": [call]})
    response = {"functionResponse": {"id": f"c{at}", "response": {"output": LONG}}}
    yield _qwen(f"t{at}", f"a{at}", "tool_result", message={"parts": [response]})


def _long_copilot(at: int) -> Iterator[Any]:
    yield _event(f"u{at}", "user.message", content="Look")
    yield _asks(f"a{at}", f"c{at}")
    yield _event(f"r{at}", "tool.execution_complete", toolCallId=f"c{at}", result={"content": LONG})


def _long_kimi(at: int) -> Iterator[Any]:
    yield _say("user", "Look", origin={"kind": "user"})
    yield _loop("step.begin", f"s{at}")
    yield _loop("tool.call", f"s{at}", toolCallId=f"c{at}", name="Read", args={})
    yield _loop("tool.result", toolCallId=f"c{at}", result={"output": LONG})
    yield _loop("step.end", f"s{at}", usage={"inputOther": 1, "output": 2})


def _long_log(at: int) -> Iterator[Any]:
    if not at:
        yield {"kind": 0, "v": {"sessionId": "s", "requests": []}}
    yield {"kind": 2, "k": ["requests"], "v": [{"message": {"text": "Look"}, "response": []}]}
    yield {"kind": 2, "k": ["requests", at, "response"], "v": [{"value": LONG}]}


def _long_opencode(at: int) -> Iterator[Any]:
    yield {"info": {"id": f"u{at}", "role": "user"}, "parts": [{"type": "text", "text": "Look"}]}
    state = {"status": "completed", "input": {}, "output": LONG}
    call = {"type": "tool", "callID": f"c{at}", "tool": "read", "state": state}
    yield {"info": {"id": f"a{at}", "role": "assistant", "modelID": "m"}, "parts": [call]}


def _long_cline(at: int) -> Iterator[Any]:
    yield {"role": "user", "content": [{"type": "text", "text": "Look"}], "ts": at}
    yield {"role": "assistant", "content": [{"type": "text", "text": LONG}], "ts": at}


def _long_openhands(at: int) -> Iterator[Any]:
    when, id = {"timestamp": "2026-01-01T00:00:00"}, 3 * at
    yield {"id": id, **when, "source": "user", "action": "message", "args": {"content": "Look"}}
    yield {"id": id + 1, **when, "source": "agent", "action": "read", "args": {"path": "eggs"}}
    yield {"id": id + 2, **when, "source": "agent", "observation": "read", "content": LONG, "cause": id + 1}


def _long_swe(at: int) -> Iterator[Any]:
    call = {"id": f"c{at}", "type": "function", "function": {"name": "bash", "arguments": "{}"}}
    yield _swe("user", "Look")
    yield _swe("assistant", "I look", tool_calls=[call])
    yield _swe("tool", LONG, tool_call_ids=[f"c{at}"])


def _long_continue(at: int) -> Iterator[Any]:
    yield {"message": {"role": "user", "content": "Look"}, "contextItems": [{"content": LONG}]}
    yield {"message": {"role": "assistant", "content": "Yes"}}


def _long_steps(at: int) -> Iterator[Any]:
    call = {"tool_call_id": f"c{at}", "function_name": "read", "arguments": {}}
    seen = {"results": [{"source_call_id": f"c{at}", "content": LONG}]}
    yield {"step_id": at, "source": "user", "message": "Look"}
    yield {"step_id": at, "source": "agent", "message": "Yes", "tool_calls": [call], "observation": seen}


def _long_amp(at: int) -> Iterator[Any]:
    yield {"role": "user", "content": [{"type": "text", "text": "Look"}]}
    yield {"role": "assistant", "content": [{"type": "text", "text": LONG}]}


def _long_studio(at: int) -> Iterator[Any]:
    for role, text in (("user", "Look"), ("assistant", LONG)):
        version = {"type": "singleStep", "role": role, "content": [{"type": "text", "text": text}]}
        yield {"versions": [version], "currentlySelected": 0}


def _long_libre(at: int) -> Iterator[Any]:
    for number, text in enumerate(("Look", LONG)):
        id = 2 * at + number
        yield {"messageId": f"{id}", "parentMessageId": f"{id - 1}", "text": text, "isCreatedByUser": not number}


def _long_items(at: int) -> Iterator[Any]:
    return (line["payload"] for line in _long_codex(at) if line["type"] == "response_item")


def _long_turns(at: int) -> Iterator[Any]:
    asked = {"content": {"Prompt": {"prompt": "Look"}}, "timestamp": None}
    yield {"user": asked, "assistant": {"Response": {"message_id": f"{at}", "content": LONG}}, "request_metadata": None}


def _long_pydantic(at: int) -> Iterator[Any]:
    yield {"kind": "request", "parts": [{"part_kind": "user-prompt", "content": "Look"}]}
    yield {"kind": "response", "model_name": "m", "parts": [{"part_kind": "text", "content": LONG}]}


def _long_vercel(at: int) -> Iterator[Any]:
    for number, (role, text) in enumerate((("user", "Look"), ("assistant", LONG))):
        yield {"id": f"{at}-{number}", "role": role, "parts": [{"type": "text", "text": text}]}


def _long_langchain(at: int) -> Iterator[Any]:
    yield {"type": "human", "data": {"content": "Look"}}
    yield {"type": "ai", "data": {"content": LONG, "tool_calls": []}}


def _long_chunks(at: int) -> Iterator[Any]:
    yield {"role": "user", "text": f"{at} Look"}
    yield {"role": "model", "text": f"{at} {LONG}"}


def _long_nodes(at: int) -> Iterator[Any]:
    """Of a mapping: nodes under their ids."""
    before = f"a{at - 1}" if at else None
    for id, parent, role, text in ((f"u{at}", before, "user", "Look"), (f"a{at}", f"u{at}", "assistant", LONG)):
        content = {"content_type": "text", "parts": [f"{at} {text}"]}
        message = {"author": {"role": role}, "content": content, "create_time": 1.5, "recipient": "all"}
        yield id, {"id": id, "parent": parent, "children": [], "message": message}


def _long_fragments(at: int) -> Iterator[Any]:
    for id, node in _long_nodes(at):
        kind = "REQUEST" if id.startswith("u") else "RESPONSE"
        fragment = {"type": kind, "content": node["message"]["content"]["parts"][0]}
        yield id, {**node, "message": {"fragments": [fragment], "model": "m"}}


def _long_webui(at: int) -> Iterator[Any]:
    before = f"a{at - 1}" if at else None
    yield f"u{at}", {"id": f"u{at}", "parentId": before, "role": "user", "content": f"{at} Look"}
    yield f"a{at}", {"id": f"a{at}", "parentId": f"u{at}", "role": "assistant", "content": f"{at} {LONG}", "model": "m"}


def _long_lobe(at: int) -> Iterator[Any]:
    """The answer is written before its question."""
    for number, (role, text) in ((1, ("assistant", LONG)), (0, ("user", "Look"))):
        fields = {"id": f"{at}-{number}", "createdAt": at * 10 + number, "updatedAt": 1, "topicId": "t"}
        yield {"role": role, "content": f"{at} {text}", **fields}


def _long_mistral(at: int) -> Iterator[Any]:
    for one in _long_lobe(at):
        yield {**one, "chatId": "c"}


def _long_thread(at: int) -> Iterator[Any]:
    for number, (role, text) in enumerate((("assistant", LONG), ("user", "Look"))):
        fields = {"object": "thread.message", "created_at": 10**6 - 2 * at - number, "id": f"m{at}-{number}"}
        yield {"role": role, "content": [{"type": "text", "text": {"value": f"{at} {text}"}}], **fields}


def _long_box(at: int) -> Iterator[Any]:
    yield {"role": "user", "contentParts": [{"type": "text", "text": f"{at} Look"}]}
    yield {"role": "assistant", "contentParts": [{"type": "text", "text": f"{at} {LONG}"}], "model": "m"}


def _long_bubbles(at: int) -> Iterator[Any]:
    yield {"type": 1, "bubbleId": f"u{at}", "text": f"{at} Look"}
    call = {"toolCallId": f"c{at}", "name": "read_file", "rawArgs": '{"path": "a"}', "status": "completed"}
    yield {"type": 2, "bubbleId": f"a{at}", "text": f"{at} {LONG}", "toolFormerData": {**call, "result": LONG}}


def _long_parts(at: int) -> Iterator[Any]:
    yield {"role": "user", "parts": [{"type": "text", "content": f"{at} Look"}]}
    yield {"role": "assistant", "parts": [{"type": "text", "content": f"{at} {LONG}"}]}


def _long_qodo(at: int) -> Iterator[Any]:
    yield {"messageID": f"u{at}", "role": "user", "userInput": f"{at} Look"}
    yield {"messageID": f"a{at}", "role": "assistant", "data": [f"{at} {LONG}"], "modelLabel": "m"}


def _long_contents(at: int) -> Iterator[Any]:
    yield {"role": "user", "parts": [{"text": f"{at} Look"}]}
    yield {"role": "model", "parts": [{"text": f"{at} {LONG}"}, {"functionCall": {"name": "read", "args": {}}}]}
    yield {"role": "user", "parts": [{"functionResponse": {"name": "read", "response": {"output": LONG}}}]}


def _long_claw(at: int) -> Iterator[Any]:
    yield {"role": "user", "content": f"{at} Look"}
    yield {"role": "assistant", "content": [{"type": "toolCall", "id": f"c{at}", "name": "read", "arguments": {}}]}
    result = {"role": "toolResult", "toolCallId": f"c{at}", "toolName": "read", "isError": False}
    yield {**result, "content": [{"type": "text", "text": LONG}]}


def _long_atto(at: int) -> Iterator[Any]:
    yield {"role": "user", "content": f"{at} Look"}
    yield {"role": "assistant", "content": "", "toolCalls": [{"id": f"c{at}", "name": "read", "arguments": {}}]}
    yield {"role": "tool", "toolCallId": f"c{at}", "content": LONG}


LONG_LINE = LONG.replace("\n", " ")


def _long_spec(at: int) -> Iterator[Any]:
    yield f"_**User**_\n\n{at} Look\n\n---\n\n_**Agent (m)**_\n\n{at} {LONG_LINE}\n\n---\n\n"


def _long_aider(at: int) -> Iterator[Any]:
    yield f"#### {at} Look\n\n{at} {LONG_LINE}\n\n"


# By format: how it is written, and the document around it, in which the empty lists are those of the messages; or the
# text before them.
LONG_OTHERS: dict[str, tuple[Callable[[int], Iterator[Any]], Any]] = {
    "qwen-code": (_long_qwen, None),
    "copilot-cli": (_long_copilot, None),
    "kimi": (_long_kimi, None),
    "copilot-chat": (_long_log, None),
    "opencode": (_long_opencode, {"info": {"id": "s"}, "messages": []}),
    "cline": (_long_cline, []),
    "openhands": (_long_openhands, []),
    "swe-agent": (_long_swe, {"trajectory": [], "history": [], "info": {"exit_status": "done"}}),
    "continue": (_long_continue, {"sessionId": "s", "history": []}),
    "kiro": (_long_continue, {"sessionId": "s", "selectedModel": "m", "history": []}),
    "atif": (_long_steps, {"schema_version": "ATIF-v1.4", "steps": []}),
    "amp": (_long_amp, {"v": 1, "id": "T-1", "messages": []}),
    "lm-studio": (_long_studio, {"messages": []}),
    "librechat": (_long_libre, {"conversationId": "c", "messages": []}),
    "amazon-q": (_long_turns, {"conversation_id": "c", "history": []}),
    "pydantic-ai": (_long_pydantic, []),
    "vercel-ui": (_long_vercel, {"id": "c", "messages": []}),
    "langchain": (_long_langchain, []),
    "codex-cli": (_long_items, {"session": {"id": "s"}, "items": []}),
    "gemini-cli": (
        lambda at: (line for line in _long_gemini(at) if "id" in line),
        {"sessionId": "s", "projectHash": "p", "messages": []},
    ),
    "aistudio": (_long_chunks, {"runSettings": {"model": "m"}, "chunkedPrompt": {"chunks": []}}),
    "chatgpt-export": (_long_nodes, [{"title": "Eggs", "mapping": {}}]),
    "deepseek-export": (_long_fragments, {"title": "Eggs", "mapping": {}}),
    "open-webui": (_long_webui, [{"user_id": "x", "chat": {"history": {"messages": {}}, "messages": []}}]),
    "lobe-chat": (_long_lobe, {"schemaHash": "x", "data": {"messages": [], "topics": [{"id": "t"}]}}),
    "le-chat": (_long_mistral, []),
    "openai-assistants": (_long_thread, {"object": "list", "data": []}),
    "chatbox": (_long_box, {"name": "Eggs", "messages": []}),
    "cursor": (_long_bubbles, {"composer": {"composerId": "c", "name": "Eggs"}, "bubbles": []}),
    "agents-sdk": (_long_items, {"session_id": "s", "items": []}),
    "otel": (_long_parts, []),
    "qodo": (_long_qodo, {"thread": {"id": "t"}, "messages": []}),
    "clawtools": (_long_claw, {"systemPrompt": "Be short.", "messages": []}),
    "attocode": (_long_atto, {"model": "m", "messages": []}),
    "specstory": (_long_spec, "<!-- Generated by SpecStory -->\n\n"),
    "aider": (_long_aider, "# aider chat started at 2026-01-01 00:00:00\n\n"),
}


# Other forms of these.
LONG_OTHERS |= {
    "gemini-cli-checkpoint": (_long_contents, {"authType": "oauth-personal", "history": []}),
}


def _filled(around: Any, records: list[Any]) -> Any:
    """The document with the records in its empty lists and objects."""
    if around in ([], {}):
        return [value[1] if isinstance(value, tuple) else value for value in records] if around == [] else dict(records)
    if isinstance(around, list):
        return [_filled(item, records) for item in around]
    return {key: _filled(item, records) for key, item in around.items()} if isinstance(around, dict) else around


def test_a_document_of_one_line_is_not_read_to_its_end_for_its_format() -> None:
    """It would be in memory as a whole."""
    stream = io.BytesIO(b'{"messages": [' + b" " * (20 << 20) + b"]}")
    assert [] == list(first_objects(stream))
    assert stream.tell() < 17 << 20


OTHER_WAYS = ("convert -t transcript", "convert -t interlingua", "show --json")
EVERY_WAY = (
    *("qwen-code", "copilot-cli", "kimi", "copilot-chat", "opencode", "cline", "swe-agent"),
    *("open-webui", "lobe-chat", "specstory"),
)


@pytest.mark.parametrize(
    ("name", "way", "is_transcript"),
    [
        (name, way, is_transcript)
        for name in LONG_OTHERS
        for way in ("stats", "check", "convert -t openai-completions", "itself", *OTHER_WAYS)
        for is_transcript in (False, True)
        if way == "convert -t openai-completions" or name in EVERY_WAY
        if not is_transcript or name in ("qwen-code", "opencode")
    ],
)
def test_nor_does_that_of_files_that_are_kept_as_templates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, way: str, is_transcript: bool
) -> None:
    """A template is as large as its file: one record of it is in memory. Of a file that is not changed, the lines are
    copied. Transcripts with records are read in the same way."""
    monkeypatch.setattr(large_sessions, "LARGE", 1)
    monkeypatch.setattr(templates, "WINDOW", 1 << 16)
    monkeypatch.setattr(templates, "NEAR", 4)
    command, given = {"itself": (convert, ["-t", name, "-j", "1"]), "stats": (stats, [])}.get(way) or WAYS[way]
    write, around = LONG_OTHERS[name]
    peaks, sizes = [], []
    for turns in (10, 40, 100):
        path = tmp_path / (f"{turns}.jsonl" if around is None else f"{turns}.json")
        records = [record for at in range(turns) for record in write(at)]
        if around is None:
            path.write_bytes(lines_of(records))
        elif isinstance(around, str):
            path.write_text(around + "".join(records))
        else:
            path.write_text(json.dumps(_filled(around, records)))
        if is_transcript:
            text = il.convert(path.read_bytes(), "transcript", name).bytes()
            path = path.with_suffix(".jsonl")
            path.write_bytes(text)
        peaks.append(_peak(command, given, path))
        sizes.append(path.stat().st_size)
    limit = peaks[1] + 0.3 * (sizes[2] - sizes[1])
    assert peaks[2] < limit or _peak(command, given, path) < limit


def _run_claude(at: int) -> Iterator[Any]:
    return (line for line in _long_claude(at) if not at or line["message"]["content"] != "Look")


def _run_codex(at: int) -> Iterator[Any]:
    return (line for line in _long_codex(at) if not at or line["payload"].get("role") != "user")


def _run_exec(at: int) -> Iterator[Any]:
    if not at:
        yield {"type": "thread.started", "thread_id": "t"}
        yield {"type": "turn.started"}
    item = {"id": f"i{at}", "type": "command_execution", "command": "ls", "status": "in_progress"}
    yield {"type": "item.started", "item": item}
    yield {"type": "item.completed", "item": {**item, "aggregated_output": LONG, "exit_code": 0, "status": "completed"}}


def _run_pictures(at: int) -> Iterator[Any]:
    """Results with pictures, which most wires have in a message after them, and calls without a result."""
    for line in _long_transcript(at):
        if at and line["role"] == "user":
            continue
        if line["role"] == "assistant":
            line["parentId"] = f"{at - 1}-2" if at else "0-0"
            line["content"] += [{**line["content"][0], "id": f"d{at}"}] if at % 3 == 0 else []
        elif line["role"] == "toolResult":
            line["content"] = [{"type": "text", "text": LONG}, MEDIA[0]]
        yield line


# One user message, and then only calls and results.
RUNS: dict[str, Callable[[int], Iterator[Any]]] = {
    "claude-code": _run_claude,
    "codex-cli": _run_codex,
    "codex-exec-stream": _run_exec,
    "pictures": _run_pictures,
}
RUN_WAYS = [
    "check",
    "check --for anthropic-messages",
    "convert -t openai-completions",
    "convert -t anthropic-messages",
    "convert -t bedrock-converse-stream",
    "convert -t openai-finetune",
    "convert -t codex-cli",
]


@pytest.mark.parametrize("way", RUN_WAYS)
@pytest.mark.parametrize("name", RUNS)
def test_nor_does_that_of_a_run_without_user_messages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, way: str
) -> None:
    """Of one program or another, whose rounds are the pieces."""
    monkeypatch.setattr(large_sessions, "LARGE", 1)
    command, given = WAYS[way]
    peaks, sizes = [], []
    for turns in (10, 40, 100):
        path = tmp_path / f"{turns}.jsonl"
        path.write_bytes(lines_of([line for at in range(turns) for line in RUNS[name](at)]))
        peaks.append(_peak(command, given, path))
        sizes.append(path.stat().st_size)
    limit = peaks[1] + 0.3 * (sizes[2] - sizes[1])
    assert peaks[2] < limit or _peak(command, given, path) < limit


def _chats(turns: int) -> list[Any]:
    messages = [{"role": "user", "content": "Look"}, {"role": "assistant", "content": LONG}]
    return [{"id": f"{at}", "chatID": f"{at}", "chatTitle": "Eggs", "messages": messages} for at in range(turns)]


def _export_of_claude(turns: int) -> list[Any]:
    messages = [{"uuid": "m", "sender": "human", "text": LONG, "content": [{"type": "text", "text": LONG}]}]
    return [{"uuid": f"{at}", "name": "Eggs", "chat_messages": messages} for at in range(turns)]


@pytest.mark.parametrize("way", ["stats", "check", "convert -t openai-completions"])
@pytest.mark.parametrize(
    "export",
    [
        _export_of_claude,
        lambda turns: {"data": {"chats": _chats(turns)}},
        lambda turns: f"# aider chat started at 2026-01-01 00:00:00\n\n#### Look\n\n{LONG_LINE}\n\n" * turns,
    ],
    ids=["list", "object", "text"],
)
def test_nor_does_that_of_an_export_on_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str, export: Callable[[int], Any]
) -> None:
    """Its conversations are read one by one; looking for a format reads the beginning of the line."""
    monkeypatch.setattr(large_sessions, "LARGE", 1)
    monkeypatch.setattr(sources, "LARGE_OBJECT", 1)
    monkeypatch.setattr(arrays, "_MAX_OUTLINE", 1 << 20)
    command, given = {"stats": (stats, [])}.get(way) or WAYS[way]
    peaks, sizes = [], []
    for turns in (20, 80, 200):
        path = tmp_path / f"{turns}.json"
        document = export(turns)
        path.write_text(document if isinstance(document, str) else json.dumps(document))
        peaks.append(_peak(command, given, path))
        sizes.append(path.stat().st_size)
    limit = peaks[1] + 0.3 * (sizes[2] - sizes[1])
    assert peaks[2] < limit or _peak(command, given, path) < limit


def test_a_history_that_cannot_be_cut_is_read_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or refused there, if it is larger than `--max-size`."""
    path = tmp_path / "s.jsonl"
    path.write_bytes(lines_of([*PLAIN[:2], *PLAIN[4:], *PLAIN[:2]]))
    session = open_large(Source(path), None, [])
    assert session is not None and check_large(session, unnamed=True) is not None
    monkeypatch.setattr(pieces, "MAX_CHARACTERS", 2000)
    assert check_large(session, unnamed=True) is None
    assert check_large(session, unnamed=True, target="anthropic-messages") is None
    assert check_large(session, unnamed=True, target="training") is None
    assert encode_large(session, "openai-completions", Lost()) is None


def test_strict_mode_names_a_loss_of_a_large_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without the session in memory; nothing is written."""
    monkeypatch.setattr(large_sessions, "LARGE", 1)
    peaks, sizes = [], []
    for turns in (10, 40, 100):
        path = tmp_path / f"{turns}.jsonl"
        lines = [line for at in range(turns) for line in _long_transcript(at)]
        lines[1]["content"].insert(0, {"type": "thinking", "thinking": "Hm"})
        path.write_bytes(lines_of(lines))
        peaks.append(_peak(convert, ["-t", "codex-cli", "--strict", "-j", "1"], path))
        sizes.append(path.stat().st_size)
        assert path.with_suffix(".out").read_bytes() == b""
        assert "$.messages[1].content[0]" in capsys.readouterr().err
    assert peaks[2] - peaks[1] < 0.3 * (sizes[2] - sizes[1])
