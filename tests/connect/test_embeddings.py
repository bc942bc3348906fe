"""Vectors of texts, over every wire that makes them: order, batches, usage, errors; offline without a provider."""

import asyncio
import math
from typing import Any

import pytest

import interlingua as il
from interlingua.connect.client import default_client
from interlingua.connect.names import embedding_name
from interlingua.testing import Server


def vector_of(text: str) -> list[float]:
    return [float(len(text)), 0.5]


def openai(received: Any) -> Any:
    texts = received.json["input"]
    rows = [{"object": "embedding", "index": at, "embedding": vector_of(text)} for at, text in enumerate(texts)]
    return {
        "object": "list",
        "data": rows[::-1],
        "model": "m",
        "usage": {"prompt_tokens": len(texts), "total_tokens": 9},
    }


def google(received: Any) -> Any:
    texts = [one["content"]["parts"][0]["text"] for one in received.json["requests"]]
    return {"embeddings": [{"values": vector_of(text)} for text in texts]}


def ollama(received: Any) -> Any:
    return {"model": "m", "embeddings": [vector_of(text) for text in received.json["input"]], "prompt_eval_count": 3}


def titan(received: Any) -> Any:
    return {"embedding": vector_of(received.json["inputText"]), "inputTextTokenCount": 2}


def cohere(received: Any) -> Any:
    assert received.json["input_type"] == "search_document"
    vectors = [vector_of(text) for text in received.json["texts"]]
    return {"embeddings": vectors if len(vectors) > 1 else {"float": vectors, "int8": [[1, 2]]}}


WIRES = [
    ("openai-completions", "m-1", "/embeddings", openai),
    ("openai-responses", "m-1", "/embeddings", openai),
    ("google-generative-ai", "m-1", "/models/m-1:batchEmbedContents", google),
    ("ollama-chat", "m-1", "/api/embed", ollama),
    ("bedrock-converse-stream", "amazon.titan-embed-text-v2", "/model/amazon.titan-embed-text-v2/invoke", titan),
    ("bedrock-converse-stream", "cohere.embed-v4", "/model/cohere.embed-v4/invoke", cohere),
]


def serving(server: Server, api: str, id: str, path: str, reply: Any) -> il.ModelDescriptor:
    base = server.base_url(api)
    server.route("POST", base.removeprefix(server.url) + path, reply)
    return il.ModelDescriptor(id=id, api=api, provider="test", base_url=base)


@pytest.mark.parametrize(
    ("api", "id", "path", "reply"), WIRES, ids=[row[1] if row[0].startswith("bedrock") else row[0] for row in WIRES]
)
async def test_each_text_has_its_vector_in_order(api: str, id: str, path: str, reply: Any) -> None:
    """Whatever the order of the answer, and however many requests it took."""
    async with Server() as server:
        model = serving(server, api, id, path, reply)
        texts = ["a" * (at + 1) for at in range(7)]
        found = await il.embed(model, texts, api_key="k", batch=3)
        assert [vector_of(text) for text in texts] == [list(vector) for vector in found.vectors]
        assert (7, id) == (len(found), found.model)


async def test_usage_is_added_up() -> None:
    """Over all requests; unknown where the wire does not tell."""
    async with Server() as server:
        model = serving(server, "openai-completions", "m-1", "/embeddings", openai)
        found = await il.embed(model, ["a", "b", "c"], api_key="k", batch=2)
        assert found.usage is not None
        assert 3 == found.usage.input
        found = await il.embed(serving(server, *WIRES[-2]), ["a", "b", "c"], api_key="k")
        assert found.usage is not None
        assert 6 == found.usage.input
        model = serving(server, "google-generative-ai", "m-1", "/models/m-1:batchEmbedContents", google)
        assert (await il.embed(model, "a", api_key="k")).usage is None


async def test_the_price_of_a_known_model_is_known() -> None:
    """As for answers."""
    async with Server() as server:
        base = server.base_url("openai-completions")
        server.route("POST", base.removeprefix(server.url) + "/embeddings", openai)
        price = il.values.request.ModelCost(input=1.0, output=0, cache_read=0, cache_write=0)
        model = il.ModelDescriptor(id="m", api="openai-completions", provider="test", base_url=base, cost=price)
        found = await il.embed(model, ["a", "b"], api_key="k")
        assert found.usage is not None
        assert found.usage.cost is not None
        assert math.isclose(2e-6, found.usage.cost.total)


async def test_wanted_dimensions_are_asked_for() -> None:
    """In the wire's own term."""
    async with Server() as server:
        model = serving(server, "openai-completions", "m-1", "/embeddings", openai)
        await il.embed(model, "a", api_key="k", dimensions=2)
        assert 2 == server.last.json["dimensions"]
        assert "Bearer k" == server.last.headers["Authorization"]
        for *of, field in ((*WIRES[-1], "output_dimension"), (*WIRES[-2], "dimensions")):
            model = serving(server, *of)
            await il.embed(model, "a", api_key="k", dimensions=2)
            assert 2 == server.last.json[field]
            await il.embed(model, "a", api_key="k")
            assert field not in server.last.json


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        ((401, {"error": {"message": "bad key"}}), il.AuthFailed),
        ((429, {"error": {"message": "slow down"}}), il.RateLimited),
        ((400, {"error": {"message": "no"}}), il.BadRequest),
        ((200, {"data": []}), il.BadWire),
        ((200, {"nothing": 1}), il.BadWire),
        ((200, [1]), il.BadWire),
    ],
)
async def test_failures_are_typed(reply: Any, error: type[Exception]) -> None:
    """As for answers: never an empty success."""
    async with Server() as server:
        model = serving(server, "openai-completions", "m-1", "/embeddings", reply)
        with pytest.raises(error):
            await il.embed(model, "a", api_key="k", retry=0)


async def test_a_failure_that_may_pass_is_tried_again() -> None:
    """Each request on its own: what came before is not asked for twice."""
    seen: list[int] = []

    def reply(received: Any) -> Any:
        seen.append(len(received.json["input"]))
        return (500, {"error": {"message": "oops"}}) if len(seen) == 2 else openai(received)

    async with Server() as server:
        model = serving(server, "openai-completions", "m-1", "/embeddings", reply)
        retry = il.Retry(attempts=3, base=0.001)
        found = await il.embed(model, ["a", "b", "c"], api_key="k", batch=2, retry=retry)
        assert 3 == len(found)
        assert [2, 1, 1] == seen


@pytest.mark.parametrize(
    ("texts", "options", "message"),
    [
        ([], {}, "nothing to embed"),
        ([""], {}, "empty text"),
        (["a", 5], {}, "texts are strings"),
        (5, {}, "texts are strings"),
        ("a", {"dimensions": 0}, "at least 1"),
        ("a", {"batch": 0}, "at least 1"),
        ("a", {"temperature": 1}, "'temperature' for embeddings"),
        ("a", {"dimensionz": 1}, "did you mean 'dimensions'"),
        ("a", {"on_response": print}, "'on_response' for embeddings"),
    ],
)
async def test_wrong_input_is_refused_before_anything_is_sent(texts: Any, options: Any, message: str) -> None:
    """With what is wrong."""
    with pytest.raises(il.InterlinguaError, match=message):
        await il.embed("debug/embed-1", texts, **options)


def test_there_are_vectors_without_a_network() -> None:
    """The same for the same text, closer for similar ones, each of length 1."""
    found = il.sync.embed("debug/embed-1", ["the red cat", "the red dog", "something else entirely", "the red cat"])
    same, near, far, again = found.vectors
    assert same == again
    assert math.isclose(1.0, math.hypot(*same))
    assert sum(a * b for a, b in zip(same, near, strict=True)) > sum(a * b for a, b in zip(same, far, strict=True))
    assert 8 == len(il.sync.embed("debug/embed-1", "x", dimensions=8).vectors[0])


def test_a_provider_without_embeddings_says_so() -> None:
    """Before anything is sent."""
    with pytest.raises(il.InterlinguaError, match="no embeddings"):
        asyncio.run(il.embed("anthropic/claude-opus-4-6", "a", api_key="k"))
    with pytest.raises(il.InterlinguaError, match="embed-1"):
        asyncio.run(il.embed("debug/parrot-1", "a"))


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("text-embedding-3-small", "openai/text-embedding-3-small"),
        ("text-embedding-ada", "openai/text-embedding-ada"),  # a further spelling of the price list
        ("gemini-embedding-001", "google/gemini-embedding-001"),
        ("embed-v4.0", "cohere/embed-v4.0"),
        ("amazon.titan-embed-text-v2:0", "amazon-bedrock/amazon.titan-embed-text-v2:0"),
        ("nomic-embed-text:v1.5", "ollama/nomic-embed-text:v1.5"),
        ("embed-1", "debug/embed-1"),
        ("mistral/anything", "mistral/anything"),
    ],
)
def test_a_bare_name_means_the_provider_that_makes_the_model(name: str, meant: str) -> None:
    """As for models that answer."""
    assert meant == embedding_name(name, default_client().connectors, has_key=lambda provider: False)


def test_a_key_decides_between_providers_that_make_vectors() -> None:
    """A door of the same company that makes none does not count."""
    connectors = default_client().connectors
    for keyed, chosen in [("azure-openai", "azure-openai"), ("openai-codex", "openai")]:
        found = embedding_name("text-embedding-3-small", connectors, has_key=keyed.__eq__)
        assert f"{chosen}/text-embedding-3-small" == found


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("text-embedding-3-smal", "did you mean 'text-embedding-3-small'"),
        ("gpt-5", "unknown embedding model 'gpt-5'; write provider/model"),
    ],
)
def test_an_unknown_name_is_refused_with_what_may_be_meant(name: str, message: str) -> None:
    """Also that of a model that answers: it makes no vectors."""
    with pytest.raises(il.InterlinguaError, match=message):
        il.sync.embed(name, "a", api_key="k")


async def test_a_bare_name_is_asked_at_its_provider() -> None:
    """All the way."""
    async with Server() as server:
        base = server.base_url("openai-responses")
        server.route("POST", base.removeprefix(server.url) + "/embeddings", openai)
        found = await il.embed("text-embedding-3-small", ["ab"], api_key="k", base_url=base)
        assert ("openai", ((2.0, 0.5),)) == (found.provider, found.vectors)
