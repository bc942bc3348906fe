"""Conversations as evaluation samples: sends recorded prompts to any model again.

`inspect_sample` builds samples for Inspect AI (`pip install inspect-ai`).
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..conversion.inputs import Given, conversation_of
from ..conversion.sources import read
from ..dialects.files.inspect_ai import chat_messages
from ..sessions.session import Session
from ..values.errors import FormatError, InterlinguaError
from ..values.messages import AssistantMessage
from ..values.request import Conversation, Entry

if TYPE_CHECKING:
    from inspect_ai.dataset import Sample


def prompt_and_answer(given: Given | Session) -> tuple[Conversation, str]:
    """Returns the conversation up to its last question (or tool result), and the text of the answers after that."""
    if isinstance(given, Session):
        entries = tuple(Entry(message=message) for message in given.context_messages())  # type: ignore[arg-type]
        conversation = Conversation(entries=entries, title=given.title)
    else:
        conversation = conversation_of(given)
    path = list(conversation.path())
    answers: list[str] = []
    while path and isinstance(path[-1].message, AssistantMessage):
        answers.insert(0, path.pop().message.text)
    if not path:
        raise FormatError("a sample needs a question; this conversation has only answers", "conversation")
    prompt = Conversation(
        entries=tuple(Entry(message=entry.message) for entry in path),
        system=conversation.system,
        model=conversation.model,
        title=conversation.title,
    )
    return prompt, "\n\n".join(answers)


def inspect_sample(
    given: Given | Session,
    *,
    target: str | list[str] | None = None,
    id: str | int | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> "Sample":
    """Returns an Inspect AI sample that asks the last question again.

    The `target` is the recorded answer by default. The model, the title, and what Inspect's messages cannot hold
    (`losses`) are in the sample's metadata, beside yours.
    """
    try:
        from inspect_ai.dataset import Sample
    except ModuleNotFoundError:
        raise InterlinguaError("Inspect AI is not installed; pip install inspect-ai") from None
    prompt, answer = prompt_and_answer(given)
    messages = chat_messages(prompt)
    about: dict[str, Any] = {"title": prompt.title, "model": prompt.model and prompt.model.id}
    if messages.losses:
        about["losses"] = [str(loss) for loss in messages.losses]
    return Sample.model_validate(
        {
            "input": messages.body,
            "target": answer if target is None else target,
            "id": id,
            "metadata": {**{key: value for key, value in about.items() if value}, **(metadata or {})},
        }
    )


def inspect_samples(paths: Iterable[str | Path]) -> "Iterator[Sample]":
    """Returns a sample for each conversation of files in any format; its id is the file's name and the number in it."""
    for path in paths:
        for number, conversation in enumerate(read(path), 1):
            yield inspect_sample(conversation, id=f"{Path(path).name}:{number}")
