"""Session, export and data-set files that people have, held against expectations that other code derived from them.

A folder has `FORMAT/NAME` beside `FORMAT/NAME.expected.json`. Where an expectation is a list, each of its values is
defensible. Files that rightly fail a check are listed in exceptions.toml, with the reason.
"""

import json
import os
import tomllib
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import interlingua as il
from interlingua.conversion.adapting.work import NO_RESULT
from interlingua.conversion.detection import detect_name, value_of
from interlingua.conversion.sources import Source, SourceProblem, documents
from interlingua.values.errors import InterlinguaError
from interlingua.values.losses import Lines
from interlingua.values.messages import blocks_of

TARGETS = ("anthropic-messages", "openai-completions")
CHECKS = (
    "detection",
    "decoding",
    "counts",
    "texts",
    "usage",
    "titles",
    "models",
    "times",
    "branches",
    "trip",
    *TARGETS,
)
COMPARED = 40  # conversations of a file
# What one format's files are detected as where that is another name for them, or the plain wire that they hold.
ALSO = {
    "claude-stream-json": {"claude-code"},
    "codex-exec-stream": {"codex-cli"},
    "gemini-stream": {"gemini-cli"},
    "pi": {"openclaw"},
    "openai-finetune": {"openai-completions"},
    "vibe": {"openai-completions", "openai-finetune"},
    "messages-json": {"openai-completions", "openai-finetune", "anthropic-messages", "vercel-ui"},
    "messages-jsonl": {"openai-completions", "openai-finetune", "anthropic-messages"},
    "cline": {"anthropic-messages", "openai-completions"},
    "openai-batch-in": {"openai-completions", "openai-batch"},
    "openai-batch-out": {"openai-completions", "openai-batch"},
    "anthropic-batch": {"anthropic-messages"},
    "cursor-sqlite": {"cursor"},
    "bedrock-finetune": {"anthropic-messages", "openai-finetune"},
}
# These programs show all that stands between two messages of a person as one answer, and so do the expectations.
SHOWN_TOGETHER = ("chatgpt-export", "copilot-chat", "gemini-cli")


def sessions() -> Path:
    """Where the files are: INTERLINGUA_SESSIONS, else beside the repository."""
    beside = Path(__file__).parents[3] / "shared" / "sessions-corpus"
    return Path(os.environ.get("INTERLINGUA_SESSIONS") or beside)


class Judged(NamedTuple):
    """One file: the checks that apply, each with what is wrong (nothing: passed)."""

    file: str
    format: str
    checks: dict[str, list[str]]


class SessionReport(NamedTuple):
    """All files; `excepted` are failures that are right, by file and check."""

    judged: list[Judged]
    excepted: dict[tuple[str, str], str]

    def failures(self) -> list[str]:
        """What fails and should not, and exceptions that no longer fail."""
        failed = {(one.file, check): found for one in self.judged for check, found in one.checks.items() if found}
        wrong = [f"{key[0]} {key[1]}: {found[0]}" for key, found in failed.items() if key not in self.excepted]
        known = {(one.file, check) for one in self.judged for check in one.checks}
        outlived = [key for key in self.excepted if key in known and key not in failed]
        return wrong + [f"{file} {check}: no longer fails: take it out of exceptions.toml" for file, check in outlived]

    def counts(self) -> tuple[int, int]:
        """How many checks pass, of how many."""
        found = [not wrong for one in self.judged for wrong in one.checks.values()]
        return sum(found), len(found)

    def table(self) -> str:
        """Rows: formats; columns: checks; cells: passed/all."""
        cells: dict[str, Counter[tuple[str, bool]]] = {}
        for one in self.judged:
            row = cells.setdefault(one.format, Counter())
            row.update((check, not wrong) for check, wrong in one.checks.items())
        rows = [["", *CHECKS]]
        for name, row in sorted(cells.items()):
            passed = [(row[check, True], row[check, True] + row[check, False]) for check in CHECKS]
            rows.append([name, *(f"{good}/{every}" if every else "-" for good, every in passed)])
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join("  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows)


@cache
def session_exceptions() -> dict[tuple[str, str], str]:
    listed = tomllib.loads((Path(__file__).parent / "exceptions.toml").read_text())
    return {(row["file"], check): row["why"] for row in listed.get("session", []) for check in row["checks"]}


def run_sessions(jobs: int = 2) -> SessionReport:
    """Judges every file."""
    expectations = sorted(sessions().glob("*/*.expected.json"))
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        return SessionReport(list(pool.map(judge, expectations, chunksize=8)), session_exceptions())


def judge(expectation: Path) -> Judged:
    """All checks of one file."""
    path = expectation.with_name(expectation.name.removesuffix(".expected.json"))
    wanted = json.loads(expectation.read_text())
    name = wanted["format"]
    checks: dict[str, list[str]] = {}
    problems: list[SourceProblem] = []
    found = list(documents(Source(path), None, problems))
    detected = [document.dialect or detect_name(document.data) for document in found]
    allowed = {name, *ALSO.get(name, ())}
    checks["detection"] = [f"detected as {other}" for other in {*detected} - allowed] if detected else ["nothing found"]
    if not wanted.get("conversations"):  # a file that holds none
        return Judged(f"{path.parent.name}/{path.name}", name, checks)
    try:
        conversations = list(il.read(path))
    except InterlinguaError as error:
        conversations, checks["decoding"] = [], [str(error)]
    else:
        count, numbers = len(conversations), _alternatives(wanted["conversations"])
        checks["decoding"] = [] if count in numbers else [f"{count} conversations; expected {numbers}"]
    expected = wanted.get("active") or list((wanted.get("samples") or {}).values())
    if expected and wanted.get("leaves") is not None:
        expected = [{"leaves": wanted["leaves"], **expected[0]}, *expected[1:]]
    values = [document.data for document in found]
    for want, conversation, value in _paired(expected, conversations, values, in_order=not wanted.get("samples")):
        for check, wrong in _compared(want, conversation, name).items():
            checks.setdefault(check, []).extend(wrong)
        if len(values) == len(conversations) and path.suffix not in (".zip", ".eval", ".db", ".vscdb", ".sqlite"):
            checks.setdefault("trip", []).extend(_trip(value, conversation, detected[0] or name, problems))
    return Judged(f"{path.parent.name}/{path.name}", name, checks)


def _alternatives(want: Any) -> list[Any]:
    return want if isinstance(want, list) else [want]


def _paired(
    expected: list[Any], conversations: list[il.Conversation], values: list[Any], *, in_order: bool
) -> Iterator[tuple[Any, il.Conversation, Any]]:
    """Expectations with what they are of: in the order of the file, or each with the conversation that it fits best."""
    if in_order:
        every = zip(expected[:COMPARED], conversations, strict=False)
        yield from ((want, one, values[at] if at < len(values) else None) for at, (want, one) in enumerate(every))
        return
    free = expected[:]
    for at, conversation in enumerate(conversations[:COMPARED]):
        if free:
            best = min(free, key=lambda want: sum(map(bool, _compared(want, conversation, "").values())))
            free.remove(best)
            yield best, conversation, values[at] if at < len(values) else None


def _trip(value: Any, conversation: il.Conversation, name: str, problems: list[SourceProblem]) -> list[str]:
    """Whether the file comes back as equal JSON."""
    if problems or value is None:  # a torn log has no JSON value to compare with
        return []
    try:
        back = il.encode(conversation, name).body
    except InterlinguaError as error:
        return [str(error)]
    wanted = value_of(value)
    if isinstance(wanted, Lines) and not isinstance(back, list):
        return ["not lines any more"]
    return [] if json.loads(json.dumps(back)) == json.loads(json.dumps(wanted)) else ["comes back as other JSON"]


# --- facts ------------------------------------------------------------------------------------------------------------


def _compared(want: dict[str, Any], conversation: il.Conversation, name: str) -> dict[str, list[str]]:
    """What differs, by check; of several defensible expectations, from the one that fits best."""
    facts = _facts(conversation)
    shared = {key: want[key] for key in ("title", "leaves") if key in want}
    wants = [want, *({**shared, **other} for other in want.get("or", ()))]
    found = [_differences(one, facts, conversation, name) for one in wants]
    return min(found, key=lambda checks: sum(map(bool, checks.values())))


GROUPS = {
    "counts": ("user", "assistant", "tool_calls", "tool_results", "answered", "thinking", "images"),
    "texts": ("first_user", "last_assistant"),
    "usage": ("usage",),
    "models": ("models",),
    "times": ("first", "last"),
    "branches": ("leaves",),
}


def _differences(
    want: dict[str, Any], facts: dict[str, Any], conversation: il.Conversation, name: str
) -> dict[str, list[str]]:
    checks: dict[str, list[str]] = {}
    if name in SHOWN_TOGETHER and not _fits("assistant", want.get("assistant"), facts["assistant"]):
        facts = {**facts, "assistant": facts["shown"]}
    for check, keys in GROUPS.items():
        asked = [key for key in keys if key in want and not (key == "models" and not want[key])]
        if asked:
            wrong = [key for key in asked if not _fits(key, want[key], facts[key])]
            checks[check] = [f"{key}: expected {want[key]!r}, got {facts[key]!r}"[:300] for key in wrong]
    if "title" in want:
        wrong_title = [] if conversation.title == want["title"] else [f"{conversation.title!r}, not {want['title']!r}"]
        checks["titles"] = wrong_title
    if name and "answered" in want and "tool_calls" in want:
        checks |= {target: _kept(conversation, target, want) for target in TARGETS}
    return checks


def _fits(key: str, want: Any, got: Any) -> bool:
    if key == "models":
        lists = want if want and isinstance(want[0], list) else [want]
        return any(set(one) <= set(got) or (bool(got) and set(got) <= set(one)) for one in lists)
    if key == "usage":
        empty = dict.fromkeys(_BUCKETS, 0)
        return any((one or empty) == (got or empty) for one in _alternatives(want))
    if key in ("first", "last"):
        return got is not None and any(abs(one - got) < 1500 for one in _alternatives(want))
    return bool(got == want) if key == "tool_calls" else got in _alternatives(want)


_BUCKETS = ("input", "output", "cache_read", "cache_write")


def _facts(conversation: il.Conversation) -> dict[str, Any]:
    """What is counted on the active path."""
    messages = conversation.messages
    answers = [message for message in messages if isinstance(message, il.AssistantMessage)]
    results = [message for message in messages if isinstance(message, il.ToolResultMessage)]
    people = [message for message in messages if isinstance(message, il.UserMessage) and message.origin != "program"]
    spoken = [message for message in messages if isinstance(message, il.UserMessage | il.AssistantMessage)]
    calls = [call for answer in answers for call in answer.tool_calls]
    answered = {result.tool_call_id for result in results}
    blocks = [block for m in messages if hasattr(m, "content") for block in blocks_of(m.content)]
    texts = [b.text for a in answers for b in blocks_of(a.content) if isinstance(b, il.TextBlock) and b.text.strip()]
    times = [message.timestamp for message in (*spoken, *results) if message.timestamp]
    usages = [answer.usage for answer in answers if answer.usage is not None]
    stated = [conversation.usage] if conversation.usage is not None else usages
    models = {name for answer in answers for name in (answer.model, answer.response_model) if name}
    models |= {conversation.model.id} if conversation.model is not None and conversation.model.id else set()
    first = [text for person in people if (text := _text(person)).strip()]
    shown = [at for at, one in enumerate(spoken) if isinstance(one, il.AssistantMessage)]
    return {
        "user": len(people),
        "assistant": len(answers),
        "shown": sum(at == 0 or not isinstance(spoken[at - 1], il.AssistantMessage) for at in shown),
        "tool_calls": [call.name for call in calls],
        "tool_results": len(results),
        "answered": sum(call.id in answered for call in calls),
        "thinking": sum(isinstance(block, il.ThinkingBlock) for block in blocks),
        "images": sum(isinstance(block, il.ImageBlock) for block in blocks),
        "first_user": _short(first[0]) if first else None,
        "last_assistant": _short(texts[-1]) if texts else None,
        "models": sorted(models - {"<synthetic>"}),
        "usage": {key: sum(getattr(one, key) for one in stated) for key in _BUCKETS} if stated else None,
        "first": min(times, default=None),
        "last": max(times, default=None),
        "leaves": _leaves(conversation),
    }


def _text(message: il.UserMessage) -> str:
    if isinstance(message.content, str):
        return message.content
    return "\n".join(b.text for b in blocks_of(message.content) if isinstance(b, il.TextBlock) and b.text)


def _short(text: str) -> str:
    return " ".join(text.split())[:80].strip()


def _leaves(conversation: il.Conversation) -> int:
    """Entries that no other follows; one without an id follows the entry before it."""
    places: dict[str | None, int] = {}
    parents: set[int] = set()
    for at, entry in enumerate(conversation.entries):
        before = at - 1 if at else None
        if entry.parent_id is not None:
            parent = places.get(entry.parent_id, before)
        else:
            parent = before if entry.id is None else None
        parents |= set() if parent is None else {parent}
        places.setdefault(entry.id, at)
    return len(conversation.entries) - len(parents)


def _kept(conversation: il.Conversation, target: str, want: dict[str, Any]) -> list[str]:
    """Whether a request holds every result that was recorded, and makes none up for an answered call."""
    try:
        body = il.encode(conversation, target).body
    except InterlinguaError as error:
        return [str(error)]
    results = []
    for message in body["messages"] if isinstance(body, dict) else body:
        if message["role"] == "tool":
            results.append(message.get("content"))
        elif isinstance(message.get("content"), list):
            results += [block.get("content") for block in message["content"] if block.get("type") == "tool_result"]
    made_up = sum(NO_RESULT in json.dumps(result, ensure_ascii=False) for result in results)
    real, calls, answered = len(results) - made_up, len(want["tool_calls"]), want["answered"]
    if made_up <= calls - answered and real >= answered:
        return []
    return [f"{real} results and {made_up} made up; {answered} of {calls} calls were answered"]
