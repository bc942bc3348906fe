"""Compacted conversations: what the model read goes into requests, what the program shows stays on the path."""

from typing import Any

import pytest

import interlingua as il
from interlingua.values.losses import Lines


def entry(id: str, parent: str | None, role: str, text: str) -> dict[str, Any]:
    content = text if role == "user" else [{"type": "text", "text": text}]
    return {"type": "message", "id": id, "parentId": parent, "message": {"role": role, "content": content}}


PI = Lines(
    [
        {"type": "session", "version": 3, "id": "s", "timestamp": "2025-01-01T00:00:00.000Z", "cwd": "/home/me"},
        entry("a", None, "user", "Begin"),
        entry("b", "a", "assistant", "Begun"),
        entry("c", "b", "user", "Go on"),
        entry("d", "c", "assistant", "Gone on"),
        {"type": "compaction", "id": "e", "parentId": "d", "summary": "It began.", "firstKeptEntryId": "c"},
        entry("f", "e", "user", "And now?"),
    ]
)


def item(role: str, text: str) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    payload = {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}
    return {"timestamp": "2025-01-01T00:00:00.000Z", "type": "response_item", "payload": payload}


def codex(**more: Any) -> Lines:
    compaction = {"message": "Summary: it began.", **more}
    return Lines(
        [
            {
                "timestamp": "2025-01-01T00:00:00.000Z",
                "type": "session_meta",
                "payload": {"id": "s", "cwd": "/home/me"},
            },
            item("user", "Begin"),
            item("assistant", "Begun"),
            {"timestamp": "2025-01-01T00:00:00.000Z", "type": "compacted", "payload": compaction},
            item("user", "And now?"),
        ]
    )


def texts_of(body: Any) -> list[str]:
    texts = []
    for message in body["messages"]:
        content = message["content"]
        texts += [content] if isinstance(content, str) else [part["text"] for part in content]
    return texts


@pytest.mark.parametrize("target", ["anthropic-messages", "openai-completions", "ollama-chat"])
def test_pi_s_summary_stands_in_the_place_of_what_it_summarises(target: str) -> None:
    """The entries that were kept follow it, then what came after; the path still has everything."""
    conversation = il.decode(PI)
    encoded = il.encode(conversation, target)
    first, *rest = texts_of(encoded.body)
    assert "<summary>\nIt began.\n</summary>" in first
    assert ["Go on", "Gone on", "And now?"] == rest
    assert ["user", "assistant", "user", "assistant", "compaction", "user"] == [m.role for m in conversation.messages]
    left_out = [loss.path for loss in encoded.losses if loss.what == "compacted history"]
    assert ["$.messages[0]", "$.messages[1]"] == left_out
    assert PI == il.encode(conversation, "openclaw").body


def test_the_first_version_of_pi_names_the_first_kept_line_by_its_number() -> None:
    """Lines have no ids there, and the header is line 0; a tree that has ids ignores the number, as pi does."""
    old = Lines({k: v for k, v in line.items() if k not in ("version", "parentId")} for line in PI)
    for line in old[1:]:
        del line["id"]
    old[5] = {"type": "compaction", "summary": "It began.", "firstKeptEntryIndex": 3}
    bodies = [il.encode(il.decode(lines, "openclaw"), "openai-completions").body for lines in (old, PI)]
    assert bodies[0] == bodies[1]
    numbered = Lines([*PI[:5], {**old[5], "id": "e", "parentId": "d"}, PI[6]])
    assert len(il.encode(il.decode(numbered, "openclaw"), "openai-completions").body["messages"]) == 2


def test_codex_keeps_what_the_user_asked_and_the_summary() -> None:
    """As the program does; the answers before are what the summary stands for."""
    encoded = il.encode(il.decode(codex()), "anthropic-messages")
    assert ["Begin", "Summary: it began.", "And now?"] == texts_of(encoded.body)
    assert "$.messages[1]" in [loss.path for loss in encoded.losses if loss.what == "compacted history"]


def test_a_history_that_codex_wrote_beside_the_summary_is_what_the_model_read() -> None:
    """Newer versions say it themselves; it may be empty."""
    history = [item("user", "Begin, shortened")["payload"], item("user", "Summary: all of it.")["payload"]]
    encoded = il.encode(il.decode(codex(replacement_history=history)), "anthropic-messages")
    assert ["Begin, shortened", "Summary: all of it.", "And now?"] == texts_of(encoded.body)
    encoded = il.encode(il.decode(codex(replacement_history=[])), "anthropic-messages")
    assert ["And now?"] == texts_of(encoded.body)


def test_a_session_for_another_program_begins_with_the_summary() -> None:
    """Claude Code resumes what the model had, and is not sent the history that no longer fitted."""
    lines = il.encode(il.decode(PI), "claude-code").body
    texts = [str(line["message"]["content"]) for line in lines if "message" in line]
    assert "It began." in texts[0]
    assert not any("Begun" in text for text in texts)


def test_the_place_of_a_loss_is_that_in_the_conversation() -> None:
    """Not that in the shorter one which is sent."""
    lines = Lines([*PI[:-1], entry("f", "e", "user", "And now?")])
    lines[-1]["message"]["content"] = [{"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}]
    losses = il.encode(il.decode(lines), "anthropic-messages").losses
    assert any(loss.path.startswith("$.messages[5]") and loss.severity == "dropped" for loss in losses)
