"""What people type for a model, and which provider and id it means."""

from collections.abc import Callable
from pathlib import Path

import pytest

import interlingua as il
from interlingua.connect import models
from interlingua.connect.auth.credentials import Credential, CredentialStore, Secret
from interlingua.connect.auth.resolver import resolve_auth
from interlingua.connect.client import Client
from interlingua.connect.models import PROVIDERS
from interlingua.connect.names import Spelling, full_name, is_chat
from interlingua.connect.registry import ConnectorRegistry
from interlingua.testing import Server

Resolve = Callable[..., str]


@pytest.fixture
def resolve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Resolve:
    """Resolves a name on a machine with keys for these providers."""
    monkeypatch.setenv("INTERLINGUA_HOME", str(tmp_path))
    models.reload()
    connectors = Client().connectors
    return lambda name, *keys: full_name(name, connectors, has_key=lambda provider: provider in keys)


def newest(provider: str, *parts: str) -> str:
    """The id with the highest version of those that have exactly these words, as a plain search finds it."""
    ids = [model.id for model in models.models(provider)]
    found = [one for one in ids if Spelling.of(one).parts == parts and Spelling.of(one).version]
    return f"{provider}/{max(found, key=lambda one: (Spelling.of(one).version, 'preview' not in one))}"


@pytest.mark.parametrize(
    ("name", "provider", "parts"),
    [
        ("sonnet", "anthropic", ("claude", "sonnet")),
        ("Opus", "anthropic", ("claude", "opus")),
        ("claude-haiku", "anthropic", ("claude", "haiku")),
        ("gpt-mini", "openai", ("gpt", "mini")),
        ("gpt", "openai", ("gpt",)),
        ("flash", "google", ("gemini", "flash")),
        ("gemini-flash-lite", "google", ("gemini", "flash", "lite")),
        ("grok", "xai", ("grok",)),
        ("gemini-pro", "google", ("gemini", "pro")),  # an id of 2023 as well
        ("mistral-large", "mistral", ("mistral", "large")),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_family_means_its_newest_model_at_the_maker(
    resolve: Resolve, name: str, provider: str, parts: tuple[str, ...]
) -> None:
    """Without any key the maker is asked, and the error then says which key is missing."""
    assert newest(provider, *parts) == resolve(name)


@pytest.mark.parametrize(
    ("name", "keys", "means"),
    [
        ("claude-sonnet-4-5", (), "anthropic/claude-sonnet-4-5"),
        ("claude-sonnet-4-5", ("openrouter",), "openrouter/anthropic/claude-sonnet-4.5"),
        ("claude-sonnet-4-5", ("openrouter", "anthropic"), "anthropic/claude-sonnet-4-5"),
        ("claude-sonnet-4.5", (), "anthropic/claude-sonnet-4-5"),
        ("sonnet-4.5", (), "anthropic/claude-sonnet-4-5"),
        ("claude-3-5-sonnet-20241022", (), "anthropic/claude-3-5-sonnet-20241022"),
        ("claude-3-5-sonnet-20241022", ("amazon-bedrock",), "amazon-bedrock/anthropic.claude-3-5-sonnet-20241022-v2:0"),
        ("gpt-4o-mini", (), "openai/gpt-4o-mini"),
        ("gpt-4o-mini", ("openai-chat",), "openai-chat/gpt-4o-mini"),
        ("claude-sonnet-99", (), "anthropic/claude-sonnet-99"),
        ("ft:gpt-4o-mini:me::1", (), "openai/ft:gpt-4o-mini:me::1"),
        ("llama3.2:3b", (), "ollama/llama3.2:3b"),
        ("parrot-1", (), "debug/parrot-1"),
        ("anthropic/anything at all", (), "anthropic/anything at all"),
        ("openrouter/anthropic/sonnet", (), "openrouter/anthropic/sonnet"),
    ],
    ids=range(15),
)
def test_a_bare_name_goes_to_the_maker_or_to_whoever_has_a_key(
    resolve: Resolve, name: str, keys: tuple[str, ...], means: str
) -> None:
    """A provider with a key first, of those the maker; what names its provider is sent as it is written."""
    assert means == resolve(name, *keys)


def test_a_family_without_its_brand_is_the_same_family_everywhere(resolve: Resolve) -> None:
    """`flash` is Gemini's, also at a host that serves another model of that name in a higher version."""
    assert resolve("flash", "openrouter").startswith("openrouter/google/gemini-")
    assert resolve("flash", "zai").startswith("zai/GLM-")


def test_every_listed_id_means_itself(resolve: Resolve) -> None:
    """At the provider that has a key: no id of a price list is taken for another model, but a family."""
    for provider in ("anthropic", "openai", "google", "mistral", "groq", "deepseek"):
        ids = [id for id, _ in models.default().listed(provider)]
        assert ids
        for id in ids:
            if "/" not in id and not is_family(id, ids):
                assert f"{provider}/{id}" == resolve(id, provider)


def is_family(id: str, ids: list[str]) -> bool:
    """Whether an id is also the name of a family, of which there are versions."""
    asked = Spelling.of(id)
    is_exact = asked.version or asked.date or id.endswith("latest") or len(asked.parts) < 2
    return not is_exact and any(Spelling.of(one).parts == asked.parts and Spelling.of(one).version for one in ids)


@pytest.mark.parametrize("name", ["", "/", "anthropic/", "/claude", "  ", "-", "claude", "💥", "a" * 10_000])
def test_a_name_that_means_nothing_is_an_error(resolve: Resolve, name: str) -> None:
    """Typed, and with what to write instead."""
    with pytest.raises(il.InterlinguaError, match="; "):
        resolve(name)


@pytest.mark.parametrize("name", ["anthropc/claude-opus-4-6", "antropic/gemini-2.5-pro"])
def test_a_misspelled_provider_is_no_part_of_an_id(resolve: Resolve, name: str) -> None:
    """Rules of Google's price list match any id with the name of a model in it."""
    with pytest.raises(il.InterlinguaError, match=r"unknown provider .* did you mean 'anthropic'"):
        resolve(name)


def test_several_hosts_without_a_key_are_not_chosen_from_in_silence(resolve: Resolve) -> None:
    """The candidates are named; a key for one of them decides."""
    with pytest.raises(il.InterlinguaError, match="ambiguous model"):
        resolve("qwen3-32b")
    assert "groq/qwen/qwen3-32b" == resolve("qwen3-32b", "groq")


def test_the_own_aliases_and_models_count_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`models.toml` may take a family's name, and its models have bare names too."""
    monkeypatch.setenv("INTERLINGUA_HOME", str(tmp_path))
    (tmp_path / "models.toml").write_text(
        '[aliases]\nsonnet = "acme/one"\n[providers.acme]\napi = "openai-completions"\n'
        'base_url = "http://127.0.0.1:9/v1"\n[[providers.acme.models]]\nid = "acme-large"\n'
    )
    models.reload()
    connectors = Client().connectors
    assert "acme/one" == full_name("sonnet", connectors)
    assert "acme/acme-large" == full_name("acme-large", connectors)


def test_a_plugin_connector_is_found_by_the_id_of_its_model() -> None:
    """A connector that lists its models needs no provider in the name."""
    own = {"id": "x/y", "provider": "mine", "api": "mine", "stream": lambda *_: (), "models": [{"id": "small"}]}
    assert "mine/small" == full_name("small", ConnectorRegistry([own]))  # type: ignore[list-item]


@pytest.mark.parametrize(("id", "chats"), [("gpt-5", True), ("gpt-4o-mini-tts", False), ("text-embedding-3", False)])
def test_models_that_do_not_chat_are_told_by_their_words(id: str, chats: bool) -> None:
    """Speech, pictures, embeddings."""
    assert chats is is_chat(id)


# --- keys -------------------------------------------------------------------------------------------------------------


def test_a_key_stored_for_openai_serves_openai_chat_and_no_other_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same account at the same address; a row that was sent elsewhere gets no key of another."""
    monkeypatch.setenv("INTERLINGUA_HOME", str(tmp_path))
    store = CredentialStore(env={}, folder=tmp_path)
    key = "sk-" + "stored"
    store.put("openai", Credential(mode="api-key", secret=Secret(key)))
    found = {name: auth.api_key for name in PROVIDERS if (auth := resolve_auth(name, env={"HOME": "/"}, store=store))}
    assert {"openai": key, "openai-chat": key} == found
    (tmp_path / "models.toml").write_text('[providers.openai-chat]\nbase_url = "http://127.0.0.1:9/v1"\n')
    assert resolve_auth("openai-chat", env={}, store=store) is None


# --- servers that are not there ---------------------------------------------------------------------------------------


async def test_ollama_that_is_not_running_is_asked_about() -> None:
    """A refused connection of a server that people start themselves."""
    with Server() as server:
        gone = server.url
    with pytest.raises(il.TransportError, match=r"no connection to Ollama at http://127\.0\.0\.1:\d+; is it running\?"):
        await il.complete("ollama/m", "hi", base_url=gone, retry=0)


@pytest.mark.parametrize(
    ("name", "means"),
    [
        ("mistral-medium-latest", "mistral/mistral-medium-latest"),
        ("mistral-medium-2312", "mistral/mistral-medium-2312"),
        ("codex-mini", "openai/codex-mini"),
        ("google/gemini-pro", "google/gemini-pro"),
        ("bedrock/anthropic.claude-x", "amazon-bedrock/anthropic.claude-x"),
        ("gemini/gemini-2.5-pro", "google/gemini-2.5-pro"),
    ],
)
def test_an_id_that_says_which_model_it_is_stays(resolve: Resolve, name: str, means: str) -> None:
    """With a date, as the provider's own `latest`, or behind the provider's name."""
    assert means == resolve(name)


def test_no_listed_id_without_a_version_hides_a_newer_model_of_its_family(resolve: Resolve) -> None:
    """For every maker: a bare name is never an older model than the family's newest."""
    found = 0
    for provider, row in PROVIDERS.items():
        ids = [one.id for one in models.models(provider)] if row.maker else []
        for id in ids:
            if is_family(id, ids) and is_chat(id):
                assert Spelling.of(resolve(id, provider).partition("/")[2]).version, id
                found += 1
    assert found > 2
