"""A wrong model, option or value is refused at the call, in one line that says what, where and what to give instead."""

from typing import Any

import pytest

import interlingua as il

SECRET = "not-to-be-shown"
OPTIONS: list[tuple[str, Any, str]] = [
    ("temperature", "5", "temperature must be a number, not '5'"),
    ("max_tokens", True, "max_tokens must be a number, not True"),
    ("stop", 5, "stop must be a string or a list of strings, not int"),
    ("reasoning", 1.5, "reasoning must be a level such as 'high'"),
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
        (lambda given: il.Agent("debug/parrot-1", limits=given), r"limits are Limits\(…\), not int"),
        (lambda given: il.Agent("debug/parrot-1", session=given), "a session is a Session.*, not int"),
        (lambda given: il.Context(given), "messages of a context are a list, not int"),
        (lambda given: il.Context([], tools=given), "tools of a context are a list, not int"),
    ],
)
def test_a_part_of_another_kind_is_refused_where_it_is_given(make: Any, message: str) -> None:
    """Not in the first run."""
    with pytest.raises(il.FormatError, match=message):
        make(5)
