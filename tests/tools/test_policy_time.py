"""Judging a call takes time in proportion to its length, whatever the model writes; the loop goes on meanwhile."""

import asyncio
import re
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlingua.tools.calling import call_tool
from interlingua.tools.core.apply_patch import parse_patch, patched
from interlingua.tools.policy import Policy, Rule
from interlingua.tools.policy_patterns import GlobSteps, glob_matcher
from interlingua.tools.shell_line import MAX_READ
from interlingua.tools.tool import Tool, ToolResult
from interlingua.values.errors import ToolInputError

POLICY = Policy(
    (
        Rule(action="deny", path=("secrets/**", "*.pem", "a/**/b/**/c*d*e", "**/x/**/y/**")),
        Rule(action="deny", command=("rm", "git push")),
        Rule(action="deny", host=(".internal", "10.0.0.1")),
        Rule(action="allow", command=("ls", "cd")),
    ),
    default="allow",
    root="/srv/project",
)


def lines_run(work: Callable[[], object]) -> int:
    """How many lines of Python `work` runs: a measure of time that does not depend on the machine."""
    count = 0

    def local(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return local

    before = sys.gettrace()
    sys.settrace(lambda *_: local)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


REPEATED = [
    *("cd a;", "cd a/b/c;", "$(", "$(ls ", "`ls`", "`", "env ", "sh ", "'a'", '"$(ls)"', '"$(', "${a", "${", "(", ")"),
    *("sudo sh -c 'x' ", "a=b:c,d@e=f:", "x ", ";", "ls | xargs -I{} sh -c 'x' ;", "x", "a/", "../", "> a ", "#\n"),
    *("\\", "<(", "a[$(ls)]=", "find . -exec ls {} ; ", "eval 'ls' ", "$((", "$'", "{a,", "nohup ", "cd a && cat b;"),
    *('"', "'", "&", "|", "timeout 5 env xargs ", "pushd a;", "cd -;", "git -C a ", "f() { ls; };", "<<E\n", "~/"),
    *("case a in a) ls;; esac;", "*?["),
]  # fmt: skip


@pytest.mark.parametrize("text", REPEATED)
def test_a_command_line_is_judged_in_linear_time(text: str) -> None:
    """Brackets in brackets, many moves, many wrappers: no text is read again and again."""
    for size in (2_000, 19_900):
        line = (text * size)[:size]
        assert lines_run(lambda line=line: POLICY.decide("exec", {"command": line})) < 200 * size + 30 * MAX_READ


@pytest.mark.parametrize("program", ["sed", "find", "git", "env", "cmake", "gcc"])
def test_many_arguments_of_a_program_are_judged_in_linear_time(program: str) -> None:
    """Programs whose options are looked at have as many arguments as fit."""
    for word in ("a.b ", "-", "a://b "):
        line = (f"{program} {word * 20_000}")[:19_900]
        assert lines_run(lambda line=line: POLICY.decide("exec", {"command": line})) < 100 * len(line) + 30 * MAX_READ


@pytest.mark.parametrize("params", [
    {"input": "*** Add File: x" + " " * 1_000_000 + "y"},
    {"input": "*** Add File: x\n" * 100_000},
    {"input": "*** Update File: " + "a/" * 500_000},
    {"patch": "*** Move to: \t\t" * 100_000},
    {"path": "a/b/" * 500_000},
    {"path": "a/b/c" * 900},
    {"paths": ["a/b/" * 500] * 3000},
    {"paths": [f"a/b/{at}" for at in range(50_000)]},
    {"url": "http://" + "a." * 300_000},
    {"command": ["a"] * 50_000},
    {"command": "x" * 2_000_000},
    {"command": "cat key", "paths": [f"a{at}" for at in range(3000)]},
    {"command": [["a", "b"]] * 2_000},
    {"command": {f"a{at}": {"b": ["c"]} for at in range(1_000)}},
    {**{f"a{at}_command": "b" for at in range(300)}, "args": ["c"] * 3_000},
    {"files": {f"a/b/{at}": "c" for at in range(5_000)}},
], ids=map(str, range(16)))  # fmt: skip
def test_long_arguments_are_judged_in_linear_time(params: dict[str, Any]) -> None:
    """Long patches, long paths and many of them; what is too long to be judged is not allowed by a rule."""
    size = sum(len(str(value)) for value in params.values())
    assert lines_run(lambda: POLICY.decide("any", params)) < 100 * size + 20_000


@pytest.mark.parametrize(
    "params", [{"path": "a/" * 3000}, {"paths": ["a"] + [f"b{at}" for at in range(3000)]}], ids=len
)
def test_what_is_too_long_to_be_judged_is_asked_about(params: dict[str, Any]) -> None:
    """An allow rule for paths does not apply, a rule that forbids might."""
    assert "ask" == POLICY.decide("read", params).action
    assert "ask" == Policy((Rule(action="allow", path="**"),)).decide("read", params).action


GLOBS = st.lists(st.sampled_from(["a", "b", "*", "**", "/", "**/", "?", "."]), min_size=1, max_size=8).map("".join)


@settings(max_examples=500)
@given(pattern=GLOBS, path=st.text("ab/.", max_size=12))
def test_the_automaton_and_the_expression_agree(pattern: str, path: str) -> None:
    """A glob with many stars is run step by step, one with few as an expression: both decide alike."""
    tokens = [
        token[:3] if token.endswith("**/") else token[:2] for token in re.findall(r"(?:\*\*/)+|\*\*+|\*|.", pattern)
    ]
    parts = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    expression = "".join(parts.get(token) or re.escape(token) for token in tokens)
    assert bool(re.match(rf"{expression}(?:/.*)?\Z", path, re.DOTALL)) is GlobSteps(tokens).match(path)


@pytest.mark.parametrize(
    "pattern", ["**/a" * 20 + "/b", "*a" * 30 + "b", "**a" * 20 + "b", "?*" * 30, "a**" * 30 + "/x", "**/" * 40]
)
def test_globs_of_many_stars_take_linear_time(pattern: str) -> None:
    """An expression for these would try every way to divide the path."""
    assert lines_run(lambda: glob_matcher(pattern)("a/" * 2000)) < 400_000
    assert lines_run(lambda: glob_matcher(pattern)("a" * 4000)) < 400_000


async def test_the_loop_goes_on_while_a_long_call_is_judged() -> None:
    """A policy of ours judges long arguments in a thread of its own."""
    threads: list[str] = []
    judged = POLICY.decide

    class Watched(Policy, frozen=True):
        def decide(self, tool_name: str, params: Any) -> Any:
            threads.append(threading.current_thread().name)
            return judged(tool_name, params)

    async def execute(tool_call_id: str, params: dict[str, Any]) -> ToolResult:
        return ToolResult()

    tool = Tool(name="any", description="", parameters={"type": "object"}, execute=execute)
    for text in ("short", "x" * 100_000):
        await call_tool(tool, "1", {"text": text}, policy=Watched())
    here = threading.current_thread().name
    assert [True, False] == [name == here for name in threads]
    await asyncio.sleep(0)


def hunks(body: str) -> Any:
    return parse_patch(f"*** Begin Patch\n*** Update File: x\n{body}\n*** End Patch")[0].hunks


def test_hunks_are_searched_in_linear_time() -> None:
    """A file and a hunk of one repeated line, and many hunks of a long file, are no square of their lengths."""
    many = "a\n" * 200_000
    body = "@@\n" + "-a\n" * 100_000 + "-b"
    with pytest.raises(ToolInputError):
        patched(many, hunks(body), "x")  # 20,000 million comparisons of lines, were each place tried
    numbered = "".join(f"line {at} \n" for at in range(5_000))
    body = "\n".join(f"@@\n-line {at}\n+new" for at in range(0, 5_000, 5))
    assert lines_run(lambda: patched(numbered, hunks(body), "x")) < 1_000_000


def test_too_many_hunks_are_refused() -> None:
    """There is a limit, and it is said."""
    with pytest.raises(ToolInputError, match="more than the limit of 2,000"):
        patched("a\n" * 5_000, hunks("@@\n-a\n+b\n" * 2_001), "x")
