"""A conversation that was edited after it was read from a file: its own format has the change, or reports a loss."""

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import interlingua as il
from interlingua.dialects import FORMATS, dialect
from interlingua.values.messages import (
    AssistantMessage,
    Block,
    Citation,
    CustomMessage,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    blocks_of,
    text_of,
)
from laws.test_returned import values

WIRE = Path(__file__).parents[1] / "wire"


def conversations() -> Iterator[Any]:
    """The samples of all file formats that are one conversation."""
    for name in FORMATS:
        for path in sorted((WIRE / name).iterdir()) if (WIRE / name).is_dir() else ():
            try:
                conversation = dialect(name).decode(values(path))
            except (il.InterlinguaError, ValueError):  # several conversations, or a part of a test
                continue
            yield pytest.param(name, conversation, id=f"{name}/{path.name}")


def edits(conversation: il.Conversation) -> Iterator[tuple[str, il.Conversation]]:
    """Each text, thought and call changed, each block removed, a source added to each text and a text to each message,
    each mark of an error turned."""
    for at, entry in enumerate(conversation.entries):
        message = entry.message

        def having(changed: Any, at: int = at, entry: il.Entry = entry) -> il.Conversation:
            entries = (*conversation.entries[:at], replace(entry, message=changed), *conversation.entries[at + 1 :])
            return replace(conversation, entries=entries)

        if not isinstance(message, UserMessage | AssistantMessage | ToolResultMessage) or not message.content:
            continue
        if isinstance(message.content, str):
            yield f"text of {at}", having(replace(message, content=f"Walrus {message.content}"))
        else:
            blocks = message.content
            for place, block in enumerate(blocks):
                for what, others in _changed(block, type(message)):
                    edited = (*blocks[:place], *others, *blocks[place + 1 :])
                    if edited:
                        yield f"{what} {place} of {at}", having(replace(message, content=edited))
            yield f"a text added to {at}", having(replace(message, content=(*blocks, TextBlock(text="Walrus"))))
        if isinstance(message, ToolResultMessage):
            yield f"the error of {at}", having(replace(message, is_error=not message.is_error))


def _changed(block: Block, role: type) -> Iterator[tuple[str, tuple[Block, ...]]]:
    match block:
        case TextBlock():
            yield "text", (replace(block, text=f"Walrus {block.text}"),)
            if role is AssistantMessage:
                source = Citation(title="Walrus", url="https://walrus.example/")
                yield "a source of text", (replace(block, citations=(*block.citations, source)),)
        case ThinkingBlock():
            yield "thought", (replace(block, thinking=f"Walrus {block.thinking}"),)
        case ToolCall():
            arguments = {**block.arguments, "walrus": 1}
            yield "arguments", (replace(block, arguments=arguments, arguments_text=None),)
            yield "name", (replace(block, name="walrus"),)
        case _:
            return
    if not isinstance(block, ToolCall):  # its result would have no call
        yield "without block", ()


def outline(conversation: il.Conversation) -> list[Any]:
    """Texts, calls and results in their order. Formats differ in what is one message, and where lines are broken."""
    found: list[Any] = []

    def say(role: str, text: str) -> None:
        if found and found[-1][0] == role:
            found[-1] = (role, found[-1][1] + "".join(text.split()))
        elif text.strip():
            found.append((role, "".join(text.split())))

    for message in conversation.messages:
        match message:
            case UserMessage():
                say("user", text_of(message.content))
            case AssistantMessage():
                say("assistant", text_of(message.content))
                sources = [source for block in blocks_of(message.content) for source in getattr(block, "citations", ())]
                found += [("source", source.url) for source in sources if source.title == "Walrus"]
                calls = [block for block in blocks_of(message.content) if isinstance(block, ToolCall)]
                found += [("call", call.name, json.dumps(call.arguments, sort_keys=True)) for call in calls]
            case ToolResultMessage():
                found.append(("result", "".join(text_of(message.content).split()), message.is_error))
    return found


@pytest.mark.parametrize(("name", "conversation"), list(conversations()))
def test_an_edit_is_in_the_file_or_reported(name: str, conversation: il.Conversation) -> None:
    """No line of the file that was read takes the place of what somebody wrote since."""
    for what, edited in edits(conversation):
        try:
            encoded = il.encode(edited, name, adapt=False)
        except il.InterlinguaError:
            continue
        if any(loss.severity != "record" for loss in encoded.losses):
            continue
        body = encoded.body if isinstance(encoded.body, str) else json.loads(json.dumps(encoded.body))
        assert outline(edited) == outline(dialect(name).decode(body)), what


@pytest.mark.parametrize(("name", "conversation"), list(conversations()))
def test_an_answer_can_change_places_with_an_event(name: str, conversation: il.Conversation) -> None:
    """What the file says of the answer's records is not the event's."""
    entries = conversation.entries
    for at, (one, other) in enumerate(pairwise(entries)):
        if {AssistantMessage, CustomMessage} == {type(one.message), type(other.message)}:
            swapped = (replace(one, message=other.message), replace(other, message=one.message))
            edited = replace(conversation, entries=(*entries[:at], *swapped, *entries[at + 2 :]))
            try:
                body = json.loads(json.dumps(il.encode(edited, name, adapt=False).body))
            except il.Unsupported:  # one of the formats that are read and returned
                continue
            calls = [one for one in outline(edited) if one[0] in ("assistant", "call")]
            assert calls == [one for one in outline(dialect(name).decode(body)) if one[0] in ("assistant", "call")], at
