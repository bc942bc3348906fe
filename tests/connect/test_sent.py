"""What goes over the wire, per provider: addresses, keys, headers and the parts of a body that are a host's own."""

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest

import interlingua as il
from connect.asking import PLACES, PNG, Place
from interlingua.connect.client import Client
from interlingua.connect.connector import USER_AGENT, HttpConnector
from interlingua.connect.providers import PROVIDERS, ROWS
from interlingua.connect.stream import Stream
from interlingua.testing import Server
from interlingua.testing.server import Received
from interlingua.values.messages import text_of

KEY = "key-1234567890"


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.fixture
def server(running: Server) -> Server:
    running.clear()
    return running


def ask(server: Server, name: str, context: Any = "Hi", **options: Any) -> Stream:
    server.route("GET", "/openai-completions/v1/generation", {"data": {"total_cost": 0.125}})
    place = _place(name)
    given = {"api_key": KEY, "base_url": server.base_url(place.api), "retry": 0, "timeout": 20, "env": {}, **options}
    return Client().stream(name, context, **given)


async def sent(server: Server, name: str, context: Any = "Hi", **options: Any) -> Received:
    """The request as the server received it."""
    stream = ask(server, name, context, **options)
    await stream.result()
    assert stream.failure is None
    return next(received for received in reversed(server.requests) if received.method == "POST")


async def failure(name: str, **options: Any) -> il.InterlinguaError | None:
    """What is wrong with a call, told in its stream."""
    stream = Client().stream(name, "Hi", **{"retry": 0, "env": {}, **options})
    await stream.result()
    return stream.failure


def _place(name: str) -> Place:
    provider, _, model = name.partition("/")
    return Place(PROVIDERS[provider], model)


# --- keys ------------------------------------------------------------------------------------------------------------

STYLES = {
    "anthropic-messages": ("x-api-key", KEY),
    "openai-completions": ("Authorization", f"Bearer {KEY}"),
    "openai-responses": ("Authorization", f"Bearer {KEY}"),
    "openai-codex-responses": ("Authorization", f"Bearer {KEY}"),
    "azure-openai-responses": ("api-key", KEY),
    "google-generative-ai": ("x-goog-api-key", KEY),
    "google-vertex": ("x-goog-api-key", KEY),
    "google-interactions": ("x-goog-api-key", KEY),
    "vertex-anthropic": ("x-goog-api-key", KEY),
    "google-gemini-cli": ("Authorization", f"Bearer {KEY}"),
    "bedrock-converse-stream": ("Authorization", f"Bearer {KEY}"),
    "ollama-chat": ("Authorization", f"Bearer {KEY}"),
    "cohere-chat": ("Authorization", f"Bearer {KEY}"),
}
OWN_STYLES = {"azure-openai": ("api-key", KEY), "github-copilot": ("Authorization", f"Bearer {KEY}")}
CARRIERS = ("Authorization", "x-api-key", "api-key", "x-goog-api-key")


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.name)
async def test_a_key_travels_in_one_header_and_nowhere_else(server: Server, place: Place) -> None:
    """As the provider wants it; not in the address, not in the body. The request itself is one POST that streams."""
    received = await sent(server, place.name)
    header, value = OWN_STYLES.get(place.row.id) or STYLES[place.api]
    assert {header: value} == {name: received.headers[name] for name in CARRIERS if name in received.headers}
    assert KEY not in received.path and KEY.encode() not in received.body
    assert 1 == len([one for one in server.requests if one.method == "POST"])
    assert received.request is not None
    assert True is received.request.options.stream
    if place.api != "google-gemini-cli":  # which says it in the body
        assert place.model == received.request.model.id
    assert "Hi" == text_of(received.request.context.messages[-1].content)


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.name)
async def test_every_call_says_who_calls(server: Server, place: Place) -> None:
    """JSON, uncompressed answers, and our name."""
    headers = (await sent(server, place.name)).headers
    assert (USER_AGENT, "application/json", "identity") == (
        headers["User-Agent"],
        headers["Content-Type"],
        headers["Accept-Encoding"],
    )


@pytest.mark.parametrize("row", [row for row in ROWS if row.env], ids=lambda row: row.id)
async def test_the_key_is_found_in_the_rows_variables(server: Server, row: Any) -> None:
    """Each of them, without the caller saying anything."""
    for variable in row.env:
        options = {"api_key": None, "env": {variable: KEY}, "base_url": server.base_url(row.api)}
        received = await sent(server, f"{row.id}/m", **options)
        assert [KEY] == [
            received.headers[name].removeprefix("Bearer ") for name in CARRIERS if name in received.headers
        ]


NEEDS_KEY = [row for row in ROWS if not row.keyless and row.auth_style(row.api) not in ("aws", "google")]


@pytest.mark.parametrize("row", NEEDS_KEY, ids=lambda row: row.id)
async def test_a_missing_key_names_every_place_that_was_looked_at(row: Any) -> None:
    """And what to do. It arrives in the stream, and nothing is sent."""
    wrong = await failure(f"{row.id}/m", base_url="http://127.0.0.1:9")
    assert type(wrong) is il.AuthFailed
    convention = f"{row.id.upper().replace('-', '_')}_API_KEY"
    for place in (*row.env, convention, "credentials", f"interlingua auth login {row.id}"):
        assert place in str(wrong)


@pytest.mark.parametrize("row", [row for row in ROWS if row.keyless], ids=lambda row: row.id)
async def test_a_keyless_provider_needs_no_key(server: Server, row: Any) -> None:
    """And is sent none."""
    received = await sent(server, f"{row.id}/m", api_key=None)
    assert [] == [name for name in CARRIERS if name in received.headers]


async def test_a_key_in_the_callers_own_headers_is_left_alone(server: Server) -> None:
    """Nothing is put beside it."""
    received = await sent(server, "anthropic/m", headers={"Authorization": "Bearer theirs"})
    assert ("Bearer theirs", None) == (received.headers["Authorization"], received.headers.get("x-api-key"))


async def test_an_error_never_repeats_the_key(server: Server) -> None:
    """Also when the provider does."""
    server.answer(il.AuthFailed(f"invalid key: {KEY}", status=401))
    message = await ask(server, "openai/m").result()
    assert "invalid key" in (message.error_message or "") and KEY not in (message.error_message or "")


# --- Anthropic -------------------------------------------------------------------------------------------------------

ANTHROPIC = [row.id for row in ROWS if row.api == "anthropic-messages"]


@pytest.mark.parametrize("provider", ANTHROPIC)
async def test_anthropics_wire_has_a_version(server: Server, provider: str) -> None:
    """On every host that speaks it, and no beta unless it is needed."""
    headers = (await sent(server, f"{provider}/m")).headers
    assert ("2023-06-01", None) == (headers["anthropic-version"], headers.get("anthropic-beta"))


async def test_a_login_token_of_anthropics_is_a_bearer_token(server: Server) -> None:
    """It is known by its form, and needs its beta."""
    headers = (await sent(server, "anthropic/m", api_key="sk-ant-oat01-abc")).headers
    assert ("Bearer sk-ant-oat01-abc", None) == (headers["Authorization"], headers.get("x-api-key"))
    assert "oauth-2025-04-20" in headers["anthropic-beta"].split(",")


@pytest.mark.parametrize("found", ["sk-ant-oat01-abc", {"apiKey": "sk-ant-oat01-abc", "mode": "api-key"}], ids=str)
async def test_a_login_token_of_a_resolver_is_a_bearer_token(server: Server, found: Any) -> None:
    """Whatever the resolver of the caller says of it."""
    server.say("Hi")
    client = Client(auth=lambda provider, env_vars, explicit_key: found)
    await client.complete("anthropic/m", "Hi", base_url=server.base_url("anthropic-messages"))
    headers = server.requests[-1].headers
    assert ("Bearer sk-ant-oat01-abc", None) == (headers["Authorization"], headers.get("x-api-key"))


TOOL = il.ToolSpec(name="look_up", description="Looks.", input_schema={"type": "object", "properties": {}})


async def test_thinking_between_calls_is_asked_for_where_tools_are(server: Server) -> None:
    """A budget of thoughts and tools together need the beta."""
    context = il.Context(messages=(il.UserMessage(content="Hi"),), tools=(TOOL,))
    headers = (await sent(server, "anthropic/m", context, reasoning=2048, max_tokens=4096)).headers
    assert "interleaved-thinking-2025-05-14" == headers["anthropic-beta"]


async def test_an_answer_of_anthropics_has_a_limit_even_if_none_is_given(server: Server) -> None:
    """The wire wants one."""
    assert (await sent(server, "anthropic/m")).json["max_tokens"] > 0
    assert 77 == (await sent(server, "anthropic/m", max_tokens=77)).json["max_tokens"]


# --- OpenAI ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("provider", ["openai", "azure-openai-responses", "openai-codex"])
async def test_responses_are_not_stored(server: Server, provider: str) -> None:
    """So what the provider needs to go on reasoning is asked for, sealed, when there is reasoning."""
    plain = (await sent(server, f"{provider}/m")).json
    thinking = (await sent(server, f"{provider}/m", reasoning="low")).json
    assert (False, False) == (plain["store"], thinking["store"])
    sealed = ["reasoning.encrypted_content"]
    assert (sealed if provider == "openai-codex" else None, sealed) == (plain.get("include"), thinking.get("include"))


def _token(claims: dict[str, Any]) -> str:
    parts = [{"alg": "none"}, claims]
    return ".".join([*(base64.urlsafe_b64encode(json.dumps(p).encode()).decode().rstrip("=") for p in parts), "sig"])


async def test_codex_says_whose_account_it_is(server: Server) -> None:
    """The account is a claim of the token."""
    token = _token({"https://api.openai.com/auth": {"chatgpt_account_id": "account-7"}})
    received = await sent(server, "openai-codex/gpt-5-codex", api_key=token, session_id="s-1")
    assert (f"Bearer {token}", "account-7", "s-1", "interlingua") == (
        received.headers["Authorization"],
        received.headers["chatgpt-account-id"],
        received.headers["session_id"],
        received.headers["originator"],
    )
    assert received.json["instructions"]
    assert received.path.endswith("/codex/responses")


async def test_codex_with_a_token_of_another_kind_says_no_account(server: Server) -> None:
    """Nothing is guessed."""
    assert "chatgpt-account-id" not in (await sent(server, "openai-codex/m")).headers


async def test_the_chat_wire_asks_for_usage(server: Server) -> None:
    """It comes only on request."""
    assert {"include_usage": True} == (await sent(server, "openai-chat/m")).json["stream_options"]


async def test_azure_is_reached_by_the_name_of_the_resource() -> None:
    """From the settings or the variable; without it, the error says how to give it."""
    for provider in ("azure-openai", "azure-openai-responses"):
        wrong = await failure(f"{provider}/m", api_key=KEY)
        assert "resource" in str(wrong) and "AZURE_OPENAI_RESOURCE_NAME" in str(wrong)
        assert (await _address(f"{provider}/m", env={"AZURE_OPENAI_RESOURCE_NAME": "oslo"})).startswith(
            "https://oslo.openai.azure.com/openai/v1/"
        )


# --- Google ----------------------------------------------------------------------------------------------------------


async def test_google_streams_as_events(server: Server) -> None:
    """The address asks for server-sent events, and has no key in it."""
    received = await sent(server, "google/gemini-9")
    assert received.path.endswith("/models/gemini-9:streamGenerateContent?alt=sse")


async def test_code_assist_takes_token_and_project_from_one_credential(server: Server) -> None:
    """The token goes into the header, the project into the body."""
    both = json.dumps({"token": "ya29.token", "projectId": "project-9"}, separators=(",", ":"))
    received = await sent(server, "google-gemini-cli/gemini-9", api_key=both)
    assert ("Bearer ya29.token", "project-9", "gemini-9") == (
        received.headers["Authorization"],
        received.json["project"],
        received.json["model"],
    )


async def test_vertex_is_reached_by_project_and_location() -> None:
    """Settings count more than variables; the location has a default, and `global` an address of its own."""
    vertex = "google-vertex/gemini-9"
    env = {"GOOGLE_CLOUD_PROJECT": "p-1"}
    models = "publishers/google/models/gemini-9:streamGenerateContent?alt=sse"
    usual = "https://us-central1-aiplatform.googleapis.com/v1/projects/p-1/locations/us-central1/"
    assert usual + models == await _address(vertex, env=env)
    there = "https://europe-west4-aiplatform.googleapis.com/v1/projects/p-2/locations/europe-west4/"
    assert there + models == await _address(vertex, env=env, settings={"project": "p-2", "location": "europe-west4"})
    anywhere = await _address(vertex, env={**env, "GOOGLE_CLOUD_LOCATION": "global"})
    assert anywhere.startswith("https://aiplatform.googleapis.com/v1/projects/p-1/locations/global/")
    wrong = await failure(vertex, api_key=KEY)
    assert "project" in str(wrong) and "GOOGLE_CLOUD_PROJECT" in str(wrong)


# --- Bedrock ---------------------------------------------------------------------------------------------------------


async def test_bedrock_is_signed_with_the_keys_of_the_environment(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AWS's signature over what is sent, for the region of the call."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI-secret")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "session-1")
    received = await sent(
        server, "amazon-bedrock/anthropic.claude-9:0", api_key=None, env=None, settings={"region": "eu-north-1"}
    )
    signature = received.headers["Authorization"]
    assert signature.startswith("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/")
    assert "/eu-north-1/bedrock/aws4_request" in signature
    assert "host" in signature and "x-amz-date" in signature
    assert "session-1" == received.headers["X-Amz-Security-Token"]
    assert received.path.endswith("/model/anthropic.claude-9%3A0/converse-stream")
    assert "wJalrXUtnFEMI" not in repr(dict(received.headers))


async def test_bedrock_takes_a_bearer_token(server: Server) -> None:
    """Then nothing is signed."""
    received = await sent(server, "amazon-bedrock/m", api_key=None, env={"AWS_BEARER_TOKEN_BEDROCK": "bedrock-key"})
    assert ("Bearer bedrock-key", None) == (received.headers["Authorization"], received.headers.get("X-Amz-Date"))


async def test_bedrock_is_reached_in_its_region() -> None:
    """The option, the model's own ARN, the variables, and at last the usual one."""
    arn = "amazon-bedrock/arn:aws:bedrock:ap-south-1:123456789012:inference-profile/x"
    env = {"AWS_REGION": "eu-west-1", "HOME": "/nowhere"}
    reported = [
        await _address("amazon-bedrock/m", env=env, settings={"region": "us-west-2"}),
        await _address(arn, env=env),
        await _address("amazon-bedrock/m", env=env),
    ]
    regions = [address.split(".")[1] for address in reported]
    assert ["us-west-2", "ap-south-1", "eu-west-1"] == regions


# --- the other hosts -------------------------------------------------------------------------------------------------


async def test_openrouter_is_asked_for_costs(server: Server) -> None:
    """And told who asks; what it says that an answer cost counts."""
    stream = ask(server, "openrouter/some/model", reasoning="low", max_tokens=50)
    usage = (await stream.result()).usage
    posted, asked = server.requests
    assert ({"include": True}, "Interlingua", 50) == (
        posted.json["usage"],
        posted.headers["X-Title"],
        posted.json["max_tokens"],
    )
    assert {"effort": "low"} == {name: posted.json["reasoning"].get(name) for name in ("effort",)}
    assert ("GET", f"Bearer {KEY}") == (asked.method, asked.headers["Authorization"])
    assert usage is not None and usage.cost is not None and 0.125 == usage.cost.total


async def test_copilot_tells_who_began_and_whether_there_are_pictures(server: Server) -> None:
    """On each of its three wires."""
    picture = il.UserMessage(content=(il.ImageBlock(data=PNG, mime_type="image/png"),))
    call = il.AssistantMessage(content=(il.ToolCall(id="call_1", name="look_up", arguments={}),), stop_reason="toolUse")
    result = il.ToolResultMessage(tool_call_id="call_1", tool_name="look_up", content=(), is_error=False)
    for model in ("gpt-4o", "claude-sonnet-4.5", "gpt-5-mini"):
        name = f"github-copilot/{model}"
        begun = (await sent(server, name)).headers
        assert ("user", None) == (begun["X-Initiator"], begun.get("Copilot-Vision-Request"))
        shown = (await sent(server, name, [picture])).headers
        assert ("user", "true") == (shown["X-Initiator"], shown["Copilot-Vision-Request"])
        tools = il.Context(messages=(il.UserMessage(content="Go"), call, result), tools=(TOOL,))
        assert "agent" == (await sent(server, name, tools)).headers["X-Initiator"]


async def test_mistral_wants_short_ids_its_own_seed_and_the_same_machine(server: Server) -> None:
    """Nine letters or digits, the same in call and result, and the names of results."""
    history = (
        il.UserMessage(content="Go"),
        il.AssistantMessage(
            content=(il.ToolCall(id="toolu_01ABCDEFGHIJKLMNOP", name="look_up", arguments={}),), stop_reason="toolUse"
        ),
        il.ToolResultMessage(
            tool_call_id="toolu_01ABCDEFGHIJKLMNOP",
            tool_name="look_up",
            content=(il.TextBlock(text="Found"),),
            is_error=False,
        ),
    )
    received = await sent(
        server,
        "mistral/mistral-large",
        il.Context(messages=history, tools=(TOOL,)),
        seed=42,
        session_id="s-1",
        max_tokens=9,
    )
    body = received.json
    (id,) = [call["id"] for message in body["messages"] for call in message.get("tool_calls") or ()]
    (result,) = [message for message in body["messages"] if message["role"] == "tool"]
    assert 9 == len(id) and id.isalnum()
    assert (id, "look_up") == (result["tool_call_id"], result["name"])
    assert (42, None, 9, None) == (
        body["random_seed"],
        body.get("seed"),
        body["max_tokens"],
        body.get("stream_options"),
    )
    assert "s-1" == received.headers["x-affinity"]


LIMITS = {
    "openai-chat": "max_completion_tokens",
    "groq": "max_completion_tokens",
    "cerebras": "max_completion_tokens",
    "deepseek": "max_tokens",
    "together": "max_tokens",
    "zai": "max_tokens",
    "openai-compatible": "max_tokens",
}


@pytest.mark.parametrize("provider", LIMITS)
async def test_the_limit_of_an_answer_goes_by_the_hosts_word(server: Server, provider: str) -> None:
    """One of the two, never both."""
    body = (await sent(server, f"{provider}/m", max_tokens=64)).json
    fields = ("max_tokens", "max_completion_tokens")
    assert {LIMITS[provider]: 64} == {word: body[word] for word in fields if word in body}


async def test_ollama_is_found_by_its_variable_with_or_without_a_scheme(server: Server) -> None:
    """`OLLAMA_HOST` is often a bare host and port."""
    for host in (server.url, server.url.removeprefix("http://"), server.url + "/"):
        received = await sent(server, "ollama/m", base_url=None, env={"OLLAMA_HOST": host})
        assert "/api/chat" == received.path


# --- what the caller may change --------------------------------------------------------------------------------------


async def test_headers_are_merged_in_one_order(server: Server) -> None:
    """Ours, the row's, the model's, the call's: the later one counts."""
    model = il.ModelDescriptor(
        id="m", provider="openrouter", headers={"X-Title": "model", "X-One": "model", "User-Agent": "model"}
    )
    server.route("GET", "/openai-completions/v1/generation", {"data": {"total_cost": 0}})
    options = {"api_key": KEY, "base_url": server.base_url("openai-completions"), "headers": {"X-One": "call"}}
    await Client().stream(model, "Hi", **options).result()
    headers = server.requests[0].headers
    assert ("model", "call", "model") == (headers["X-Title"], headers["X-One"], headers["User-Agent"])
    assert "application/json" == headers["Content-Type"]


async def test_an_address_is_taken_from_the_call_the_model_the_variable_or_the_row() -> None:
    """In this order."""
    env = {"OPENAI_BASE_URL": "http://env.test/v1"}
    model = il.ModelDescriptor(id="m", provider="openai", base_url="http://model.test/v1/")
    reported = [
        await _address(model, env=env, base_url="http://call.test/v1"),
        await _address(model, env=env),
        await _address("openai/m", env=env),
        await _address("openai/m", env={}),
    ]
    hosts = ["http://call.test/v1", "http://model.test/v1", "http://env.test/v1", "https://api.openai.com/v1"]
    assert [f"{host}/responses" for host in hosts] == reported


async def test_a_route_may_have_its_own_address() -> None:
    """Claude models of a host that serves others elsewhere."""
    assert "https://opencode.ai/zen/v1/messages" == await _address("opencode/claude-9")
    assert "https://opencode.ai/zen/v1/chat/completions" == await _address("opencode/kimi-9")


@pytest.mark.parametrize("row", [row for row in ROWS if row.base_url], ids=lambda row: row.id)
async def test_every_row_has_an_address_of_its_own(row: Any) -> None:
    """Complete once its settings are given; the local ones are on this machine."""
    address = await _address(f"{row.id}/m", settings=dict.fromkeys(row.settings, "set"))
    assert "{" not in address
    assert address.startswith("https://" if not row.keyless else "http://127.0.0.1")


async def test_a_server_by_base_url_alone_must_be_told(server: Server) -> None:
    """The compatible rows have no address; the error says how to give one."""
    wrong = await failure("openai-compatible/m")
    assert "base_url" in str(wrong) and "OPENAI_COMPATIBLE_BASE_URL" in str(wrong)
    env = {"ANTHROPIC_COMPATIBLE_BASE_URL": server.base_url("anthropic-messages")}
    assert (await sent(server, "anthropic-compatible/m", base_url=None, env=env)).path.endswith("/v1/messages")


async def test_the_body_may_be_replaced_before_it_is_sent(server: Server) -> None:
    """By a plain function or a coroutine, or changed in place."""

    def plain(body: dict[str, Any], model: il.ModelDescriptor) -> dict[str, Any]:
        return {**body, "user": model.id}

    async def waiting(body: dict[str, Any], model: il.ModelDescriptor) -> dict[str, Any]:
        return {**body, "user": "async"}

    def in_place(body: dict[str, Any], model: il.ModelDescriptor) -> None:
        body["user"] = "changed"

    seen = [
        (await sent(server, "openai-chat/m", on_payload=change)).json["user"] for change in (plain, waiting, in_place)
    ]
    assert ["m", "async", "changed"] == seen


async def test_the_answers_status_and_headers_can_be_seen(server: Server) -> None:
    """Also those of an error."""
    seen: list[tuple[int, str]] = []

    def look(status: int, headers: Any) -> None:
        seen.append((status, headers["Content-Type"].partition(";")[0]))

    await sent(server, "openai-chat/m", on_response=look)
    server.answer(il.BadRequest("no", status=400))
    await ask(server, "openai-chat/m", on_response=look).result()
    assert [(200, "text/event-stream"), (400, "application/json")] == seen


@pytest.mark.parametrize("hook", ["on_payload", "on_response"])
async def test_a_hook_that_fails_is_an_error_in_the_stream(server: Server, hook: str) -> None:
    """It is the caller's own code: its exception is told, and nothing is thrown or left hanging."""

    def broken(*_: Any) -> None:
        raise ValueError("my own mistake")

    stream = ask(server, "openai-chat/m", **{hook: broken})
    message = await stream.result()
    assert "error" == message.stop_reason and stream.failure is not None
    assert "my own mistake" in str(stream.failure)


async def test_an_unknown_option_is_refused_at_once() -> None:
    """Before anything is sent, with the names that there are."""
    with pytest.raises(il.InterlinguaError, match=r"max_token'.*max_tokens"):
        Client().stream("openai/m", "Hi", max_token=9)


async def _address(model: str | il.ModelDescriptor, **options: Any) -> str:
    """Where a call would go. Only local servers can be called here, so the others' addresses are only looked at."""
    connector, described = Client().find(model)
    assert isinstance(connector, HttpConnector)
    call = il.CallOptions(**{"env": {}, **options})
    return await connector.url(described, call)


async def test_case_11_what_a_host_can_do_is_looked_up_by_host_and_model(server: Server) -> None:
    """The same model is asked for sealed reasoning at one host, and not at another that refuses to be asked."""
    asked = {}
    for provider, api in (("openai", "openai-responses"), ("azure-openai-responses", "azure-openai-responses")):
        refuses = {"supportsEncryptedReasoning": False} if provider != "openai" else None
        model = il.ModelDescriptor(id="gpt-5", provider=provider, api=api, compat=refuses)
        await Client().complete(model, "Hi", api_key="k", base_url=server.base_url(api), reasoning="low", retry=0)
        assert server.last is not None
        asked[provider] = server.last.json.get("include")
    assert {"openai": ["reasoning.encrypted_content"], "azure-openai-responses": None} == asked


BODY = {
    "model": "claude-opus-4-6",
    "max_tokens": 50,
    "container": "box-1",
    "context_management": {"edits": []},
    "messages": [{"role": "user", "content": "Hi"}],
}


@pytest.mark.parametrize("form", ["body", "conversation", "request"])
async def test_what_only_one_wire_can_say_goes_along(server: Server, form: str) -> None:
    """A whole request body, however it is handed over, loses nothing on its own wire."""
    given = {"body": BODY, "conversation": il.decode(BODY), "request": il.decode(BODY).request()}[form]
    stream = il.stream("anthropic/claude-opus-4-6", given, api_key="k", base_url=server.base_url("anthropic-messages"))
    await stream.result()
    assert server.last is not None
    assert ("box-1", {"edits": []}) == (server.last.json["container"], server.last.json["context_management"])
    assert [] == [loss for loss in stream.losses if loss.severity != "record"]


async def test_a_field_of_one_wire_can_be_given_as_an_option(server: Server) -> None:
    """Under the name of the wire that has it; on another wire it is a reported loss."""
    extra = {"openai-completions": {"logit_bias": {"1": 2}}}
    chat = il.stream("openai-chat/m", "Hi", extra=extra, api_key="k", base_url=server.base_url("openai-completions"))
    await chat.result()
    assert server.last is not None
    assert {"1": 2} == server.last.json["logit_bias"]
    claude = il.stream("anthropic/m", "Hi", extra=extra, api_key="k", base_url=server.base_url("anthropic-messages"))
    await claude.result()
    assert "logit_bias" not in server.last.json
    assert any("openai-completions" in loss.path for loss in claude.losses)


@pytest.mark.parametrize("context", [None, 5, ["words"], []])
def test_what_is_no_context_is_refused_with_words(context: Any) -> None:
    """At the call, with what a context may be."""
    with pytest.raises(il.FormatError, match="context"):
        il.stream("debug/parrot-1", context)


@pytest.mark.parametrize(
    "options", [{"temperature": "hot"}, {"max_tokens": -4}, {"timeout": "x"}, {"max_tokens": True}]
)
def test_options_of_the_wrong_kind_are_refused(options: dict[str, Any]) -> None:
    """Before anything is sent."""
    with pytest.raises(il.FormatError, match=next(iter(options))):
        il.stream("debug/parrot-1", "Hi", **options)
