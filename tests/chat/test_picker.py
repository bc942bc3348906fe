"""The picker of sessions, with keys from a pipe."""

import pytest
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from interlingua.chat.screen import SessionPicker
from interlingua.sessions import SessionInfo

INFOS = [
    SessionInfo(id=f"{number}-session", agent="main", title=title, messages=2, modified=number)
    for number, title in enumerate(("plan the garden", "plan the kitchen", "a \x1b[31mpoem", None))
]


@pytest.mark.parametrize(
    ("keys", "picked"),
    [
        ("\r", "0-session"),
        ("\x1b[B\r", "1-session"),
        ("\x1b[B\x1b[B\x1b[A\r", "1-session"),
        ("\x1b[B" * 9 + "\r", "3-session"),
        ("PLAN kit\r", "1-session"),
        ("\x1b[Bpoem\r", "2-session"),
        ("3-s\r", "3-session"),
        ("nothing\r\x03", None),
        ("\x03", None),
        ("\x04", None),
    ],
    ids=["enter", "down", "up", "past-the-end", "search", "search-resets", "id", "no-match", "ctrl-c", "ctrl-d"],
)
async def test_a_session_is_picked_with_keys(keys: str, picked: str | None) -> None:
    """Arrows choose, text searches, Enter opens only what is found, Ctrl-C leaves."""
    with create_pipe_input() as source:
        source.send_text(keys)
        assert picked == await SessionPicker(INFOS, input=source, output=DummyOutput()).run()
