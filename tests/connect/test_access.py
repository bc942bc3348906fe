"""Keys, addresses and headers go to the provider that they were given for, and nowhere else."""

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import interlingua as il
from interlingua.agent import Agent, Compaction
from interlingua.connect.call import chain
from interlingua.connect.client import Client, builtin_connectors
from interlingua.connect.providers import Provider
from interlingua.connect.retry import Retry
from interlingua.host import AgentHost
from interlingua.testing import RateLimit, Server, Status
from interlingua.testing.server import Received
from interlingua.values.folding import unfold
from interlingua.values.request import CallOptions, StreamOptions

WIRES = {"aa": "openai-completions", "bb": "anthropic-messages", "cc": "ollama-chat"}
PLACES = (*WIRES, "private", "other")  # a server for each provider, and two more addresses
ENV = {f"{name.upper()}_KEY": f"env-key-of-{name}" for name in WIRES}
QUICK = Retry(attempts=2, base=0.001, cap=0.002)
LONG = il.UserMessage(content="a private matter " * 40)
HISTORY = (LONG, il.AssistantMessage(content=(il.TextBlock(text="I see. " * 40),), stop_reason="stop")) * 3


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[str, Server]]:
    started = {name: Server().start() for name in PLACES}
    yield started
    for server in started.values():
        server.stop()


@pytest.fixture(autouse=True)
def clear(servers: dict[str, Server]) -> None:
    for server in servers.values():
        server.clear()


def client_of(servers: dict[str, Server]) -> Client:
    """Three providers, each with a server, a variable and a header of its own."""
    rows = [
        Provider(
            id=name,
            label=name,
            api=api,
            base_url=servers[name].base_url(api),
            env=(f"{name.upper()}_KEY",),
            headers={"X-Row": f"row-header-of-{name}"},
        )
        for name, api in WIRES.items()
    ]
    return Client(connectors=builtin_connectors(rows=rows), retry=QUICK)


# --- any call --------------------------------------------------------------------------------------------------------


class Given(NamedTuple):
    """A model as somebody names it. Every text that is secret tells whose it is; `home` is where it is served."""

    provider: str
    id: str
    described: bool  # as a ModelDescriptor
    own_place: str | None  # the address in that description
    key: bool
    headers: bool
    address: str | None  # beside the model, as its `base_url`

    @property
    def home(self) -> str:
        return (self.own_place if self.described else None) or self.provider

    def model(self, servers: dict[str, Server]) -> str | il.ModelDescriptor:
        if not self.described:
            return f"{self.provider}/{self.id}"
        base = servers[self.own_place].base_url(WIRES[self.provider]) if self.own_place else None
        headers = {"X-Model": f"model-header-of-{self.id}"}
        return il.ModelDescriptor(id=self.id, provider=self.provider, base_url=base, headers=headers)

    def access(self, servers: dict[str, Server]) -> dict[str, Any]:
        given = {
            "api_key": f"given-key-of-{self.id}" if self.key else None,
            "headers": {"X-Given": f"given-header-of-{self.id}"} if self.headers else None,
            "base_url": servers[self.address].base_url(WIRES[self.provider]) if self.address else None,
        }
        return {name: value for name, value in given.items() if value is not None}

    def fallback(self, servers: dict[str, Server]) -> Any:
        access = self.access(servers)
        return {"model": self.model(servers), **access} if access else self.model(servers)


def models(prefix: str, providers: Any = tuple(WIRES)) -> Any:
    place = st.none() | st.sampled_from(["private", "other"])
    return st.builds(
        lambda provider, **rest: Given(provider, f"{prefix}-{provider}", **rest),
        st.sampled_from(providers),
        described=st.booleans(),
        own_place=place,
        key=st.booleans(),
        headers=st.booleans(),
        address=place,
    )


FAULTS = st.lists(
    st.one_of(
        st.builds(Status, st.sampled_from([401, 413, 500, 503, 529]), times=st.integers(1, 2)),
        st.builds(RateLimit, ms=st.integers(0, 3), times=st.integers(1, 2)),
    ),
    max_size=2,
)


class Call(NamedTuple):
    """A call with everything that may be given with it."""

    first: Given
    fallbacks: list[Given]
    faults: dict[str, list[Any]]
    by_function: bool  # keys come from `get_api_key`
    summary: Given | None  # who sums up, if not the agent's own model

    def owner(self, one: Given) -> Given:
        """Whose access leads to a model: its own; but the agent's, for a summary by a model of the same home."""
        bare = not (one.key or one.headers or one.address)
        same = (one.provider, one.home) == (self.first.provider, self.first.home)
        return self.first if one is self.summary and bare and same else one

    def place(self, one: Given) -> str:
        return self.owner(one).address or one.home

    def secrets(self, one: Given) -> set[str]:
        owner = self.owner(one)
        key = f"given-key-of-{owner.id}" if owner.key else ENV[f"{one.provider.upper()}_KEY"]
        return {
            f"function-key-of-{one.provider}" if self.by_function else key,
            f"row-header-of-{one.provider}",
            *((f"given-header-of-{owner.id}",) if owner.headers else ()),
            *((f"model-header-of-{one.id}",) if one.described else ()),
        }


calls = st.builds(
    lambda first, fallbacks, faults, by_function, summary: Call(
        first,
        [one._replace(id=f"{one.id}-{at}") for at, one in enumerate(fallbacks)],
        faults,
        by_function,
        summary,
    ),
    models("first"),
    st.lists(models("next"), max_size=3),
    st.fixed_dictionaries(dict.fromkeys(PLACES, FAULTS)),
    st.booleans(),
    st.none() | models("summary"),
)


def options(call: Call, servers: dict[str, Server]) -> dict[str, Any]:
    hook = {"get_api_key": lambda provider: f"function-key-of-{provider}"} if call.by_function else {}
    fallbacks = [one.fallback(servers) for one in call.fallbacks]
    return {**call.first.access(servers), **hook, "fallbacks": fallbacks, "env": ENV, "timeout": 20}


def prepare(call: Call, servers: dict[str, Server]) -> None:
    for name, server in servers.items():
        server.clear()
        server.answer("All is well, and this is what was said.", fault=call.faults[name])


def check(call: Call, servers: dict[str, Server]) -> int:
    """Every request is where its model is served, and carries what belongs there and nothing else."""
    known = {one.id: one for one in (call.first, *call.fallbacks, *((call.summary,) if call.summary else ()))}
    for place, server in servers.items():
        for received in server.requests:
            one = known[received.json["model"]]
            assert call.place(one) == place
            assert call.secrets(one) == secrets_in(received)
    return sum(len(server.requests) for server in servers.values())


def secrets_in(received: Received) -> set[str]:
    """Whatever in a request was marked as somebody's."""
    texts = [*received.headers.values(), received.path, received.body.decode()]
    tokens = " ".join(texts).replace('"', " ").split()
    return {word for word in tokens if "key-of-" in word or "header-of-" in word}


@settings(max_examples=80)
@given(call=calls)
async def test_every_request_carries_only_what_belongs_to_its_provider(call: Call, servers: dict[str, Server]) -> None:
    """Whatever mix of keys, addresses, headers, fallbacks and failures: each server sees its own, and no other's."""
    prepare(call, servers)
    stream = client_of(servers).stream(call.first.model(servers), "Hi", **options(call, servers))
    await stream.result()
    assert check(call, servers) >= 1


@settings(max_examples=60)
@given(call=calls, by_hand=st.booleans())
async def test_a_summary_is_asked_for_as_the_agent_asks(call: Call, by_hand: bool, servers: dict[str, Server]) -> None:
    """Automatic or not, the private history goes where the agent's own questions go, with the same key and headers.

    Unless another model sums up: then to that one, and only with what is its own.
    """
    prepare(call, servers)
    agent = Agent(
        call.first.model(servers),
        messages=HISTORY,
        client=client_of(servers),
        compaction=Compaction(
            window=100, reserve=50, keep=10, model=call.summary.fallback(servers) if call.summary else None
        ),
        **options(call, servers),
    )
    if by_hand:
        with contextlib.suppress(il.InterlinguaError):  # nobody could sum up
            await agent.compact()
    await agent.prompt("And now?")
    assert check(call, servers) >= 2


# --- one by one ------------------------------------------------------------------------------------------------------


async def test_a_fallback_has_its_own_key_and_address(servers: dict[str, Server]) -> None:
    """Not those of the first model, which cannot be reached."""
    servers["private"].answer(il.Overloaded("busy", status=529))
    servers["bb"].say("From B")
    answer = await client_of(servers).complete(
        "aa/x",
        "Hi",
        fallbacks=["bb/y"],
        api_key="A-KEY",
        base_url=servers["private"].base_url("openai-completions"),
        headers={"X-Secret": "of A"},
        env=ENV,
    )
    assert ("From B", "bb") == (answer.text, answer.provider)
    assert "env-key-of-bb" == servers["bb"].last.headers["x-api-key"]
    assert "X-Secret" not in servers["bb"].last.headers
    assert ["Bearer A-KEY"] * 2 == [received.headers["Authorization"] for received in servers["private"].requests]


async def test_a_fallback_without_a_key_fails_rather_than_take_the_first_models(servers: dict[str, Server]) -> None:
    """The key of the call is not taken for it, and nothing is sent."""
    servers["aa"].answer(il.Overloaded("busy", status=529))
    with pytest.raises(il.AuthFailed, match=r"no key for bb.*a fallback needs its own"):
        await client_of(servers).complete("aa/x", "Hi", fallbacks=["bb/y"], api_key="A-KEY", env={})
    assert [] == servers["bb"].requests


@pytest.mark.parametrize(
    ("fallbacks", "message"),
    [
        ([5], r"not a model.*at fallbacks\[0\]"),
        (["aa/x", {"api_key": "k"}], r"not a model.*at fallbacks\[1\]"),
        ([{"model": "aa/x", "apikey": "k"}], r"apikey.*valid keys: model, api_key, base_url, headers, settings"),
        ([{"model": "aa/x", "headers": ["k"]}], r"Expected `object \| null`.*fallbacks\[0\]"),
    ],
)
def test_a_fallback_that_makes_no_sense_is_refused_at_the_call(fallbacks: Any, message: str) -> None:
    """With its place; an agent refuses it when it is made."""
    with pytest.raises(il.FormatError, match=message):
        Client().stream("aa/x", "Hi", fallbacks=fallbacks)
    with pytest.raises(il.FormatError, match=message):
        Agent("aa/x", fallbacks=fallbacks)


def test_one_fallback_needs_no_list() -> None:
    """A name, a description, or a model with its access."""
    for one in ("aa/x", il.ModelDescriptor(id="x"), {"model": "aa/x", "api_key": "k"}):
        assert 2 == len(chain("bb/y", one))  # type: ignore[arg-type]


def test_no_repr_shows_a_candidates_key() -> None:
    """Neither that of the call nor a fallback's own."""
    made = chain("aa/x", [{"model": "bb/y", "api_key": "B-SECRET"}], CallOptions(api_key="A-SECRET"))
    assert "SECRET" not in repr(made)


async def test_a_redirect_is_an_error_and_takes_no_key_along(servers: dict[str, Server]) -> None:
    """Whatever a server says, the key goes to the address that it was given for."""

    async def redirect(method: str, url: str, headers: Any, body: bytes | None) -> Any:
        sent.append(url)
        return Moved()

    class Moved:
        status = 307
        headers = {"Location": servers["bb"].url}

        async def chunk(self) -> bytes:
            return b""

        def close(self) -> None: ...

    class Moving:
        send = staticmethod(redirect)

    sent: list[str] = []
    client = Client(transport=Moving())
    with pytest.raises(il.ProviderError):
        await client.complete("anthropic/x", "Hi", api_key="A-KEY", base_url="http://a.test", retry=0)
    assert ["http://a.test/v1/messages"] == sent
    assert [] == servers["bb"].requests


async def test_a_key_function_is_asked_for_each_provider_by_its_name(servers: dict[str, Server]) -> None:
    """Before each attempt; where it gives none, the key of the call counts, or the candidate's own."""
    asked: list[str] = []

    async def key(provider: str) -> str | None:
        asked.append(provider)
        return "from-the-function" if provider == "bb" else None

    servers["aa"].answer(il.Overloaded("busy", status=529))
    await client_of(servers).complete("aa/x", "Hi", fallbacks=["bb/y"], api_key="A-KEY", get_api_key=key, env={})
    assert ["aa", "aa", "bb"] == asked
    assert "Bearer A-KEY" == servers["aa"].last.headers["Authorization"]
    assert "from-the-function" == servers["bb"].last.headers["x-api-key"]


@pytest.mark.parametrize("error", [ValueError("my own mistake"), il.InterlinguaError("my own mistake")], ids=repr)
async def test_a_key_function_that_fails_is_an_error_in_the_stream(servers: dict[str, Server], error: Any) -> None:
    """And nothing is sent, not even elsewhere."""

    def key(provider: str) -> str:
        raise error

    stream = client_of(servers).stream("aa/x", "Hi", fallbacks=["bb/y"], get_api_key=key, env=ENV)
    assert "error" == (await stream.result()).stop_reason
    assert "my own mistake" in str(stream.failure)
    assert [] == [*servers["aa"].requests, *servers["bb"].requests]


async def test_the_cost_of_an_answer_is_asked_for_where_the_answer_came_from(servers: dict[str, Server]) -> None:
    """OpenRouter's record: at the address of the description, with the fallback's own key."""
    server = servers["private"]
    base = server.base_url("openai-completions")
    server.route("GET", "/openai-completions/v1/generation", {"data": {"total_cost": 0.5}})
    servers["aa"].answer(il.Overloaded("busy", status=529))
    router = il.ModelDescriptor(id="some/model", provider="openrouter", base_url=base)
    first = il.ModelDescriptor(id="x", provider="anthropic", base_url=servers["aa"].base_url("anthropic-messages"))
    answer = await Client().complete(
        first, "Hi", fallbacks=[{"model": router, "api_key": "R-KEY"}], api_key="A-KEY", retry=0
    )
    assert answer.usage is not None and answer.usage.cost is not None and 0.5 == answer.usage.cost.total
    assert [("POST", "Bearer R-KEY"), ("GET", "Bearer R-KEY")] == [
        (received.method, received.headers["Authorization"]) for received in server.requests
    ]


# --- agents that change their model ----------------------------------------------------------------------------------


async def test_an_agents_key_stays_with_its_provider_when_the_model_changes(servers: dict[str, Server]) -> None:
    """Another provider's model is asked without it; when the first one is back, so is its key."""
    agent = Agent("aa/x", client=client_of(servers), api_key="A-KEY", headers={"X-Secret": "of A"}, env=ENV)
    for model in ("aa/x", "bb/y", "aa/z"):
        agent.model = model
        await agent.prompt("Hi")
    assert ["Bearer A-KEY"] * 2 == [received.headers["Authorization"] for received in servers["aa"].requests]
    assert ["of A"] * 2 == [received.headers["X-Secret"] for received in servers["aa"].requests]
    assert ["env-key-of-bb"] == [received.headers["x-api-key"] for received in servers["bb"].requests]
    assert "X-Secret" not in servers["bb"].last.headers


async def test_a_key_that_is_set_after_the_change_is_the_new_models(servers: dict[str, Server]) -> None:
    """Options may be changed as ever."""
    agent = Agent("aa/x", client=client_of(servers), api_key="A-KEY", env=ENV)
    agent.model = "bb/y"
    agent.options["api_key"] = "B-KEY"
    await agent.prompt("Hi")
    assert "B-KEY" == servers["bb"].last.headers["x-api-key"]


async def test_a_sub_agent_of_another_provider_gets_nothing_of_its_parents_access(
    servers: dict[str, Server], tmp_path: Any
) -> None:
    """Neither by the model of its task nor by a change of the session's model."""
    async with AgentHost(
        "aa/x", client=client_of(servers), home=tmp_path, api_key="A-KEY", headers={"X-Secret": "of A"}, env=ENV
    ) as host:
        run = await host.spawn("Look it up", model="bb/y")
        assert run.work is not None
        await run.work
        await host.run("Hi", "one")
        host.set_model("one", "cc/z")
        await host.run("Hi", "one")
        host.set_model("one", "default")
        await host.run("Hi", "one")
    assert ["Bearer A-KEY"] * 2 == [received.headers["Authorization"] for received in servers["aa"].requests]
    for name in ("bb", "cc"):
        assert [] == [word for word in secrets_or_keys(servers[name]) if "A-KEY" in word or "of A" in word]
        assert 1 == len(servers[name].requests)


def secrets_or_keys(server: Server) -> list[str]:
    return [value for received in server.requests for value in received.headers.values()]


async def test_a_connector_of_ones_own_is_told_only_its_own_access(servers: dict[str, Server]) -> None:
    """Also as a fallback: it is foreign code."""
    seen: list[StreamOptions] = []

    class Own:
        id, label, provider, api, models, env_vars = "own/one", "Own", "own", "own", (), ()

        async def stream(self, model: Any, context: Any, options: Any = None) -> Any:
            seen.append(options)
            for event in unfold(il.AssistantMessage(content=(il.TextBlock(text="mine"),), stop_reason="stop")):
                yield event

    client = client_of(servers)
    client.connectors.register(Own())
    servers["aa"].answer(il.Overloaded("busy", status=529))
    given = {"api_key": "A-KEY", "headers": {"X-Secret": "of A"}, "base_url": servers["aa"].base_url(WIRES["aa"])}
    own = {"model": "own/m", "headers": {"X-Own": "mine"}}
    answer = await client.complete("aa/x", "Hi", fallbacks=[own], **given)
    assert "mine" == answer.text
    assert [(None, None, {"X-Own": "mine"})] == [(one.api_key, one.base_url, one.headers) for one in seen]


# --- the user's file -------------------------------------------------------------------------------------------------


def test_a_model_like_one_of_another_provider_shares_its_facts_and_not_its_ways(tmp_path: Any) -> None:
    """Headers and address of that provider are not sent, or sent to, in another's name."""
    from interlingua.connect.models import Catalogue, load_overrides
    from interlingua.connect.prices import PriceSheet

    file = tmp_path / "models.toml"
    file.write_text(
        """
[providers.acme]
api = "openai-completions"
[[providers.acme.models]]
id = "large"
context_window = 9
base_url = "https://acme.example"
headers = { Authorization = "Bearer acme" }
[[providers.acme.models]]
id = "small"
like = "acme/large"
[providers.mine]
api = "openai-completions"
[[providers.mine.models]]
id = "copy"
like = "acme/large"
"""
    )
    known = Catalogue(PriceSheet(()), load_overrides(file))
    copy, small = known.describe("mine", "copy"), known.describe("acme", "small")
    assert copy is not None and small is not None
    assert (9, None, None) == (copy.context_window, copy.base_url, copy.headers)
    assert (9, "https://acme.example") == (small.context_window, small.base_url)
