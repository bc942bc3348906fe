"""Gemini's data export (Google Takeout, `MyActivity.json`): a list of activities, each a prompt with its answer.

Takeout does not say which prompts belong together, so each is a conversation. The prompt is the `title`, behind a word
for "Prompted" in the language of the account; the answer is HTML, which is read as text. An activity without an answer
(a canvas, an upload) has the prompt alone.
"""

import html.parser
from typing import Any

from ...values.errors import BadWire
from ...values.messages import AssistantMessage, Message, TextBlock
from ...values.request import Conversation
from .program_content import conversation_of, items, moment, user
from .reading import Documents

API = "gemini-apps"

PROMPTED = ("Prompted ", "Prompted\u00a0", "Said ", "Asked ")
_BLOCKS = frozenset(
    ("p", "div", "ul", "ol", "li", "pre", "table", "tr", "h1", "h2", "h3", "h4", "h5", "h6", "br", "hr")
)


class _Text(html.parser.HTMLParser):
    """The text of HTML, a line for each block."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag in _BLOCKS:
            self.found.append("\n- " if tag == "li" else "\n")

    def handle_endtag(self, tag: str) -> None:
        if tag in _BLOCKS:
            self.found.append("\n")

    def handle_data(self, data: str) -> None:
        self.found.append(data)


def _text(value: str) -> str:
    parser = _Text()
    parser.feed(value)
    parser.close()
    lines = (line.rstrip() for line in "".join(parser.found).split("\n"))
    return "\n".join(line for line in lines if line.strip())


def _is_activity(value: Any) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("title"), str) or "time" not in value:
        return False
    products = value.get("products")
    names = [value.get("header"), *(products if isinstance(products, list) else ())]
    return any(name in ("Gemini Apps", "Gemini", "Bard") for name in names)


def _messages(activity: dict[str, Any]) -> list[Message]:
    title, when = activity["title"], moment(activity["time"])
    mark = next((mark for mark in PROMPTED if title.startswith(mark)), "")
    answers = [_text(item["html"]) for item in items(activity.get("safeHtmlItem")) if isinstance(item.get("html"), str)]
    found: list[Message] = [user(title[len(mark) :], when)]
    if answers:
        blocks = tuple(TextBlock(text=text) for text in answers)
        found.append(AssistantMessage(content=blocks, timestamp=when))
    return found


def _conversation(one: dict[str, Any]) -> Conversation:
    """One activity."""
    if not one["title"]:
        raise BadWire(API, "an activity without a prompt", "$.title")
    return conversation_of(_messages(one))


FORMAT = Documents(API, _is_activity, "an activity of Gemini Apps", "activities").format(_conversation, rank=20)
