"""Connectors at hand: registered, found, replaced, removed; rows of the user's own; models as rows of a table."""

from pathlib import Path
from typing import Any

import pytest

import interlingua as il
from connect.talking import KEY, Own, ask, saying
from interlingua.connect import models as catalogue
from interlingua.connect.client import Client, builtin_connectors
from interlingua.connect.connector import Connector, HttpConnector
from interlingua.connect.models import deserialize_model, serialize_model
from interlingua.connect.providers import PROVIDERS, ROWS
from interlingua.connect.registry import ConnectorRegistry
from interlingua.testing import Server
from interlingua.values.events import Done, Start, TextDelta, TextEnd, TextStart
from interlingua.values.request import ModelCost


def connector(id: str, provider: str = "p", api: str = "a") -> Any:
    return Own(saying(), id=id, provider=provider, api=api)


# --- the registry, line by line ---------------------------------------------------------------------------------------


def test_register_has_size() -> None:
    """What was registered is there."""
    registry = ConnectorRegistry()
    assert (0, False) == (registry.size, registry.has("x"))
    registry.register(connector("x"))
    assert (1, 1, True, True) == (registry.size, len(registry), registry.has("x"), "x" in registry)


def test_found_by_id_provider_and_api() -> None:
    """Each index knows it."""
    one = connector("x", "p", "a")
    registry = ConnectorRegistry([one])
    assert (one, one, [one]) == (registry.get("x"), registry.get_by_provider("p"), registry.get_by_api("a"))


def test_the_same_id_replaces_in_its_place() -> None:
    """Size stays, the place stays, the object is the new one; in the list of its api it moves to the end."""
    registry = ConnectorRegistry([connector("x"), connector("y", "q")])
    new = connector("x")
    registry.register(new)
    assert 2 == registry.size
    assert new is registry.get("x")
    assert ["x", "y"] == [one.id for one in registry]
    assert ["y", "x"] == [one.id for one in registry.get_by_api("a")]


def test_a_new_api_clears_the_old_one() -> None:
    """Re-registered with another api, it is found there alone."""
    registry = ConnectorRegistry([connector("x", api="a")])
    registry.register(connector("x", api="b"))
    assert ([], ["x"]) == (registry.get_by_api("a"), [one.id for one in registry.get_by_api("b")])


def test_a_new_provider_clears_the_old_one() -> None:
    """Re-registered with another provider, the old one is gone from the list."""
    registry = ConnectorRegistry([connector("x", "p")])
    registry.register(connector("x", "q"))
    assert registry.get_by_provider("p") is None
    assert ["q"] == registry.list_providers()


def test_what_is_unknown_is_none_or_empty() -> None:
    """No exception."""
    registry = ConnectorRegistry([connector("x")])
    assert (None, None, [], []) == (
        registry.get("?"),
        registry.get_by_provider("?"),
        registry.get_by_api("?"),
        registry.find_model("?"),
    )


def test_the_newest_of_a_provider_counts_and_its_removal_restores_the_one_before() -> None:
    """A stack for each provider: nothing that is registered becomes invisible."""
    one, two, three = connector("one"), connector("two"), connector("three")
    registry = ConnectorRegistry([one, two, three])
    assert three is registry.get_by_provider("p")
    assert registry.unregister("three")
    assert two is registry.get_by_provider("p")
    registry.register(connector("two", "elsewhere"))
    assert one is registry.get_by_provider("p")
    assert ["p", "elsewhere"] == registry.list_providers()
    assert registry.unregister("one")
    assert registry.get_by_provider("p") is None
    assert ["elsewhere"] == registry.list_providers()


def test_registering_again_makes_a_connector_the_newest() -> None:
    """The last registration counts, replacements included."""
    one = connector("one")
    registry = ConnectorRegistry([one, connector("two")])
    registry.register(one)
    assert one is registry.get_by_provider("p")


def test_all_of_an_api_in_order_of_registration() -> None:
    """And an empty list for an api nobody speaks."""
    registry = ConnectorRegistry([connector("x"), connector("y", api="b"), connector("z")])
    assert ["x", "z"] == [one.id for one in registry.get_by_api("a")]


def test_list_iteration_and_spread() -> None:
    """In order of registration; an empty registry gives nothing; changes while iterating do no harm."""
    assert [] == [*ConnectorRegistry()]
    registry = ConnectorRegistry([connector("c"), connector("a"), connector("b")])
    assert ["c", "a", "b"] == [one.id for one in registry] == [one.id for one in registry.list()]
    for one in registry:
        registry.unregister(one.id)
    assert 0 == registry.size


def test_providers_are_listed_once_in_order() -> None:
    """First seen, first."""
    registry = ConnectorRegistry([connector("x", "q"), connector("y", "p"), connector("z", "q")])
    assert ["q", "p"] == registry.list_providers()


def test_unregister_tells_whether_there_was_one() -> None:
    """And every index forgets it."""
    registry = ConnectorRegistry([connector("x")])
    assert [True, False] == [registry.unregister("x"), registry.unregister("x")]
    assert (None, [], []) == (registry.get_by_provider("p"), registry.get_by_api("a"), registry.list_providers())


def test_clear_empties_everything() -> None:
    """And it can be used again."""
    registry = ConnectorRegistry([connector("x"), connector("y")])
    registry.clear()
    assert (0, [], None, []) == (
        registry.size,
        registry.list(),
        registry.get_by_provider("p"),
        registry.get_by_api("a"),
    )
    registry.register(connector("x"))
    assert 1 == registry.size


def test_a_model_is_found_across_connectors() -> None:
    """Every connector that lists it."""
    registry = ConnectorRegistry([connector("x"), connector("y", "q")])
    assert ["x", "y"] == [one.id for one, _ in registry.find_model("m")]


# --- the built-in ones ------------------------------------------------------------------------------------------------


def test_every_row_has_a_connector() -> None:
    """Each with all that a connector has, an id after its provider, and its variables; the debug connector is last."""
    registry = builtin_connectors()
    assert [*(f"builtin/{row.id}" for row in ROWS), "builtin/clawfice-debug", "builtin/debug"] == [
        one.id for one in registry
    ]
    for one in registry:
        assert isinstance(one, Connector)
        assert all((one.label, one.provider, one.api))
    assert all(registry.get(f"builtin/{row.id}").env_vars == row.env for row in ROWS)  # type: ignore[union-attr]
    assert len(ROWS) == len({row.id for row in ROWS})


def test_the_providers_that_clawtools_users_know_are_there() -> None:
    """Under the same names, and each with the label people read."""
    names = (
        "amazon-bedrock anthropic azure-openai-responses cerebras github-copilot google google-gemini-cli "
        "google-vertex groq huggingface kimi-coding minimax minimax-cn mistral openai openai-codex openrouter "
        "vercel-ai-gateway xai zai"
    )
    assert [] == [name for name in names.split() if builtin_connectors().get_by_provider(name) is None]


@pytest.mark.parametrize(("provider", "least"), [("anthropic", 10), ("openai", 20), ("openrouter", 50)])
def test_the_catalogue_fills_the_connectors(provider: str, least: int) -> None:
    """Models with window, limits and the four prices; ids are unique."""
    one = builtin_connectors().get_by_provider(provider)
    assert one is not None
    models = one.models
    assert least <= len(models)
    assert len(models) == len({model.id for model in models})
    assert all(model.provider == provider and model.api for model in models)
    assert any(model.context_window and model.cost for model in models)


def test_registries_are_isolated() -> None:
    """Clients share no registry."""
    one, two = Client(), Client()
    one.connectors.unregister("builtin/anthropic")
    assert two.connectors.has("builtin/anthropic")
    assert not one.connectors.has("builtin/anthropic")


async def test_a_registered_connector_takes_over_a_provider_and_gives_it_back() -> None:
    """A connector of one's own for a built-in provider; removed, the built-in one answers again."""
    client = Client()
    message = il.AssistantMessage(content=())
    mine = saying(Start(), TextStart(0), TextDelta(0, "mine"), TextEnd(0, "mine"), Done("stop", message))
    client.connectors.register(Own(mine, id="mine/anthropic", provider="anthropic", api="anthropic-messages"))
    assert "mine" == (await client.stream("anthropic/m", "Hi").result()).text
    client.connectors.unregister("mine/anthropic")
    with Server() as server:
        assert "Hi" == (await ask(server, client=client).result()).text


# --- finding a model --------------------------------------------------------------------------------------------------


def test_a_model_by_name_needs_a_provider_unless_one_alone_has_it() -> None:
    """`provider/id`; a bare id that one connector lists; otherwise an error that names the candidates."""
    client = Client(connectors=ConnectorRegistry([connector("x", "p"), connector("y", "q")]))
    assert ("q", "m") == (client.find("q/m")[0].provider, client.find("q/m")[1].id)
    with pytest.raises(il.InterlinguaError, match="ambiguous model 'm'; name the provider, as in p/m or q/m"):
        client.find("m")
    client.connectors.unregister("x")
    assert "q" == client.find("m")[0].provider


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("antropic/m", "did you mean 'anthropic'"),
        ("nobody/m", "valid providers: "),
        ("xyzzy", "write provider/model"),
        ("claude-sonet", "did you mean 'claude-sonnet-"),
        ("debug/parot-1", "did you mean 'parrot-1'"),
    ],
)
def test_a_model_that_cannot_be_found_is_explained(name: str, says: str) -> None:
    """What was asked, and what to write instead."""
    with pytest.raises(il.InterlinguaError, match=says):
        Client().find(name)


def test_ids_may_contain_slashes() -> None:
    """Only the first one parts provider and model."""
    assert "meta-llama/llama-4:free" == Client().find("openrouter/meta-llama/llama-4:free")[1].id


def test_what_the_caller_says_of_a_model_counts() -> None:
    """Edits of a known model are not overruled by the catalogue."""
    model = il.ModelDescriptor(id="claude-x", provider="anthropic", base_url="http://here", max_tokens=7)
    found = Client().find(model)[1]
    assert ("http://here", 7, "anthropic-messages") == (found.base_url, found.max_tokens, found.api)


async def test_any_compatible_server_by_its_address() -> None:
    """A model with an api and a base URL needs no row, and no key."""
    with Server() as server:
        model = il.ModelDescriptor(id="m", api="openai-completions", base_url=server.base_url("openai-completions"))
        message = await Client().complete(model, "Hi")
        assert ("Hi", "m") == (message.text, message.model)
        assert "Authorization" not in server.last.headers


# --- rows of the user's own -------------------------------------------------------------------------------------------

NOTES = """
[aliases]
fast = "acme/acme-large"

[providers.acme]
api = "openai-completions"
base_url = "{url}"
env = ["ACME_KEY"]
headers = {{ X-Team = "blue" }}

[[providers.acme.models]]
id = "acme-large"
context_window = 32000
cost = {{ input = 1.0, output = 2.0 }}

[providers.anthropic]
headers = {{ X-Via = "proxy" }}
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("INTERLINGUA_HOME", str(tmp_path))
    catalogue.reload()
    yield tmp_path
    catalogue.reload()


async def test_a_provider_of_the_user_s_own_file(home: Path) -> None:
    """Called by name and by alias, with its key, its header and its prices."""
    with Server() as server:
        (home / "models.toml").write_text(NOTES.format(url=server.base_url("openai-completions")))
        client = Client()
        for name in ("acme/acme-large", "fast"):
            message = await client.complete(name, "Hi", env={"ACME_KEY": KEY})
            assert ("Hi", "acme", "acme-large") == (message.text, message.provider, message.model)
            assert message.usage is not None
            assert message.usage.cost is not None
            assert message.usage.cost.total
        assert ("blue", f"Bearer {KEY}") == (server.last.headers["X-Team"], server.last.headers["Authorization"])
        assert "builtin/acme" in client.connectors
        await ask(server, client=client).result()
        assert "proxy" == server.last.headers["X-Via"]
        assert KEY == server.last.headers["x-api-key"]


async def test_a_mistake_in_the_file_is_an_error_that_names_the_line(home: Path) -> None:
    """When the client is made."""
    (home / "models.toml").write_text('[providers.acme]\nbase_ulr = "x"\n')
    with pytest.raises(il.FormatError, match="line 2"):
        Client()


async def test_an_alias_may_be_added_while_the_program_runs(home: Path) -> None:
    """The file is read again when it has changed."""
    client = Client()
    (home / "models.toml").write_text('[aliases]\necho = "debug/parrot-1"\n')
    assert "Hi" == (await client.complete("echo", "Hi")).text


def test_a_new_provider_is_one_row() -> None:
    """Registering it is all there is to do."""
    from interlingua.connect.providers import Provider

    row = Provider(id="new", label="New", api="openai-completions", base_url="https://new.example/v1", env=("NEW_KEY",))
    registry = ConnectorRegistry([HttpConnector(row)])
    assert ("new", "openai-completions") == (
        registry.list_providers()[0],
        Client(connectors=registry).find("new/m")[1].api,
    )
    assert "new" not in PROVIDERS


# --- models as rows of a table ----------------------------------------------------------------------------------------

FULL = il.ModelDescriptor(
    id="m",
    name="M",
    api="openai-completions",
    provider="p",
    base_url="http://here",
    reasoning=True,
    input=("text", "image"),
    cost=ModelCost(input=1, output=2.5, cache_read=0.1, cache_write=0),
    context_window=1000,
    max_tokens=100,
    headers={"X-A": "b"},
    compat={"maxTokensField": "max_tokens", "nested": {"keyHere": 1}},
)
ROW = {
    "id": "m",
    "name": "M",
    "api": "openai-completions",
    "provider": "p",
    "base_url": "http://here",
    "reasoning": True,
    "input": ["text", "image"],
    "cost": {"input": 1, "output": 2.5, "cache_read": 0.1, "cache_write": 0},
    "context_window": 1000,
    "max_tokens": 100,
    "headers": {"X-A": "b"},
    "compat": {"maxTokensField": "max_tokens", "nested": {"keyHere": 1}},
}


def test_a_model_and_its_row_are_equal_both_ways() -> None:
    """Every field; the renamed ones under their new name alone; what passes through is untouched."""
    assert ROW == serialize_model(FULL)
    assert FULL == deserialize_model(ROW)
    assert FULL == deserialize_model(serialize_model(FULL))


def test_absent_fields_have_no_key_in_either_form() -> None:
    """Only what is known is said."""
    bare = il.ModelDescriptor(id="m", api="a", provider="p")
    assert {"id": "m", "api": "a", "provider": "p"} == serialize_model(bare)
    assert bare == deserialize_model({"id": "m", "api": "a", "provider": "p"})


def test_nulls_are_absent_and_other_columns_ignored() -> None:
    """Rows of a database have both."""
    row = {**dict.fromkeys(ROW), "id": "m", "api": "a", "provider": "p", "row_number": 7}
    assert il.ModelDescriptor(id="m", api="a", provider="p") == deserialize_model(row)


@pytest.mark.parametrize(
    "row", [{}, {"id": 7}, {"id": "m", "cost": 5}, {"id": "m", "cost": {"input": 1}}, {"id": "m", "input": "text"}]
)
def test_a_row_that_is_no_model_is_refused(row: dict[str, Any]) -> None:
    """With the place of the mistake."""
    with pytest.raises(il.FormatError, match="not a model"):
        deserialize_model(row)


NOTES_OF_ONE = """
[[providers.openai.models]]
id = "odd-1"
api = "openai-completions"
base_url = "{url}"
headers = {{ X-Mine = "yes" }}
compat = {{ maxTokensField = "max_tokens" }}
"""


@pytest.mark.parametrize("kind", ["a model of one's own", "a correction"])
async def test_a_model_of_the_user_s_file_may_speak_another_wire_in_its_own_way(home: Path, kind: str) -> None:
    """`api`, `compat`, `base_url` and `headers` of one model count before those of its provider."""
    notes = NOTES_OF_ONE
    if kind == "a correction":
        notes = notes.replace('[[providers.openai.models]]\nid = "odd-1"', '[providers.openai.overrides."odd-1"]')
    with Server() as server:
        (home / "models.toml").write_text(notes.format(url=server.base_url("openai-completions")))
        answer = await Client().complete("openai/odd-1", "Hi", api_key=KEY, max_tokens=9, retry=0)
        sent = server.last
    assert ("Hi", "openai-completions") == (answer.text, answer.api)
    assert ("/chat/completions", "yes") == (sent.path[-17:], sent.headers["X-Mine"])
    assert (9, None) == (sent.json.get("max_tokens"), sent.json.get("max_completion_tokens"))


async def test_what_the_caller_describes_counts_before_the_user_s_file(home: Path) -> None:
    """A description with another wire is taken at its word."""
    api = "anthropic-messages"
    with Server() as server:
        (home / "models.toml").write_text('[providers.openai.overrides."odd-1"]\napi = "openai-completions"\n')
        model = il.ModelDescriptor(id="odd-1", provider="openai", api=api, base_url=server.base_url(api))
        answer = await Client().complete(model, "Hi", api_key=KEY, retry=0)
    assert ("Hi", api) == (answer.text, answer.api)
