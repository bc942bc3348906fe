"""A chat without a terminal: a screen that remembers what it was told, and scripts for the offline model."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from rich.console import RenderableType

from interlingua.chat.chat import Chat, ChatSettings
from interlingua.chat.commands import COMMANDS
from interlingua.chat.display import Display
from interlingua.chat.opening import open_session
from interlingua.chat.plain import plain_text
from interlingua.chat.themes import DARK
from interlingua.tools.policy import ASK
from interlingua.values.events import AgentEvent


class Remembering:
    """A screen for tests."""

    is_terminal = False
    keys = "any"

    def __init__(self) -> None:
        self.display = Display()
        self.theme = DARK
        self.text = ""
        self.offered: list[str] = []
        self.notified: list[str] = []
        self.left = False
        self.asked = asyncio.Event()

    async def run(self, chat: Chat, prompt: str | None) -> int:
        await chat.start(prompt)
        return 0

    async def handle(self, event: AgentEvent) -> None:
        await self.show(*self.display.handle(event))

    async def show(self, *parts: RenderableType) -> None:
        self.text += plain_text(parts)

    aside = show

    async def question(self, text: str) -> None:
        self.text += f"{text}\n"
        self.asked.set()

    def offer(self, text: str) -> None:
        self.offered.append(text)

    def notify(self, text: str) -> None:
        self.notified.append(text)

    def refresh(self) -> None:
        pass

    def leave(self) -> None:
        self.left = True

    def take(self) -> str:
        """What was shown since it was taken last."""
        text, self.text = self.text, ""
        return text


class Talk:
    """A chat, and its screen."""

    def __init__(self, chat: Chat, screen: Remembering) -> None:
        self.chat = chat
        self.screen = screen

    async def say(self, line: str) -> str:
        """Says something and waits until it is the user's turn again; what was shown meanwhile."""
        self.screen.take()
        await self.chat.take(line)
        await self.chat.wait_for_turn()
        return self.screen.take()


@contextlib.asynccontextmanager
async def talking(
    folder: Path, script: list[Any] | None = None, *, session: str | None = None, model: str | None = None, **how: Any
) -> AsyncIterator[Talk]:
    """A chat in `folder`, with a model that follows the script, or another one."""
    place = folder / "script.json"
    if script is not None:
        place.write_text(json.dumps(script))
    root = folder / "root"
    root.mkdir(exist_ok=True)
    chosen = model or (f"debug/script:{place}" if script is not None else None)
    settings = ChatSettings(root=root, policy=ASK, model=chosen, usual_model=lambda: "debug/parrot-1", **how)
    screen = Remembering()
    chat = Chat(screen, settings, open_session(session, resume=False, system=None), COMMANDS)
    try:
        await chat.start(None)
        await chat.wait_for_turn()
        yield Talk(chat, screen)
    finally:
        await chat.close()
