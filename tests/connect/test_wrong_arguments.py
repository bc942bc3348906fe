"""A wrong model, option or value is refused at the call, in one line that says what, where and what to give instead."""

from collections.abc import Callable
from typing import Any

import pytest

import interlingua as il
from interlingua.testing import Server

SECRET = "not-to-be-shown"
OPTIONS: list[tuple[str, Any, str]] = [
    ("temperature", "5", "temperature must be a number, not '5'"),
    ("max_tokens", True, "max_tokens must be an integer, not True"),
    ("max_tokens", 1.5, "max_tokens must be an integer, not 1.5"),
    ("max_tokens", -1, "max_tokens must be at least 0, not -1"),
    ("timeout", 0, "timeout must be a number of seconds above 0, not 0"),
    ("timeout", -1.5, "timeout must be a number of seconds above 0, not -1.5"),
    ("on_payload", 5, "on_payload must be a function, not int"),
    ("on_response", "x", "on_response must be a function, not str"),
    ("on_retry", 5, "on_retry must be a function, not int"),
    ("get_api_key", SECRET, "get_api_key must be a function, not str"),
    ("stop", 5, "stop must be a string or a list of strings, not int"),
    ("stop", ["a", 5], "stop must be a string or a list of strings, not of int"),
    ("reasoning", 1.5, "reasoning must be a level such as 'high'"),
    ("reasoning", "bogus", "unknown reasoning 'bogus'; valid: 'off', 'none', 'minimal', 'low', 'medium', 'high'"),
    ("reasoning", "", "unknown reasoning ''; valid: 'off'"),
    ("reasoning", "-5", "unknown reasoning '-5'; valid: 'off'"),
    ("tool_choice", 5, "tool_choice must be 'auto', 'none', 'required' or the name of a tool"),
    ("parallel_tools", "yes", "parallel_tools must be True or False"),
    ("output_schema", "{}", "output_schema must be a JSON Schema"),
    ("cache_retention", "forever", "cache_retention must be 'none', 'short' or 'long', not 'forever'"),
    ("thinking", "txt", "thinking must be 'drop' or 'text', not 'txt'"),
    ("session_id", 5, "session_id must be a string"),
    ("metadata", 5, "metadata must be a dictionary"),
    ("extra", 5, "extra must be a dictionary"),
    ("stream", "yes", "stream must be True or False"),
    ("headers", SECRET, "headers must be a dictionary, not str"),
    ("headers", {"x-a": None}, "the header x-a must be a string, not NoneType"),
    ("headers", {5: SECRET}, "invalid header name 5"),
    ("headers", {"": SECRET}, "invalid header name ''"),
    ("headers", {"é": SECRET}, "invalid header name 'é'"),
    ("headers", {f"X-Key: {SECRET}": "1"}, "invalid header name 'X-Key…'"),
    ("headers", {"x-a": f"{SECRET}\r\nx-b: c"}, "the header x-a has a character that HTTP forbids"),
    ("headers", {"x-a": f"{SECRET}\ud800"}, "the header x-a has a character that HTTP forbids"),
    ("headers", {"content-length": "0"}, "the client writes content-length itself"),
    ("headers", {"Transfer-Encoding": "chunked"}, "the client writes Transfer-Encoding itself"),
    ("api_key", [SECRET], "api_key must be a string, not list"),
    ("base_url", 5, "base_url must be a string"),
    ("settings", SECRET, "settings must be a dictionary"),
    ("env", [SECRET], "env must be a dictionary"),
    ("signal", 5, "signal must be an Abort, not int"),
    ("retry", "2", "retry must be a Retry or a number of further attempts, not '2'"),
    ("retry", -1, "retry must be a Retry or a number of further attempts, not -1"),
]


@pytest.mark.parametrize(("name", "value", "message"), OPTIONS)
def test_an_option_of_another_kind_is_refused_at_the_call(name: str, value: Any, message: str) -> None:
    """With its place; what may be secret is not shown."""
    options: Any = {name: value}
    with pytest.raises(il.FormatError) as caught:
        il.sync.complete("debug/parrot-1", "x", **options)
    assert str(caught.value).startswith(message)
    assert f"options.{name}" == caught.value.path
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("model", [None, 5, [il.UserMessage("the arguments are exchanged")], b"openai/gpt-5"])
def test_what_is_no_model_is_refused_at_the_call(model: Any) -> None:
    """By everything that takes one."""
    for use in (
        lambda: il.sync.complete(model, "x"),
        lambda: il.sync.stream(model, "x"),
        lambda: il.sync.embed(model, "x"),
        lambda: il.Agent(model),
    ):
        with pytest.raises(il.FormatError, match="a model is a name such as 'openai/gpt-5', or a ModelDescriptor, not"):
            use()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda given: il.Agent("debug/parrot-1", limits=given), r"limits must be Limits\(…\), not int"),
        (lambda given: il.Agent("debug/parrot-1", session=given), "a session must be a Session.*, not int"),
        (lambda given: il.Context(given), "messages of a context must be a list, not int"),
        (lambda given: il.Context([], tools=given), "tools of a context must be a list, not int"),
    ],
)
def test_a_part_of_another_kind_is_refused_where_it_is_given(make: Any, message: str) -> None:
    """Not in the first run."""
    with pytest.raises(il.FormatError, match=message):
        make(5)


_MODEL = "debug/parrot-1"
_WRONG: list[tuple[str, Callable[[Any], Any], str]] = [
    ("images", lambda given: il.sync.complete(_MODEL, "x", images=given), "images must be a list of paths"),
    ("fallbacks", lambda given: il.sync.complete(_MODEL, "x", fallbacks=given), "fallbacks must be a list of models"),
    ("tools", lambda given: il.Agent(_MODEL, given), "tools must be a list of functions, tools or names"),
    (
        "tools[0]",
        lambda given: il.Agent(_MODEL, [given]),
        "a tool must be a function, a Tool or a core tool's name",
    ),
    ("messages", lambda given: il.Agent(_MODEL, messages=given), "messages must be a list of messages, not int"),
    ("system", lambda given: il.Agent(_MODEL, system=given), "expected str or tuple or list, got int"),
    ("before_tool_call", lambda given: il.Agent(_MODEL, before_tool_call=given), "before_tool_call must be a list of"),
    ("approve", lambda given: il.Agent(_MODEL, approve=given), "approve must be a list of functions, not int"),
    ("tool_execution", lambda given: il.Agent(_MODEL, tool_execution=given), "tool_execution must be 'parallel' or"),
    ("steering_mode", lambda given: il.Agent(_MODEL, steering_mode=given), "steering_mode must be 'one-at-a-time' or"),
    ("limits.turns", lambda given: il.Limits(turns=str(given)), "turns must be an integer or None, not '5'"),
    ("limits.cost", lambda given: il.Limits(cost=[given]), "cost must be a number or None, not [5]"),
    ("tool", lambda given: il.tool(given), "a tool must be made from a function, not int"),
    ("dimensions", lambda given: il.sync.embed("debug/embed-1", "x", dimensions=str(given)), "dimensions must be an"),
    ("dialect", il.dialect, "a dialect must be a name, such as 'ollama-chat', not int"),
    (
        "dialect",
        lambda given: il.encode("x", [given]),
        "a dialect must be a name, such as 'ollama-chat', not list",
    ),
    ("events", il.fold, "events must be a list of stream events, not int"),
    ("events", lambda given: il.fold([given]), "a stream event is expected, not int"),
    ("$", il.load, "JSON must be a string or bytes, not int"),
    ("source", lambda given: list(il.read(given)), "a source must be a path, bytes or an open file, not int"),
    ("search_paths", il.load_plugins, "search_paths must be a list of folders, not int"),
    ("search_paths[0]", lambda given: il.load_plugins([given]), "a search path must be a folder, not int"),
]


@pytest.mark.parametrize(("path", "call", "message"), _WRONG, ids=[f"{path}: {text}" for path, _, text in _WRONG])
def test_an_argument_of_another_type_is_refused_with_its_place(
    path: str, call: Callable[[Any], Any], message: str
) -> None:
    """Not by a TypeError from somewhere inside."""
    with pytest.raises(il.FormatError) as caught:
        call(5)
    assert str(caught.value).startswith(message)
    assert path == caught.value.path
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["nope/x", "debug/parot-1", "gpt-5-minni"])
def test_a_fallback_that_nobody_serves_is_refused_before_anything_is_sent(name: str) -> None:
    """Not on the day on which it is needed."""
    with Server() as server:
        server.say("hi")
        model = il.ModelDescriptor(id="m", api="openai-completions", base_url=server.base_url("openai-completions"))
        with pytest.raises(il.FormatError, match="did you mean") as caught:
            il.sync.complete(model, "x", fallbacks=["debug/parrot-1", name], api_key="k")
        assert "fallbacks[1]" == caught.value.path
        assert 0 == len(server.requests)


def test_the_name_of_a_target_may_follow_messages_in_check() -> None:
    """As in `encode` and `adapt`; a misspelled one is refused."""
    call = il.ToolCall(id="call 1", name="read", arguments={})
    messages = [il.UserMessage("Read it."), il.AssistantMessage(content=(call,))]
    assert il.check(messages, "bedrock-converse-stream") == il.check(messages, target="bedrock-converse-stream")
    assert any(".id" in finding.path for finding in il.check(messages, "bedrock-converse-stream"))
    with pytest.raises(il.InterlinguaError, match="unknown target 'bedrok-converse-stream'; did you mean"):
        il.check(messages, "bedrok-converse-stream")


def test_a_header_replaces_another_of_its_name_in_any_case() -> None:
    """Also those that the client writes itself: no header is sent twice."""
    given = {"user-agent": "mine", "HOST": "elsewhere.example", "content-type": "application/json; charset=utf-8"}
    with Server() as server:
        model = il.ModelDescriptor(
            id="m", api="anthropic-messages", base_url=server.base_url("anthropic-messages"), headers={"X-A": "1"}
        )
        il.sync.complete(model, "Hi", api_key="k", retry=0, headers={**given, "x-a": "2"})
        sent = server.requests[-1].headers
    for name, value in {**given, "x-a": "2"}.items():
        assert sent.getall(name) == [value]


def test_a_key_that_is_no_string_is_refused() -> None:
    """What the function returned is not shown."""
    with Server() as server:
        model = il.ModelDescriptor(id="m", api="anthropic-messages", base_url=server.base_url("anthropic-messages"))
        wrong: Any = lambda provider: [SECRET]  # noqa: E731
        with pytest.raises(il.FormatError, match="get_api_key must return a string or None, not list"):
            il.sync.complete(model, "Hi", get_api_key=wrong)


def test_an_address_with_half_a_surrogate_pair_is_refused() -> None:
    with pytest.raises(il.InterlinguaError, match="invalid base URL"):
        il.sync.complete("anthropic/m", "Hi", api_key="k", base_url="http://x\ud800")
