"""Every vendor's package as a client, in front of every upstream wire: content, calls, stop reason, usage, errors."""

import base64
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import aiohttp
import pytest

import interlingua as il
from gateway.conftest import WIRES, settings_for
from gateway.sdks import CLIENTS, PNG, Client
from gateway.test_defects import ask
from interlingua.gateway import Gateway
from interlingua.gateway.checking import SCENARIOS, scenario_body
from interlingua.testing import Server
from interlingua.testing.threads import LoopThread
from interlingua.values.messages import text_of

PAIRS = [(client, upstream, stream) for client in CLIENTS for upstream in WIRES for stream in (False, True)]
IDS = [f"{client.wire}-to-{upstream}{'+stream' if stream else ''}" for client, upstream, stream in PAIRS]
Opening = Callable[[type[Client], str, bool], Any]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(strict=True) as server:
        yield server


@pytest.fixture(scope="module")
def address(server: Server) -> Iterator[str]:
    thread = LoopThread("gateway-under-test")
    gateway = Gateway(settings_for(server))
    thread.start(gateway.start())
    yield gateway.url
    thread.run(gateway.stop())
    thread.stop()


@pytest.fixture
def open_client(server: Server, address: str) -> Opening:
    server.clear()
    return lambda kind, upstream, stream: closing(kind(address, upstream, stream=stream))


@pytest.mark.parametrize(("kind", "upstream", "stream"), PAIRS, ids=IDS)
def test_text_stop_reason_usage_and_names_arrive(
    kind: type[Client], upstream: str, stream: bool, server: Server, open_client: Opening
) -> None:
    """
    The answer's text, end, counts, the asked model's name and an id, whoever answered.
    """
    server.say("Hello, dear friend of mine, and a good morning!")
    with open_client(kind, upstream, stream) as client:
        answer = client.say("Hi there")
    assert answer.text == "Hello, dear friend of mine, and a good morning!"
    assert answer.stop == kind.stops[0]
    sent = server.last.message
    assert sent is not None and sent.usage is not None
    assert answer.usage == (sent.usage.input, sent.usage.output)
    assert server.last.request is not None and server.last.request.model.id == "test-model"
    if answer.model is not None:
        assert answer.model == upstream
    assert answer.id is None or answer.id


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("model", ["up-ollama-chat/llama3.2:8b", "up-openai-completions/org/some-model:free"])
@pytest.mark.parametrize("kind", CLIENTS, ids=lambda kind: kind.wire)
def test_names_of_models_may_have_slashes_and_colons(
    kind: type[Client], model: str, stream: bool, server: Server, open_client: Opening
) -> None:
    """
    Also where the name is in the path, behind which Gemini's clients write a colon and a verb.
    """
    server.say("Hello")
    with open_client(kind, model, stream) as client:
        answer = client.say("Hi there")
    assert ("Hello", model.partition("/")[2]) == (answer.text, server.last.request and server.last.request.model.id)
    assert answer.model in (model, None)


@pytest.mark.parametrize("kind", CLIENTS, ids=lambda kind: kind.wire)
def test_characters_that_end_lines_for_some_readers_arrive(
    kind: type[Client], server: Server, open_client: Opening
) -> None:
    """
    Packages that read streams line by line take U+0085, U+2028 and U+2029 for ends of lines: JSON can escape them.
    """
    text = "one\x85two\u2028three\u2029four\x0bfive\x0csix\x1cseven"
    for upstream in WIRES:
        server.clear()
        server.answer([il.TextBlock(text=text), il.ToolCall(id="call_1", name="weather", arguments={"city": text})])
        with open_client(kind, upstream, True) as client:
            answer = client.say("Hi", tools=True)
        assert (text, [{"city": text}]) == (answer.text, [call.arguments for call in answer.calls]), upstream


@pytest.mark.parametrize(("kind", "upstream", "stream"), PAIRS, ids=IDS)
def test_parallel_calls_and_their_results_pair_up(
    kind: type[Client], upstream: str, stream: bool, server: Server, open_client: Opening
) -> None:
    """
    Two calls at once arrive whole; their results reach the upstream beside them, each with its call.
    """
    server.answer(
        (
            il.TextBlock(text="Let me look."),
            il.ToolCall(id="call_a", name="weather", arguments={"city": "Oslo"}),
            il.ToolCall(id="call_b", name="weather", arguments={"city": "Rome", "days": [1, 2]}),
        )
    )
    server.say("Both are fine.")
    with open_client(kind, upstream, stream) as client:
        answer = client.say("How is the weather?", tools=True)
        assert [(call.name, call.arguments) for call in answer.calls] == [
            ("weather", {"city": "Oslo"}),
            ("weather", {"city": "Rome", "days": [1, 2]}),
        ]
        assert (answer.text, answer.stop) == ("Let me look.", kind.stops[1])
        client.results({call.id: f"sunny in {call.arguments['city']}" for call in answer.calls}, answer.calls)
        assert client.ask(tools=True).text == "Both are fine."
    request = server.last.request
    assert request is not None
    messages = request.context.messages
    asked = {
        call.id: call.arguments["city"]
        for message in messages
        if isinstance(message, il.AssistantMessage)
        for call in message.tool_calls
    }
    given = {m.tool_call_id: text_of(m.content) for m in messages if isinstance(m, il.ToolResultMessage)}
    assert {id: f"sunny in {city}" for id, city in asked.items()} == given


@pytest.mark.parametrize(("kind", "upstream", "stream"), PAIRS, ids=IDS)
def test_pictures_reach_the_model(
    kind: type[Client], upstream: str, stream: bool, server: Server, open_client: Opening
) -> None:
    """
    A picture arrives with the bytes that the client sent.
    """
    with open_client(kind, upstream, stream) as client:
        client.say("What is this?", picture=PNG)
    request = server.last.request
    assert request is not None
    content = request.context.messages[0].content
    pictures = [block for block in content if isinstance(block, il.ImageBlock)]
    assert [base64.b64decode(picture.data or "") for picture in pictures] == [PNG]


@pytest.mark.parametrize(("kind", "upstream", "stream"), PAIRS, ids=IDS)
def test_a_schema_for_the_answer_reaches_the_model(
    kind: type[Client], upstream: str, stream: bool, server: Server, open_client: Opening
) -> None:
    """
    Structured output is asked for in the upstream's way.
    """
    server.say('{"city": "Oslo"}')
    with open_client(kind, upstream, stream) as client:
        assert client.say("Which city?", schema=True).text == '{"city": "Oslo"}'
    request = server.last.request
    assert request is not None and request.options.output_schema is not None
    assert request.options.output_schema.schema["properties"] == {"city": {"type": "string"}}


FAILURES = [
    il.RateLimited("slow down", status=429, retry_after=2.0),
    il.Overloaded("too busy", status=503),
    il.AuthFailed("wrong key", status=401),
    il.ContextTooLong("prompt is too long: 300000 tokens > 200000 maximum", status=400),
    il.BadRequest("no such thing", status=400),
]


@pytest.mark.parametrize(("kind", "upstream", "stream"), PAIRS, ids=IDS)
def test_errors_before_the_answer_are_the_clients_own(
    kind: type[Client], upstream: str, stream: bool, server: Server, open_client: Opening
) -> None:
    """
    The package raises its exception for the status, with the upstream's text.
    """
    for failure in FAILURES:
        server.clear()
        server.answer(failure)
        with open_client(kind, upstream, stream) as client, pytest.raises(Exception) as caught:
            client.say("Hi")
        assert failure.message in str(caught.value)
        status = _status(caught.value)
        expected = 502 if isinstance(failure, il.AuthFailed) else failure.status  # the key was the gateway's
        assert status == expected, (failure, caught.value)


def _status(error: Any) -> int | None:
    for name in ("status_code", "code"):
        value = getattr(error, name, None)
        if isinstance(value, int):
            return value
    response = getattr(error, "response", None)
    return response["ResponseMetadata"]["HTTPStatusCode"] if isinstance(response, dict) else None


TABLE = Path(__file__).parents[2] / "docs" / "gateway.md"


def cells() -> dict[tuple[str, str], str]:
    """The table of the documentation: what is lost, by client and provider."""
    lines = TABLE.read_text().splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("| client \\ provider |"))
    split = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[at:]]
    rows = {row[0]: row for row in split[2 : 2 + len(split[0]) - 2]}
    return {(client, upstream): row[split[0].index(upstream)] for client, row in rows.items() for upstream in WIRES}


@pytest.mark.parametrize("upstream", WIRES)
@pytest.mark.parametrize("client", WIRES)
async def test_a_pair_loses_what_the_table_in_the_documentation_says(
    client: str, upstream: str, server: Server, address: str
) -> None:
    """
    Each of the table's requests through the gateway: the header names the losses of the cell, and no others.
    """
    server.clear()
    lost: dict[str, list[str]] = {}
    async with aiohttp.ClientSession() as session:
        for scenario in SCENARIOS:
            body = scenario_body(il.wire(client), scenario)
            if body is None:
                continue
            path, plain = ask(client, upstream, False)
            body = {name: value for name, value in body.items() if name != "stream"}
            body |= {name: value for name, value in plain.items() if name in ("model", "stream")}
            async with session.post(address + path, json=body) as response:
                assert response.status == 200, await response.text()
                header = response.headers.get("x-interlingua-losses", "")
            found = [one.split(" ", 1)[1] for one in header.partition(": ")[2].split("; ") if one]
            if found:
                lost[scenario] = list(dict.fromkeys(found))
    summary = "; ".join(f"{name}: {', '.join(found)}" for name, found in lost.items()) or "nothing"
    assert cells()[client, upstream] == summary
