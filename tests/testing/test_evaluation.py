"""Conversations as samples of an evaluation. interop/inspect_samples.py has Inspect itself read and run them."""

from pathlib import Path

import pytest

import interlingua as il
from interlingua.dialects.files.inspect_ai import chat_messages
from interlingua.testing.evaluation import inspect_sample, prompt_and_answer

CALL = il.ToolCall(id="c1", name="rain", arguments={"city": "Oslo"})


def test_the_last_answer_is_what_is_expected() -> None:
    """The question, and all before it, is asked again; answers after it are the target."""
    history = [il.UserMessage("Hi"), il.AssistantMessage("Hello."), il.UserMessage("More"), il.AssistantMessage("Bye.")]
    asked, answer = prompt_and_answer(history)
    assert ["Hi", "Hello.", "More"] == [message.text for message in asked.messages]
    assert "Bye." == answer


def test_a_tool_result_may_be_the_last_question() -> None:
    """What a model says to a result can be evaluated, too."""
    history = [il.UserMessage("Hi"), il.AssistantMessage((CALL,)), il.ToolResultMessage("no", tool_call_id="c1")]
    asked, answer = prompt_and_answer(history)
    assert (3, "") == (len(asked.messages), answer)


def test_a_session_gives_what_the_model_would_read(tmp_path: Path) -> None:
    """The path to the head, after compaction."""
    with il.Session.open("s", home=tmp_path) as session:
        question = session.append(il.UserMessage("Hi"))
        session.append(il.AssistantMessage("One."))
        session.rewind(question.id)
        session.append(il.AssistantMessage("Two."))
        asked, answer = prompt_and_answer(session)
    assert (["Hi"], "Two.") == ([message.text for message in asked.messages], answer)


def test_a_conversation_of_answers_is_refused() -> None:
    """There is nothing to ask."""
    with pytest.raises(il.FormatError, match="needs a question"):
        prompt_and_answer([il.AssistantMessage("Hello.")])


def test_messages_are_inspects_own() -> None:
    """System text, parts, calls beside them, and an error in words; what has no place is a loss."""
    picture = il.ImageBlock(data="AAAA", mime_type="image/png")
    conversation = il.Conversation(
        entries=(
            il.Entry(message=il.UserMessage((il.TextBlock(text="Look"), picture))),
            il.Entry(message=il.AssistantMessage((il.ThinkingBlock(thinking="hm"), CALL))),
            il.Entry(message=il.ToolResultMessage("offline", tool_call_id="c1", is_error=True)),
            il.Entry(message=il.CustomMessage("note", {"content": "not sent"})),  # type: ignore[arg-type]
        ),
        system="Be brief.",
    )
    encoded = chat_messages(conversation)
    roles = [message["role"] for message in encoded.body]
    assert ["system", "user", "assistant", "tool"] == roles
    assert {"type": "image", "image": "data:image/png;base64,AAAA"} == encoded.body[1]["content"][1]
    assert "rain" == encoded.body[2]["tool_calls"][0]["function"]
    assert {"type": "unknown", "message": "offline"} == encoded.body[3]["error"]
    assert ["$.messages[3]"] == [loss.path for loss in encoded.losses]


def test_without_inspect_the_remedy_is_named() -> None:
    """The package is not a dependency, and not in the tests' environment."""
    with pytest.raises(il.InterlinguaError, match="pip install inspect-ai"):
        inspect_sample("Hi")
