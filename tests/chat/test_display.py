"""Events become parts: what is finished once, what is under way as it is now."""

from typing import Any

import pytest

import interlingua as il
from interlingua.chat.display import Display
from interlingua.chat.plain import plain_text
from interlingua.values.events import (
    AgentEnd,
    AgentEvent,
    AgentStart,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCallStart,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
    TurnStart,
)


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def display(clock: Clock) -> Display:
    return Display(clock)


def shown_after(display: Display, *events: AgentEvent) -> str:
    return plain_text([part for event in events for part in display.handle(event)])


def live(display: Display) -> str:
    return plain_text(display.live())


def streamed(*events: Any) -> list[AgentEvent]:
    return [MessageUpdate(event) for event in events]


def test_a_finished_paragraph_leaves_the_live_part(display: Display) -> None:
    """It is printed once; only the tail is drawn again."""
    display.handle(MessageStart(il.AssistantMessage(content=())))
    assert "" == shown_after(display, *streamed(TextStart(0), TextDelta(0, "One **bold**.\n\n")))
    assert "One bold.\n" == shown_after(display, *streamed(TextDelta(0, "Two")))
    assert "\nTwo\n" == live(display)
    ended = MessageEnd(il.AssistantMessage(content="One **bold**.\n\nTwo."))
    assert "\nTwo.\n" == shown_after(display, *streamed(TextDelta(0, "."), TextEnd(0, "")), ended)
    assert "" == live(display)


def test_thinking_is_folded_and_timed(display: Display, clock: Clock) -> None:
    """One line while it lasts, one line afterwards, the whole on demand."""
    display.handle(MessageUpdate(ThinkingStart(0)))
    clock.now += 3
    display.handle(MessageUpdate(ThinkingDelta(0, "Let me see.")))
    assert "▸ thinking for 3.0 s…\n" == live(display)
    shown = shown_after(display, MessageUpdate(ThinkingEnd(0, "Let me see.")))
    assert shown.startswith("▸ thought for 3.0 s (11 characters")
    assert "Let me see." == display.last_thought


def test_unfolded_thinking_is_shown_as_it_comes(display: Display) -> None:
    """When the user asked for it."""
    display.open_thoughts = True
    shown_after(display, *streamed(ThinkingStart(0), ThinkingDelta(0, "Let me see.")))
    assert "Let me see.\n" == live(display)
    assert "Let me see.\n" == shown_after(display, *streamed(ThinkingEnd(0, "Let me see.")))


def test_a_running_call_shows_its_last_lines_and_how_long_it_runs(display: Display, clock: Clock) -> None:
    """Then what came of it is printed once."""
    output = "\n".join(f"line {number}" for number in range(20))
    display.handle(ToolExecutionStart("c1", "exec", {"command": "make"}))
    clock.now += 65
    display.handle(ToolExecutionUpdate("c1", "exec", {}, {"content": [{"type": "text", "text": output}]}))
    assert ["● exec make  1 min 5 s", "  … 15 lines before", "  line 15"] == live(display).splitlines()[:3]
    done = {"content": [{"type": "text", "text": "failed"}]}
    assert "● exec make  1 min 5 s\n  failed\n" == shown_after(display, ToolExecutionEnd("c1", "exec", done, True))
    assert "" == live(display)


def test_a_call_that_waits_for_permission_is_not_shown_as_running(display: Display, clock: Clock) -> None:
    """And its time begins when it is allowed."""
    display.handle(ToolExecutionStart("c1", "exec", {"command": "make"}))
    display.approval("c1", "● exec make")
    assert "" == live(display)
    clock.now += 30
    display.answered("c1")
    assert "● exec make  0.0 s\n" == live(display)


def test_waiting_for_the_model_is_seen(display: Display, clock: Clock) -> None:
    """Until the first thing comes; a call that is being written is named."""
    shown_after(display, AgentStart(), TurnStart())
    clock.now += 2
    assert "· waiting for the model, 2.0 s\n" == live(display)
    display.handle(MessageUpdate(ToolCallStart(0, il.ToolCall(id="c", name="write", arguments={}))))
    assert "● write …\n" == live(display)
    shown_after(display, MessageEnd(il.AssistantMessage(content=())), AgentEnd(()))
    assert "" == live(display)


def test_an_answer_that_did_not_stream_is_shown_whole(display: Display) -> None:
    """Its words and its thinking."""
    message = il.AssistantMessage(content=(il.ThinkingBlock(thinking="hm"), il.TextBlock(text="One.\n\nTwo.")))
    shown = shown_after(display, MessageStart(message), MessageEnd(message))
    assert ["One.", "Two."] == [line for line in shown.splitlines() if line][1:]


def test_an_answer_that_is_asked_for_again_says_why(display: Display) -> None:
    """So that a pause is understood."""
    broken = il.AssistantMessage(content="It be", stop_reason="error", error_message="cut off")
    shown = shown_after(display, MessageStart(broken), MessageEnd(broken), TurnStart())
    assert "the answer was cut off (cut off); retrying" in shown
    assert "" == shown_after(display, TurnStart())


def test_a_retried_answer_prints_no_part_twice(display: Display) -> None:
    """What the first attempt printed stays; its last, unfinished piece is written anew, as is whatever differs."""
    broken = il.AssistantMessage(content="One.\n\nTwo be", stop_reason="error", error_message="cut off")
    texts = [TextDelta(0, "One.\n\n"), TextDelta(0, "Two be"), TextEnd(0, "One.\n\nTwo be")]
    shown = shown_after(display, MessageStart(broken), *streamed(*texts), MessageEnd(broken))
    assert ["One."] == shown.split()
    assert "Two be" in live(display)
    shown = shown_after(display, TurnStart(), MessageStart(broken))
    assert "Two be" not in shown + live(display)
    whole = il.AssistantMessage(content="One.\n\nTwo begins.\n\nThree.")
    shown = shown_after(
        display, *streamed(TextDelta(0, whole.text), TextEnd(0, whole.text)), MessageEnd(whole), AgentEnd(())
    )
    assert ["Two begins.", "Three."] == [line for line in shown.splitlines() if line]


def test_an_answer_that_is_not_retried_keeps_its_last_piece(display: Display) -> None:
    """Nothing that came is hidden in the end."""
    broken = il.AssistantMessage(content="It be", stop_reason="error", error_message="cut off")
    shown_after(
        display, MessageStart(broken), *streamed(TextDelta(0, "It be"), TextEnd(0, "It be")), MessageEnd(broken)
    )
    assert "It be" in shown_after(display, AgentEnd(()))


def test_a_long_answer_is_printed_once_and_drawn_in_small_parts(display: Display) -> None:
    """The live part never grows with the answer, and no word is printed twice."""
    display.handle(MessageStart(il.AssistantMessage(content=())))
    printed, tallest = "", 0
    for number in range(400):
        printed += shown_after(display, *streamed(TextDelta(0, f"paragraph {number}\n\n")))
        tallest = max(tallest, live(display).count("\n"))
    printed += shown_after(display, *streamed(TextEnd(0, "")), MessageEnd(il.AssistantMessage(content="")))
    assert [f"paragraph {number}" for number in range(400)] == [line for line in printed.splitlines() if line]
    assert tallest <= 2
