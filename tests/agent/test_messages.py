"""What a model reads: an application's own messages, transforms, keys, other models; and answers that must be JSON."""

from collections.abc import Iterator
from typing import Any

import pytest

import interlingua as il
from agent.grammar import check_events, check_pairing
from agent.making import Asked, agent_of, call, calling, client_of, events_of, noted, text_result, texts, tool_of
from interlingua.agent import Agent, history
from interlingua.agent.history import for_models, register_message
from interlingua.connect.client import Client
from interlingua.connect.debug import DebugConnector, Step
from interlingua.connect.registry import ConnectorRegistry
from interlingua.connect.results import OutputType
from interlingua.sessions import Session
from interlingua.tools.tool import ToolResult
from interlingua.values.errors import OutputInvalid
from interlingua.values.request import OutputSchema

SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
}


@pytest.fixture(autouse=True)
def own_roles() -> Iterator[None]:
    """Roles that a test registers are gone after it."""
    before = dict(history._ROLES)
    yield
    history._ROLES.clear()
    history._ROLES.update(before)


def asked(script: Asked, **how: Any) -> Agent:
    return Agent("debug/script", client=client_of(script), **how)


# --- messages of an application's own ---------------------------------------------------------------------------------


async def test_messages_of_unknown_roles_are_kept_and_not_sent() -> None:
    """They are told and stored like any other; the model does not hear of them."""
    script = Asked("done")
    agent = asked(script)
    note = il.CustomMessage("status", {"mood": "fine"})
    check_events(await events_of(agent, [il.UserMessage(content="hi"), note]))
    assert ["hi", "status", "done"] == texts(agent.messages)
    assert ["hi"] == texts(script.last.context.messages)


async def test_a_registered_role_is_read_as_it_says() -> None:
    """As text, as a message, or not at all."""
    register_message("weather", lambda message: f"It is {message.fields['degrees']} degrees.")
    register_message("voice", lambda message: il.UserMessage(content=message.fields["heard"]))
    register_message("private", lambda message: None)
    script = Asked("done")
    agent = asked(script)
    await agent.prompt(
        [
            il.CustomMessage("weather", {"degrees": 7, "timestamp": 5}),
            il.CustomMessage("voice", {"heard": "hello"}),
            il.CustomMessage("private", {}),
        ]
    )
    assert ["It is 7 degrees.", "hello"] == texts(script.last.context.messages)
    assert 5 == script.last.context.messages[0].timestamp  # type: ignore[union-attr]


async def test_messages_of_an_application_come_back_from_a_session(tmp_path: Any) -> None:
    """With all their fields, and they are read by the model after that as before."""
    register_message("weather", lambda message: str(message.fields["degrees"]))
    with Session.open(tmp_path / "s.jsonl") as session:
        await asked(Asked("done"), session=session).prompt([il.CustomMessage("weather", {"degrees": 7, "odd": [None]})])
    script = Asked("again")
    with Session.open(tmp_path / "s.jsonl") as session:
        agent = asked(script, session=session)
        assert il.CustomMessage("weather", {"degrees": 7, "odd": [None]}) == agent.messages[0]
        await agent.prompt("and now?")
    assert ["7", "done", "and now?"] == texts(script.last.context.messages)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (il.CustomMessage("bashExecution", {"command": "ls", "output": "a"}), "Ran `ls`\n```\na\n```"),
        (il.CustomMessage("bashExecution", {"command": "x", "output": "", "exitCode": 2}), "exit code 2"),
        (il.CustomMessage("bashExecution", {"command": "x", "cancelled": True}), "(the command was cancelled)"),
        (
            il.CustomMessage("bashExecution", {"command": "x", "truncated": True, "fullOutputPath": "/o"}),
            "all of it is in /o",
        ),
        (il.CustomMessage("custom", {"content": "words", "display": True, "details": {"secret": 1}}), "words"),
        (il.CustomMessage("custom", {"content": [{"type": "text", "text": "block"}]}), "block"),
        (il.CustomMessage("branchSummary", {"summary": "tried", "fromId": "1"}), "<summary>\ntried\n</summary>"),
        (il.CustomMessage("compactionSummary", {"summary": "old", "tokensBefore": 9}), "<summary>\nold\n</summary>"),
    ],
    ids=lambda value: value.role if isinstance(value, il.CustomMessage) else None,
)
def test_the_roles_of_a_coding_agent_are_read_as_users_words(message: il.CustomMessage, expected: str) -> None:
    """What is for display or for programs is not sent."""
    (read,) = for_models([message])
    assert isinstance(read, il.UserMessage)
    assert expected in texts([read])[0]
    assert "secret" not in texts([read])[0]


def test_what_is_excluded_is_not_read() -> None:
    """A command that was kept out of the context, and content of no known kind."""
    excluded = il.CustomMessage("bashExecution", {"command": "ls", "output": "a", "excludeFromContext": True})
    assert [] == for_models([excluded, il.CustomMessage("custom", {"content": None})])


# --- transforms -------------------------------------------------------------------------------------------------------


async def test_the_context_is_transformed_and_then_converted() -> None:
    """The transform sees an application's messages; both may be coroutines; the history stays as it is."""
    order: list[tuple[str, list[str]]] = []

    async def prune(messages: Any, signal: Any) -> Any:
        order.append(("transform", texts(messages)))
        return messages[-2:]

    async def convert(messages: Any) -> Any:
        order.append(("convert", texts(messages)))
        return for_models(messages)

    script = Asked("1", "2")
    agent = asked(script, transform_context=prune, convert=convert)
    await agent.prompt("old")
    await agent.prompt([il.CustomMessage("note", {}), il.UserMessage(content="new")])
    assert [
        ("transform", ["old"]),
        ("convert", ["old"]),
        ("transform", ["old", "1", "note", "new"]),
        ("convert", ["note", "new"]),
    ] == order
    assert ["new"] == texts(script.last.context.messages)
    assert ["old", "1", "note", "new", "2"] == texts(agent.messages)


async def test_a_transform_cannot_change_the_history() -> None:
    """It is given a copy."""

    def careless(messages: Any, signal: Any) -> Any:
        assert isinstance(messages, tuple)
        return []

    agent = asked(Asked("1"), transform_context=careless)
    await agent.prompt("kept")
    assert ["kept", "1"] == texts(agent.messages)


def broken(*_: Any) -> Any:
    raise ValueError("a bug in a hook")


async def broken_later(*_: Any) -> Any:
    raise ValueError("a bug in a hook")


@pytest.mark.parametrize("hook", ["transform_context", "convert", "get_api_key"])
@pytest.mark.parametrize("how", [broken, broken_later])
async def test_a_hook_that_fails_ends_the_run_in_order(hook: str, how: Any) -> None:
    """With an answer that says what went wrong, the end of its turn, and the end of the run."""
    agent = asked(Asked("never said"), **{hook: how})
    events = await events_of(agent)
    check_events(events)
    assert "error" == events[-1].reason  # type: ignore[union-attr]
    last = agent.messages[-1]
    assert isinstance(last, il.AssistantMessage)
    assert "error" == last.stop_reason
    assert "a bug in a hook" in str(last.error_message)
    assert "a bug in a hook" in str(agent.state.error)


async def test_a_hook_that_fails_because_it_was_stopped_is_an_abort() -> None:
    """Whoever waits for the signal and raises then has not made a mistake."""

    async def slow(messages: Any, signal: Any) -> Any:
        agent.abort()
        await signal.wait()
        raise TimeoutError("stopped")

    agent = asked(Asked("never said"), transform_context=slow)
    events = await events_of(agent)
    check_events(events)
    assert "aborted" == events[-1].reason  # type: ignore[union-attr]


async def test_a_hook_that_fails_after_calls_leaves_them_paired() -> None:
    """And the agent can go on when the hook is mended."""
    note, _ = noted()
    agent = agent_of(calling(call("note")), "-", "done", tools=[note])
    agent.after_tool_call = lambda after: setattr(agent, "convert", broken)
    check_events(await events_of(agent))
    check_pairing(agent.messages)
    agent.convert = for_models
    agent.after_tool_call = None
    assert "done" == (await agent.continue_()).reason


async def test_a_role_that_cannot_be_encoded_ends_the_run_in_order() -> None:
    """A registered function is foreign code too."""
    register_message("bad", broken)
    agent = asked(Asked("never said"))
    check_events(await events_of(agent, [il.CustomMessage("bad", {})]))
    assert "a bug in a hook" in str(agent.state.error)


# --- keys and models --------------------------------------------------------------------------------------------------


class Keys(DebugConnector):
    """Remembers the keys and sessions it was called with."""

    def __init__(self, provider: str, *replies: Any) -> None:
        super().__init__(replies, provider=provider)
        self.calls: list[tuple[str | None, str | None]] = []

    def stream(self, model: Any, context: Any, options: Any = None) -> Any:
        self.calls.append((options.api_key, options.session_id))
        return super().stream(model, context, options)


async def test_the_key_is_asked_for_before_each_answer() -> None:
    """Tokens expire in the middle of a run; the function may be a coroutine."""
    given: list[str] = []

    async def key(provider: str) -> str:
        given.append(provider)
        return f"key {len(given)}"

    note, _ = noted()
    connector = Keys("debug", calling(call("note")), "done")
    agent = Agent("debug/script", [note], client=Client(connectors=ConnectorRegistry([connector])), get_api_key=key)
    await agent.prompt("go")
    assert (["debug", "debug"], ["key 1", "key 2"]) == (given, [key for key, _ in connector.calls])


async def test_the_session_is_named_to_providers_that_cache_by_it(tmp_path: Any) -> None:
    """Unless the caller names another."""
    connector = Keys("debug", "1", "2")
    client = Client(connectors=ConnectorRegistry([connector]))
    with Session.open(tmp_path / "s.jsonl") as session:
        await Agent("debug/script", client=client, session=session).prompt("go")
        await Agent("debug/script", client=client, session=session, session_id="mine").prompt("go")
    assert ["s", "mine"] == [session for _, session in connector.calls]


async def test_another_model_may_take_over_in_the_middle_of_a_run() -> None:
    """From the next answer on, with its own key; the history goes with it."""
    first, second = Keys("debug", calling(call("switch"))), Keys("other", "-", "done")
    client = Client(connectors=ConnectorRegistry([first, second]))

    async def switch(id: str, params: Any, signal: Any = None, on_update: Any = None) -> ToolResult:
        agent.model = "other/script"
        agent.system = "You are another."
        return text_result("switched")

    agent = Agent(
        "debug/script", [tool_of("switch", switch)], client=client, get_api_key=lambda provider: f"for {provider}"
    )
    check_events(await events_of(agent))
    answers = [message for message in agent.messages if isinstance(message, il.AssistantMessage)]
    assert ["debug", "other"] == [answer.provider for answer in answers]
    assert ("done", ["for other"]) == (texts(agent.messages)[-1], [key for key, _ in second.calls])


async def test_options_reach_every_request() -> None:
    """System text, tools and options are those of the agent."""
    note, _ = noted()
    script = Asked(calling(call("note")), "done")
    agent = asked(script, tools=[note], system="Be brief.", temperature=0.5, max_tokens=99)
    await agent.prompt("go")
    assert 2 == len(script.requests)
    for request in script.requests:
        assert ("Be brief.", ["note"]) == (request.context.system, [tool.name for tool in request.context.tools or ()])
        assert (0.5, 99) == (request.options.temperature, request.options.max_tokens)


# --- structured output ------------------------------------------------------------------------------------------------


async def test_a_final_answer_of_a_schema_is_read() -> None:
    """The schema goes to the provider; the value is in the result."""
    note, _ = noted()
    script = Asked(calling(call("note")), '{"name": "Ada", "age": 36}')
    agent = asked(script, tools=[note], output=SCHEMA)
    result = await agent.prompt("who?")
    assert ("done", {"name": "Ada", "age": 36}) == (result.reason, result.output)
    assert SCHEMA == script.last.options.output_schema.schema  # type: ignore[union-attr]


async def test_an_answer_that_does_not_fit_the_schema_is_sent_back() -> None:
    """With what is wrong, in words; the correction is part of the run and of the history."""
    script = Asked("I think Ada", '{"name": "Ada"}', '{"name": "Ada", "age": 36}')
    agent = asked(script, output=SCHEMA)
    events = await events_of(agent, "who?")
    check_events(events)
    sent_back = [text for text in texts(agent.messages) if "not what was asked for" in text]
    assert 2 == len(sent_back)
    assert "it is not JSON" in sent_back[0]
    assert "age" in sent_back[1]


async def test_an_answer_is_sent_back_twice_at_most() -> None:
    """Then the run ends in an error that has the last answer."""
    agent = asked(Asked("no", "no", "no", "no"), output=SCHEMA)
    result = await agent.prompt("who?")
    assert ("error", None, 3) == (result.reason, result.output, result.spent.turns)
    assert isinstance(result.failure, OutputInvalid)
    assert result.message is result.failure.partial
    again = await agent.prompt("really?")
    assert 3 >= again.spent.turns


async def test_messages_between_calls_need_not_be_json() -> None:
    """Only a final answer is."""
    note, _ = noted()
    script = Asked(calling(call("note"), text="Let me see"), '{"name": "Ada", "age": 36}')
    result = await asked(script, tools=[note], output=SCHEMA).prompt("who?")
    assert (2, {"name": "Ada", "age": 36}) == (result.spent.turns, result.output)


async def test_an_answer_that_failed_has_no_output() -> None:
    """Half of a JSON text is none, and a whole one that was not finished is not taken for one."""
    agent = asked(Asked(Step(text='{"name": "Ada", "age": 36}', error="broke off", status=400)), output=SCHEMA)
    result = await agent.prompt("who?")
    assert ("error", None) == (result.reason, result.output)


def _reading(text: str, schema: Any) -> Any:
    return OutputType[Any](OutputSchema(schema=schema)).read_text(text)


@pytest.mark.parametrize(
    ("text", "schema", "expected"),
    [
        ('{"a": 1}', None, {"a": 1}),
        ('```json\n{"a": 1}\n```', None, {"a": 1}),
        ("```\n[1]\n```\n", {"type": "array"}, [1]),
        ("9007199254740993", {"type": "integer"}, 9007199254740993),
        ("null", {"type": "null"}, None),
    ],
)
def test_json_is_read_with_or_without_a_fence(text: str, schema: Any, expected: Any) -> None:
    """Models without a JSON mode put a fence around it."""
    assert (expected, None) == _reading(text, schema)


@pytest.mark.parametrize(
    ("text", "schema", "problem"),
    [
        ("", None, "it is empty"),
        ("Sure: {}", None, "it is not JSON"),
        ("[1]", None, "it is not a JSON object"),
        ('{"name": 1}', SCHEMA, "name: "),
        ("NaN", {}, "it is not JSON"),
    ],
)
def test_what_is_wrong_is_reported_as_text(text: str, schema: Any, problem: str) -> None:
    """For the model to do better."""
    value, problem_text = _reading(text, schema)
    assert value is None
    assert problem in str(problem_text)


def test_a_schema_that_is_none_is_refused_at_once() -> None:
    """It is the caller's mistake, and it is named before anything is paid for."""
    with pytest.raises(il.FormatError, match="not a JSON Schema"):
        asked(Asked("{}"), output={"type": "nonsense"})


def test_a_misspelt_option_is_an_error_at_once() -> None:
    """Not in the first run, where nobody looks for it; what the client takes is known too."""
    with pytest.raises(il.InterlinguaError, match="sytem"):
        Agent("debug/parrot-1", sytem="x")
    Agent("debug/parrot-1", fallbacks=["debug/parrot-1"], retry=0, max_tokens=5)


async def test_a_plain_function_is_a_tool() -> None:
    """As if it had been decorated."""

    def double(number: int) -> int:
        """Doubles a number."""
        return 2 * number

    agent = Agent("debug/tool-call-1", [double])
    await agent.prompt("go")
    assert ["0"] == [message.text for message in agent.messages if message.role == "toolResult"]


def test_an_agent_with_a_session_does_not_forget_it(tmp_path: Any) -> None:
    """Otherwise it would go on without saving, and nobody would know."""
    with il.Session.open("s", home=tmp_path) as session:
        agent = Agent("debug/parrot-1", session=session)
        with pytest.raises(il.InterlinguaError, match="open another"):
            agent.reset()
