"""The tasks, who does them, and how many lines of code each needs: the table of docs/comparison.md.

A line is one that is not blank, no comment and no docstring, in the body of the task's function, formatted by ruff.
Imports and what a file's tasks share (`user`, `run`) are not counted.
"""

import ast
from pathlib import Path

HERE = Path(__file__).parent
PARTICIPANTS = {
    "with_interlingua": "Interlingua",
    "with_pydantic_ai": "pydantic-ai",
    "with_litellm": "LiteLLM",
    "with_any_llm": "any-llm",
    "with_sdks": "vendors' SDKs",
}
TASKS = {
    "ask": "Ask a question",
    "system": "With a system prompt",
    "stream": "Read the answer as it comes",
    "options": "Set temperature and length",
    "many": "Ask three questions at once",
    "conversation": "Ask, then ask on",
    "typed": "An answer as an object",
    "typed_list": "A list of objects",
    "ask_again": "Ask again when the answer does not fit",
    "partial": "Partial objects while it streams",
    "picture": "Show a picture from a file",
    "document": "Show a PDF from a file",
    "tool": "Let it call a function",
    "tool_error": "Tell it that the function failed",
    "approve": "Ask before a call is run",
    "limit": "Stop after two answers",
    "watch": "See which tools it calls",
    "other_provider": "Ask another provider",
    "hand_over": "Go on with another provider, tool calls included",
    "fallback": "Fall back to another provider",
    "retry": "Wait and retry when it is busy",
    "timeout": "Give up after a while",
    "rate_limit": "Know how long to wait",
    "usage": "Count the tokens",
    "cost": "Know the price",
    "thinking": "Let it think, read the thoughts",
    "embed": "Turn texts into vectors",
    "save": "Save the conversation, go on later",
    "offline": "Test without a network",
    "convert": "Turn a request for OpenAI into one for Anthropic",
}
# Where we need more lines than the best: why.
REASONS: dict[str, str] = {}


def lines_of(participant: str) -> dict[str, int]:
    """The lines of each task that a participant has."""
    text = (HERE / f"{participant}.py").read_text(encoding="utf-8")
    lines = text.splitlines()
    found = {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef) and node.name in TASKS:
            body = lines[node.body[0].lineno - 1 : node.end_lineno]
            found[node.name] = sum(bool(line.strip()) and not line.strip().startswith("#") for line in body)
    return found


def table() -> str:
    """The lines of code by task and participant; – where it has no way for the task."""
    counts = {participant: lines_of(participant) for participant in PARTICIPANTS}
    ours = counts["with_interlingua"]
    rows = [f"| | task | {' | '.join(PARTICIPANTS.values())} |", f"|--:|---|{'--:|' * len(PARTICIPANTS)}"]
    notes = []
    for number, (name, title) in enumerate(TASKS.items(), 1):
        cells = [str(counts[participant].get(name, "–")) for participant in PARTICIPANTS]
        best = min(count[name] for count in counts.values() if name in count)
        if ours[name] > best:
            notes.append(f"- {number}, {title.lower()}: {REASONS[name]}.")
        rows.append(f"| {number} | {title} | {' | '.join(cells)} |")
    sums = [sum(count.values()) for count in counts.values()]
    done = [f"{total} for {len(count)}" for total, count in zip(sums, counts.values(), strict=True)]
    rows.append(f"| | all | {' | '.join(done)} |")
    more = "\n\nWhere Interlingua needs more lines than the shortest:\n\n" + "\n".join(notes) if notes else ""
    return "\n".join(rows) + more
