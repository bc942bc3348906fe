"""Batches: the journal, the cutting into parts, lost replies; and the test server, checked with the official SDKs."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import interlingua as il
from connect.batch_server import KEY, BatchServer
from interlingua.connect.batch import Batch, Journal, Row, rows_of
from interlingua.connect.batch_apis import BATCH_APIS
from interlingua.values.canonical import plain
from interlingua.values.request import CallOptions, Options

CASES = {
    "openai": ("openai/gpt-4.1", "/v1"),
    "openai-chat": ("openai-chat/gpt-4.1", "/v1"),
    "anthropic": ("anthropic/claude-sonnet-4-5", ""),
    "google": ("google/gemini-2.5-pro", "/v1beta"),
}


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BatchServer]:
    monkeypatch.setenv("INTERLINGUA_HOME", str(tmp_path / "home"))
    with BatchServer() as server:
        yield server


def asked(*texts: str) -> list[Row]:
    lines = [{"messages": [{"role": "user", "content": text}]} for text in texts]
    requests = [il.decode(line).request() for line in lines]
    return [
        Row(number=number, id=str(number), source="test", request=plain(request))
        for number, request in enumerate(requests, 1)
    ]


def call_to(server: BatchServer, provider: str) -> CallOptions:
    return CallOptions(api_key=KEY, base_url=server.url + CASES[provider][1])


async def created(server: BatchServer, provider: str, *texts: str) -> Batch:
    call = call_to(server, provider)
    return await Batch.create(asked(*texts), CASES[provider][0], il.Client(), local=False, name=None, call=call)


@pytest.mark.parametrize("provider", CASES)
async def test_a_batch_too_large_for_one_becomes_several(
    provider: str, server: BatchServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each row is in one of them, and the answers come in the order of the input."""
    monkeypatch.setattr(type(BATCH_APIS[provider]), "max_requests", 2)
    texts = ["a", "b", "c", "d", "e"]
    batch = await created(server, provider, *texts)
    assert await batch.submit(call_to(server, provider)) == 3
    sent = [id for one in server.batches.values() for id in one["ids"]]
    assert len(texts) == len(sent) == len(set(sent))
    await batch.fetch(call_to(server, provider))
    assert [f"answer to {text}" for text in texts] == [answer.message.text for answer in await batch.answers()]


@pytest.mark.parametrize("provider", CASES)
async def test_a_lost_reply_creates_no_second_batch(provider: str, server: BatchServer) -> None:
    """The error says that the outcome is unknown; submitting again finds the batch among others."""
    for text in ("x", "y", "z"):
        await (await created(server, provider, text)).submit(call_to(server, provider))
    batch = await created(server, provider, "one", "two")
    before = len(server.requests)
    server.broken = [before + (2 if provider.startswith("openai") else 1)]  # OpenAI's file goes first
    with pytest.raises(il.InterlinguaError, match="submit again"):
        await batch.submit(call_to(server, provider))
    for text in ("u", "v", "w"):  # so that it is not on the first page
        await (await created(server, provider, text)).submit(call_to(server, provider))
    await batch.submit(call_to(server, provider))
    assert len(server.batches) == 7
    await batch.fetch(call_to(server, provider))
    assert ["answer to one", "answer to two"] == [answer.message.text for answer in await batch.answers()]


async def test_a_lost_reply_to_an_upload_uploads_no_second_file(server: BatchServer) -> None:
    """OpenAI's files are found by their names."""
    batch = await created(server, "openai", "one")
    server.broken = [1]
    with pytest.raises(il.InterlinguaError, match="submit again"):
        await batch.submit(call_to(server, "openai"))
    await batch.submit(call_to(server, "openai"))
    assert [1, 1] == [len([name for name in server.files if name.startswith("file-")]), len(server.batches)]


@given(cut=st.integers(0, 200), steps=st.lists(st.dictionaries(st.text(max_size=5), st.integers()), max_size=5))
def test_a_journal_that_was_cut_anywhere_goes_on_with_its_whole_lines(
    cut: int, steps: list[dict[str, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """No step is read by halves, and the next one does not stick to a torn line."""
    path = tmp_path_factory.mktemp("journal") / "journal.jsonl"
    lines = [json.dumps(step).encode() + b"\n" for step in steps]
    data = b"".join(lines)[:cut]
    path.write_bytes(data)
    journal = Journal(path)
    kept = journal.read()
    assert steps[: data.count(b"\n")] == kept
    journal.write(step="next")
    assert [*kept, {"step": "next"}] == journal.read()


def test_options_count_before_those_of_the_rows(tmp_path: Path) -> None:
    """What a row says and no option does stays."""
    path = tmp_path / "rows.jsonl"
    body = {"messages": [{"role": "user", "content": "hi"}], "temperature": 0.5, "max_tokens": 7, "stream": True}
    path.write_text(json.dumps(body) + "\n" + json.dumps(body) + "\n")
    (row, _) = rows_of([str(path)], Options(temperature=0.25))
    options: dict[str, Any] = row.request["options"]
    assert (0.25, 7, None) == (options["temperature"], options["maxTokens"], options.get("stream"))


# --- the test server is what the official SDKs expect -----------------------------------------------------------------


async def test_the_server_answers_openai_sdk(server: BatchServer) -> None:
    """So that the shapes of the tests are the provider's."""
    openai = pytest.importorskip("openai", reason="needs the openai package")
    batch = await created(server, "openai-chat", "one")
    await batch.submit(call_to(server, "openai-chat"))
    with openai.OpenAI(api_key=KEY, base_url=f"{server.url}/v1") as client:
        (listed,) = list(client.batches.list())
        found = client.batches.retrieve(listed.id)
        assert "completed" == found.status
        assert "answer to one" in client.files.content(found.output_file_id).text


async def test_the_server_answers_anthropic_sdk(server: BatchServer) -> None:
    """So that the shapes of the tests are the provider's."""
    anthropic = pytest.importorskip("anthropic", reason="needs the anthropic package")
    batch = await created(server, "anthropic", "one")
    await batch.submit(call_to(server, "anthropic"))
    with anthropic.Anthropic(api_key=KEY, base_url=server.url) as client:
        (listed,) = list(client.messages.batches.list())
        assert "ended" == listed.processing_status
        (result,) = list(client.messages.batches.results(listed.id))
        assert "answer to one" == result.result.message.content[0].text
