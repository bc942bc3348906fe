"""The one way to call a tool."""

import asyncio
import json
import sys
import threading
from pathlib import Path
from typing import Any, Literal

import jsonschema_rs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlingua.tools import calling
from interlingua.tools.calling import ApprovalRequest, call_tool, validated
from interlingua.tools.decorator import tool as made
from interlingua.tools.tool import Execute, Tool, ToolContext, ToolResult, text_result
from interlingua.values.abort import Abort
from interlingua.values.errors import FormatError, ToolAuthorizationError, ToolInputError
from interlingua.values.messages import TextBlock

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "offset": {"type": "integer", "minimum": 1},
        "ratio": {"type": "number"},
        "deep": {"type": "boolean"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "edits": {"type": "array", "items": {"$ref": "#/$defs/Edit"}},
        "mode": {"enum": ["fast", "slow", 3]},
        "size": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "either": {"anyOf": [{"$ref": "#/$defs/Edit"}, {"type": "array", "items": {"type": "integer"}}]},
    },
    "additionalProperties": False,
    "$defs": {
        "Edit": {
            "type": "object",
            "properties": {"oldText": {"type": "string"}, "at": {"type": "integer"}},
            "required": ["oldText"],
            "additionalProperties": False,
        }
    },
}


def tool(execute: Any = None, parameters: Any = None, **fields: Any) -> Tool:
    async def echo(tool_call_id: str, params: dict[str, Any], *_: Any) -> ToolResult:
        return text_result("ran", params)

    run: Execute = execute or echo
    return Tool(
        name="t", description="d", parameters=SCHEMA if parameters is None else parameters, execute=run, **fields
    )


# --- validation ------------------------------------------------------------------------------------------------------

MENDED: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"offset": "5"}, {"offset": 5}),
    ({"offset": " 5.0 "}, {"offset": 5}),
    ({"offset": "12345678901234567890"}, {"offset": 12345678901234567890}),
    ({"ratio": "2.5"}, {"ratio": 2.5}),
    ({"ratio": "-1e3"}, {"ratio": -1000.0}),
    ({"ratio": "7"}, {"ratio": 7}),
    ({"deep": "true"}, {"deep": True}),
    ({"deep": "False"}, {"deep": False}),
    ({"path": 42}, {"path": "42"}),
    ({"path": 4.0}, {"path": "4"}),
    ({"path": True}, {"path": "true"}),
    ({"tags": "a"}, {"tags": ["a"]}),
    ({"tags": '["a", "b"]'}, {"tags": ["a", "b"]}),
    ({"tags": 5}, {"tags": ["5"]}),
    ({"tags": [1, "b"]}, {"tags": ["1", "b"]}),
    ({"edits": '[{"oldText": "x", "at": "3"}]'}, {"edits": [{"oldText": "x", "at": 3}]}),
    ({"edits": {"oldText": "x"}}, {"edits": [{"oldText": "x"}]}),
    ({"edits": ['{"oldText": "x"}']}, {"edits": [{"oldText": "x"}]}),
    ({"edits": [{"old_text": "x"}]}, {"edits": [{"oldText": "x"}]}),
    ({"mode": "3"}, {"mode": 3}),
    ({"size": "5"}, {"size": 5}),
    ({"size": "null"}, {"size": None}),
    ({"either": "[1, 2]"}, {"either": [1, 2]}),
    ({"either": '{"oldText": 1}'}, {"either": {"oldText": "1"}}),
    ({"either": {"oldText": "x", "at": "3"}}, {"either": {"oldText": "x", "at": 3}}),
    ({"either": ["1"]}, {"either": [1]}),
    ({"path": None, "offset": None, "mode": None, "either": None, "size": None}, {"size": None}),
    ({"Path": "x"}, {"path": "x"}),
]


@pytest.mark.parametrize(("arguments", "expected"), MENDED)
def test_what_is_harmless_is_repaired(arguments: dict[str, Any], expected: dict[str, Any]) -> None:
    """Numbers and truth values as text, text as numbers, JSON as text, single values, nulls, other spellings."""
    before = json.dumps(arguments)
    repaired, problems = validated(SCHEMA, arguments)
    assert (expected, []) == (repaired, problems)
    assert [type(value) for value in expected.values()] == [type(value) for value in repaired.values()]
    assert before == json.dumps(arguments)


WRONG: list[tuple[dict[str, Any], list[str]]] = [
    ({"offset": "five"}, ['offset: expected integer, got "five"']),
    ({"offset": 1.5}, ["offset: expected integer, got 1.5"]),
    ({"offset": True}, ["offset: expected integer, got true"]),
    ({"offset": "0"}, ["offset: is less than the minimum of 1, got 0"]),
    ({"ratio": "1e999"}, ['ratio: expected number, got "1e999"']),
    ({"deep": 1}, ["deep: expected boolean, got 1"]),
    ({"path": {"a": 1}}, ['path: expected string, got {"a":1}']),
    ({"tags": '["a"'}, ['tags: expected array, got "[\\"a\\""']),
    ({"tags": [None]}, ["tags[0]: expected string, got null"]),
    ({"mode": "fest"}, ['mode: must be one of "fast", "slow", 3, got "fest"; did you mean "fast"?']),
    ({"ofset": 1}, ['ofset: unknown argument; did you mean "offset"?']),
    ({"zzz": 1}, ["zzz: unknown argument; allowed: path, offset, ratio, deep, tags, edits, mode, size, either"]),
    ({"edits": [{"at": 1}]}, ["edits[0].oldText: is required"]),
    (
        {"edits": [{"oldTex": "x"}]},
        [
            'edits[0].oldTex: unknown argument; did you mean "oldText"?',
            'edits[0].oldText: is required; given as "oldTex"?',
        ],
    ),
    ({"size": "big"}, ['size: expected integer or null, got "big"']),
    ({"either": {"oldText": "x", "at": "y"}}, ['either.at: expected integer, got "y"']),
    ({"path": "x" * 3, "offset": "y" * 300}, [f'offset: expected integer, got "{"y" * 99}… (302 characters)']),
]


@pytest.mark.parametrize(("arguments", "expected"), WRONG)
def test_what_is_wrong_is_reported_with_its_place(arguments: dict[str, Any], expected: list[str]) -> None:
    """The place, what was expected, what came, and what was perhaps meant; the arguments come back as they were."""
    same, problems = validated(SCHEMA, arguments)
    assert same is arguments
    assert sorted(expected) == sorted(problems)


def test_a_null_that_is_needed_is_reported() -> None:
    """It is not enough to leave it out."""
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    assert ["a: is required"] == validated(schema, {"a": None})[1]


def test_nulls_in_a_map_are_not_left_out() -> None:
    """Its keys are data, not optional arguments."""
    schema = {"type": "object", "properties": {"env": {"additionalProperties": {"type": "string"}}}}
    assert ["env.A: expected string, got null"] == validated(schema, {"env": {"A": None}})[1]


def test_a_union_at_the_root_is_repaired_too() -> None:
    """The branch that fits when mended is taken."""
    schema = {
        "type": "object",
        "anyOf": [{"required": ["a"]}, {"required": ["b"], "properties": {"b": {"type": "integer"}}}],
    }
    assert ({"b": 1}, []) == validated(schema, {"b": "1"})


def test_whole_floats_become_integers_where_these_are_wanted() -> None:
    """JSON Schema takes 5.0 for an integer; code that slices with it does not."""
    schema = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"anyOf": [{"type": "integer"}, {"type": "null"}]}, "c": {"type": ["integer", "number"]}}}  # fmt: skip  # noqa: E501
    repaired, _ = validated(schema, {"a": 5.0, "b": 6.0, "c": 7.0})
    assert [int, int, float] == [type(value) for value in repaired.values()]


def test_many_problems_are_cut() -> None:
    """A model needs the first ones, not ten thousand."""
    problems = validated(SCHEMA, {"tags": [None] * 500})[1]
    assert (21, "(and 480 more problems)") == (len(problems), problems[-1])


@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(a|a)*$", "^(?=a)(a+)+$", r"^(a+)+\1$"])
def test_catastrophic_patterns_end(pattern: str) -> None:
    """Linear where possible, bounded where the pattern needs more; never for ever."""
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": pattern}}}
    problems = validated(schema, {"a": "a" * 50_000 + "!"})[1]
    assert (1, True) == (len(problems), problems[0].startswith("a: "))


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "strin"},
        {"$ref": "#/nowhere"},
        {"$ref": "http://127.0.0.1:9/schema.json"},
        {"$ref": "file:///etc/passwd"},
        {"pattern": "("},
    ],
)
async def test_a_broken_schema_is_reported_and_nothing_is_fetched(schema: dict[str, Any]) -> None:
    """The call is answered, not run; the answer says whose fault it is."""
    with pytest.raises(FormatError):
        validated(schema, {})
    result = await call_tool(tool(parameters=schema), "c1", {})
    assert result.is_error and "its own schema is wrong" in result.text


TYPES = ["string", "integer", "number", "boolean", "null", "object", "array"]
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
    | st.sampled_from(["1", "2.5", "true", "null", "[1]", '{"a": 1}', '["x"]', "{"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)


def objects(parts: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Schemas of objects, open and closed, with some of their properties required."""
    return st.builds(
        lambda properties, required, closed: {
            "type": "object",
            "properties": properties,
            "required": [name for name in properties if name in required],
            **({"additionalProperties": False} if closed else {}),
        },
        st.dictionaries(st.sampled_from("abc"), parts, max_size=3),
        st.sets(st.sampled_from("abc")),
        st.booleans(),
    )


PARTS = st.recursive(
    st.sampled_from([{"type": name} for name in TYPES])
    | st.lists(st.sampled_from(TYPES), min_size=1, max_size=3, unique=True).map(lambda names: {"type": names})
    | st.lists(st.sampled_from([1, "1", "a", True, None]), min_size=1, max_size=3).map(lambda names: {"enum": names}),
    lambda inner: (
        inner.map(lambda part: {"type": "array", "items": part})
        | st.lists(inner, min_size=1, max_size=3).map(lambda parts: {"anyOf": parts})
        | st.lists(inner, min_size=1, max_size=2).map(lambda parts: {"oneOf": parts})
        | objects(inner)
    ),
    max_leaves=5,
)


@given(schema=objects(PARTS), arguments=st.dictionaries(st.sampled_from("abcA"), VALUES, max_size=4))
def test_validated_arguments_are_valid_or_have_problems(schema: dict[str, Any], arguments: dict[str, Any]) -> None:
    """What comes without a problem satisfies the schema; what was valid is unchanged; nothing given is changed."""
    before = json.dumps(arguments)
    out, problems = validated(schema, arguments)
    if problems:
        assert out is arguments
    else:
        assert jsonschema_rs.is_valid(schema, out)
    if jsonschema_rs.is_valid(schema, arguments):
        assert (arguments, []) == (out, problems)
    assert before == json.dumps(arguments)


# --- before the call -------------------------------------------------------------------------------------------------


async def test_a_call_runs_with_repaired_arguments_of_its_own() -> None:
    """The tool may change them: the caller's stay as they were."""

    async def spoil(tool_call_id: str, params: dict[str, Any], *_: Any) -> ToolResult:
        params["tags"].append("more")
        return text_result(tool_call_id, params)

    arguments = {"tags": ["a"]}
    result = await call_tool(tool(spoil), "c7", arguments)
    assert ({"tags": ["a"]}, {"tags": ["a", "more"]}, "c7") == (arguments, result.details, result.text)


@pytest.mark.parametrize("arguments", [None, "", "  ", {}, "{}", b""])
async def test_case_35_blank_arguments_are_no_arguments(arguments: Any) -> None:
    """A tool without parameters is called with none at all."""
    result = await call_tool(tool(parameters={"type": "object", "properties": {}}), "c1", arguments)
    assert ({}, False) == (result.details, result.is_error)


async def test_case_36_large_integers_reach_the_tool_with_every_digit() -> None:
    """No number passes through a float."""
    result = await call_tool(tool(), "c1", '{"offset": 9007199254740993}')
    assert {"offset": 9007199254740993} == result.details


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("[1]", "an array"),
        ('{"path": "x', "not JSON"),
        (5, "a number"),
        ({"path": float("nan")}, "nan is not a JSON number"),
        ({"path": object()}, "cannot be written as JSON"),
        ('{"offset": ' + "9" * 5000 + "}", "out of range"),
        ("[" * 5000, "JSON object"),
    ],
)
async def test_what_is_no_object_is_answered(arguments: Any, expected: str) -> None:
    """With what is wrong and what is allowed."""
    result = await call_tool(tool(), "c1", arguments)
    assert (True, 400) == (result.is_error, result.details["status"])
    assert expected in result.text and "Allowed: path (string), offset (integer)" in result.text


async def test_a_call_that_could_not_be_parsed_is_not_run() -> None:
    """Its text and the reason go back to the model."""
    result = await call_tool(tool(), "c1", '{"path": ', parse_error="it ends too early")
    assert result.is_error and "it ends too early" in result.text and "path" in result.text


async def test_bad_arguments_are_answered_with_how_to_do_better() -> None:
    """One line per problem, what was received, what is allowed."""
    parameters = {"type": "object", "properties": {"path": {"type": "string"}, "n": {"type": "integer"}}, "required": ["path"], "additionalProperties": False}  # fmt: skip  # noqa: E501
    result = await call_tool(tool(parameters=parameters), "c1", {"n": "x", "paht": "y"})
    assert [
        "The arguments for t are wrong:",
        '- n: expected integer, got "x"',
        '- paht: unknown argument; did you mean "path"?',
        '- path: is required; given as "paht"?',
        'Received: {"n":"x","paht":"y"}',
        "Allowed: path (string, required), n (integer)",
        "Correct the arguments and call t again.",
    ] == result.text.splitlines()
    assert (True, 400) == (result.is_error, result.details["status"])


@pytest.mark.parametrize(
    ("context", "error"), [(None, False), (ToolContext(), False), (ToolContext(sender_is_owner=False), True)]
)
async def test_a_tool_for_the_owner_is_for_the_owner(context: ToolContext | None, error: bool) -> None:
    """Another sender gets a refusal, with status 403, before anything else is looked at."""
    result = await call_tool(tool(owner_only=True), "c1", {"zzz": 1} if error else {}, context=context)
    assert error is result.is_error
    assert not error or (403, True) == (result.details["status"], "owner" in result.text)


class Decision(msgspec.Struct, frozen=True):
    action: Literal["allow", "ask", "deny"]
    reason: str = "it writes"


class Policy:
    """Decides always the same, and remembers what it was asked."""

    def __init__(self, action: Any) -> None:
        self.action = action
        self.asked: list[Any] = []

    def decide(self, tool_name: str, params: dict[str, Any]) -> Decision:
        self.asked.append((tool_name, params))
        if self.action == "fail":
            raise RuntimeError("broken policy")
        return Decision(self.action)


async def later(answer: bool) -> bool:
    await asyncio.sleep(0)
    return answer


def failing(request: ApprovalRequest) -> bool:
    raise OSError("no terminal")


@pytest.mark.parametrize(
    ("action", "approve", "expected"),
    [
        ("allow", None, "ran"),
        ("deny", lambda request: True, "not allowed: it writes"),
        ("ask", lambda request: True, "ran"),
        ("ask", lambda request: later(True), "ran"),
        ("ask", lambda request: False, "not approved"),
        ("ask", lambda request: later(False), "not approved"),
        ("ask", lambda request: None, "not approved"),
        ("ask", lambda request: "yes", "not approved"),
        ("ask", None, "no approver is available"),
        ("ask", failing, "no terminal"),
        ("fail", None, "broken policy"),
        ("whatever", None, "not allowed"),
    ],
)
async def test_the_policy_decides(action: str, approve: Any, expected: str) -> None:
    """Allowed, asked or denied; whatever fails or is unclear is a no."""
    result = await call_tool(tool(), "c1", {}, policy=Policy(action), approve=approve)
    assert expected in result.text
    assert (expected != "ran") is result.is_error
    assert not result.is_error or 403 == result.details["status"]


async def test_the_policy_sees_valid_arguments_and_the_person_the_reason() -> None:
    """What is decided upon is what will run; a call that is wrong is not asked about."""
    policy, requests = Policy("ask"), []

    def approve(request: ApprovalRequest) -> bool:
        requests.append(request)
        return True

    await call_tool(tool(), "c1", {"offset": "5"}, policy=policy, approve=approve)
    await call_tool(tool(), "c2", {"offset": "x"}, policy=policy, approve=approve)
    assert [("t", {"offset": 5})] == policy.asked
    assert [ApprovalRequest(tool_call_id="c1", tool_name="t", params={"offset": 5}, reason="it writes")] == requests


# --- the call --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "text", "status"),
    [
        (ToolInputError("no such file: a"), "no such file: a", 400),
        (ToolAuthorizationError("not yours"), "not yours", 403),
        (RuntimeError("boom"), "t failed: RuntimeError: boom", 500),
        (KeyError(), "t failed: KeyError", 500),
        (SystemExit(3), "t failed: SystemExit: 3", 500),
        (asyncio.CancelledError(), "t failed: it cancelled itself", 500),
    ],
)
async def test_a_tool_that_fails_gives_an_error_result(error: BaseException, text: str, status: int) -> None:
    """Whatever it raises, the caller goes on."""

    async def fail(*_: Any) -> ToolResult:
        raise error

    def fail_at_once(*_: Any) -> Any:
        raise error

    for execute in (fail, fail_at_once):
        result = await call_tool(tool(execute), "c1", {})
        assert (text, True) == (result.text, result.is_error)
        assert {"status": status, "tool": "t", "error": text} == result.details


async def test_a_function_in_a_thread_that_exits_gives_an_error_result() -> None:
    """`sys.exit` in a tool ends the tool."""

    @made
    def leave() -> None:
        sys.exit("bye")

    assert "leave failed: SystemExit: bye" == (await call_tool(leave, "c1", {})).text


@pytest.mark.parametrize("returned", ["hi", {"content": [{"type": "text", "text": "hi"}]}, [TextBlock(text="hi")]])
async def test_what_foreign_tools_return_is_understood(returned: Any) -> None:
    """Synchronous ones, and the JSON form of a result."""
    assert text_result("hi") == await call_tool(tool(lambda *_: returned), "c1", {})


async def test_updates_are_delivered_until_the_call_ends() -> None:
    """From the loop and from threads, in the loop's thread, in order; late ones are dropped."""
    kept: list[Any] = []

    async def work(tool_call_id: str, params: Any, signal: Any, on_update: Any) -> ToolResult:
        kept.append(on_update)
        on_update(text_result("1"))
        await asyncio.to_thread(on_update, text_result("2"))
        on_update("3")
        return text_result("end")

    received: list[Any] = []
    here = threading.current_thread()
    result = await call_tool(
        tool(work),
        "c1",
        {},
        on_update=lambda partial: received.append((partial.text, threading.current_thread() is here)),
    )
    kept[0](text_result("late"))
    await asyncio.to_thread(kept[0], text_result("later"))
    await asyncio.sleep(0)
    assert ("end", [("1", True), ("2", True), ("3", True)]) == (result.text, received)


async def test_a_listener_that_fails_does_not_stop_the_tool(caplog: pytest.LogCaptureFixture) -> None:
    """It is logged, and the tool goes on."""

    async def work(tool_call_id: str, params: Any, signal: Any, on_update: Any) -> ToolResult:
        on_update(text_result("1"))
        return text_result("end")

    def hear(partial: ToolResult) -> None:
        raise RuntimeError("deaf")

    assert "end" == (await call_tool(tool(work), "c1", {}, on_update=hear)).text
    assert "an update callback failed" in caplog.text


async def test_an_aborted_signal_keeps_a_tool_from_running() -> None:
    """The answer says so, with the reason."""
    signal, ran = Abort(), []
    signal.abort("enough")
    result = await call_tool(tool(lambda *_: ran.append(1)), "c1", {}, signal=signal)
    assert (True, [], "t was not run: aborted (enough)") == (result.is_error, ran, result.text)


async def test_a_tool_hears_the_signal_and_may_answer() -> None:
    """What it says then is its result."""

    async def work(tool_call_id: str, params: Any, signal: Abort, on_update: Any) -> ToolResult:
        return text_result(f"stopped: {await signal.wait()}")

    signal = Abort()
    running = asyncio.ensure_future(call_tool(tool(work), "c1", {}, signal=signal))
    await asyncio.sleep(0.01)
    signal.abort("enough")
    assert text_result("stopped: enough") == await running


async def test_a_tool_that_ignores_the_signal_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a moment of grace; one that ignores even that is left behind."""
    monkeypatch.setattr(calling, "GRACE", 0.05)
    ended: list[str] = []
    release = asyncio.Event()

    async def deaf(*_: Any) -> ToolResult:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")
        raise AssertionError

    async def stubborn(*_: Any) -> ToolResult:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                ended.append("refused")
        return text_result("late")

    for execute in (deaf, stubborn):
        signal = Abort()
        running = asyncio.ensure_future(call_tool(tool(execute), "c1", {}, signal=signal))
        await asyncio.sleep(0.01)
        signal.abort()
        result = await running
        assert (True, "t was stopped: aborted", "aborted") == (result.is_error, result.text, result.details["status"])
    release.set()
    await asyncio.sleep(0.01)
    assert ["cancelled", "refused"] == ended


async def test_the_signal_ends_the_wait_for_a_person(monkeypatch: pytest.MonkeyPatch) -> None:
    """A question that nobody answers does not hold the call, and the tool does not run."""
    monkeypatch.setattr(calling, "GRACE", 0.05)
    signal, ran = Abort(), []

    async def approve(request: ApprovalRequest) -> bool:
        await asyncio.Event().wait()
        return True

    running = asyncio.ensure_future(
        call_tool(tool(lambda *_: ran.append(1)), "c1", {}, signal=signal, policy=Policy("ask"), approve=approve)
    )
    await asyncio.sleep(0.01)
    signal.abort("gone")
    assert ("t was stopped: aborted (gone)", []) == ((await running).text, ran)


async def test_cancelling_the_caller_cancels_the_tool_and_fires_its_signal() -> None:
    """The one thing that is raised: the cancellation itself."""
    seen: list[Any] = []

    async def work(tool_call_id: str, params: Any, signal: Abort, on_update: Any) -> ToolResult:
        try:
            await asyncio.Event().wait()
        finally:
            seen.append(signal.aborted)
        raise AssertionError

    running = asyncio.ensure_future(call_tool(tool(work), "c1", {}))
    await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert [True] == seen


async def test_calls_leave_nothing_behind_in_a_signal_that_lives_on() -> None:
    """A signal for a whole run is handed to thousands of calls."""
    signal = Abort()
    for _ in range(5):
        await call_tool(tool(), "c1", {}, signal=signal)
    assert not signal._callbacks


async def test_arguments_under_the_names_of_other_programs_are_taken(tmp_path: Path) -> None:
    """Models that learned `file_path` and `old_string` elsewhere are understood."""
    from interlingua.tools.core.edit import edit_tool

    (tmp_path / "a.txt").write_text("one two")
    edit = edit_tool(ToolContext(root=str(tmp_path)))
    result = await call_tool(edit, "c1", {"file_path": "a.txt", "old_string": "two", "new_string": "three"})
    assert not result.is_error, result.text
    assert "one three" == (tmp_path / "a.txt").read_text()
