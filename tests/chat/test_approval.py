"""Asking: what counts as a yes, what `always` allows, and what is shown."""

from pathlib import Path
from typing import Any

import pytest

from interlingua.chat.approval import ApprovalAnswer, Permissions, answer_of, preview, shown, standing_rule
from interlingua.chat.plain import plain_text
from interlingua.tools.fs import local_bridge
from interlingua.tools.policy import ASK, ApprovalRequest, Decision


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("y", ApprovalAnswer("yes")),
        (" YES ", ApprovalAnswer("yes")),
        ("a", ApprovalAnswer("always")),
        ("n", ApprovalAnswer("no")),
        ("no, use make instead", ApprovalAnswer("no", "use make instead")),
        ("yes but not that file", None),
        ("always look on the bright side", None),
        ("please also run the tests", None),
        ("", None),
    ],
)
def test_only_a_clear_yes_is_a_yes(line: str, answer: ApprovalAnswer | None) -> None:
    """Words that were meant to steer never allow a call; a no may come with a reason."""
    assert answer == answer_of(line)


@pytest.mark.parametrize(
    ("command", "begins"),
    [
        ("git status", ("git status",)),
        ("git commit -m x", ("git commit",)),
        ("rm -rf build", ("rm -rf build",)),
        ("make && git push origin", ("make", "git push origin")),
        ("python3 a.py $(curl x)", ("curl x", "python3 a.py")),
        ("sudo rm x", None),
        ("echo $HOME", None),
    ],
)
def test_always_allows_commands_that_begin_the_same_and_no_others(command: str, begins: Any) -> None:
    """Where no rule could cover the command with certainty, it is not offered."""
    rule = standing_rule("exec", {"command": command})
    assert begins == (rule.command if rule is not None else None)


def test_what_is_always_allowed_is_not_asked_again() -> None:
    """And what begins otherwise still is."""
    permissions = Permissions(ASK)
    rule = standing_rule("exec", {"command": "git commit -m one"})
    assert rule is not None
    permissions.allow(rule)
    actions = [permissions.decide("exec", {"command": command}).action for command in ("git commit -m two", "git push")]
    assert ["allow", "ask"] == actions
    other = standing_rule("write", {"path": "a", "content": ""})
    assert other is not None
    permissions.allow(other)
    assert "allow" == permissions.decide("write", {"path": "b", "content": ""}).action


async def test_the_change_that_a_call_would_make_is_shown(tmp_path: Path) -> None:
    """Against the file as it is; a new file is all new."""
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    bridge = local_bridge(str(tmp_path))
    diff = await preview("write", {"path": "a.txt", "content": "one\n2\n"}, bridge)
    assert diff is not None
    assert ["-two", "+2"] == diff.splitlines()[-2:]
    diff = await preview("write", {"path": "b.txt", "content": "new"}, bridge)
    assert diff is not None
    assert "+new" == diff.splitlines()[-1]
    diff = await preview("edit", {"path": "a.txt", "oldText": "one", "newText": "1"}, bridge)
    assert "--- a.txt\n+++ a.txt\n@@\n-one\n+1" == diff
    assert (
        await preview("write", {"path": "../a.txt", "content": "x"}, bridge)
        == "--- a/../a.txt\n+++ b/../a.txt\n@@ -0,0 +1 @@\n+x"
    )
    assert await preview("exec", {"command": "ls"}, bridge) is None


def test_a_command_is_shown_in_full_with_what_changes_its_meaning() -> None:
    """No line and no variable of it is hidden."""
    params = {"command": "first\nsecond", "env": {"PATH": "/tmp"}}
    request = ApprovalRequest(tool_call_id="c", tool_name="exec", params=params, reason="because")
    text = plain_text([shown(request, None, Decision(action="ask", reason="because"))])
    assert ["● exec first second", "  first", "  second", '  {"env":{"PATH":"/tmp"}}'] == text.splitlines()
