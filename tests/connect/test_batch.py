"""Batches: the journal, the cutting into parts, lost replies; and the test server, checked with the official SDKs."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import interlingua as il
from connect.batch_server import KEY, REGION, ROLE, S3, BatchServer, aws_variables
from interlingua.connect.batch import BATCH_APIS, Batch, BatchJournal, BatchRow, rows_of
from interlingua.values.canonical import plain
from interlingua.values.request import CallOptions, Options

CASES = {
    "openai": ("openai/gpt-4.1", "/v1"),
    "openai-chat": ("openai-chat/gpt-4.1", "/v1"),
    "anthropic": ("anthropic/claude-sonnet-4-5", ""),
    "google": ("google/gemini-2.5-pro", "/v1beta"),
    "amazon-bedrock": ("amazon-bedrock/anthropic.claude-sonnet-4-5-20250929-v1:0", ""),
}
UPLOADS = ("openai", "openai-chat", "amazon-bedrock")  # whose requests are a file of their own, which goes first


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BatchServer]:
    monkeypatch.setenv("INTERLINGUA_HOME", str(tmp_path / "home"))
    with BatchServer() as server:
        for name, value in aws_variables(server.url).items():
            monkeypatch.setenv(name, value)
        yield server


def asked(*texts: str) -> list[BatchRow]:
    lines = [{"messages": [{"role": "user", "content": text}]} for text in texts]
    requests = [il.decode(line).request() for line in lines]
    return [
        BatchRow(number=number, id=str(number), source="test", request=plain(request))
        for number, request in enumerate(requests, 1)
    ]


def call_to(server: BatchServer, provider: str) -> CallOptions:
    settings = {"s3": S3, "role": ROLE} if provider == "amazon-bedrock" else None
    return CallOptions(api_key=KEY, base_url=server.url + CASES[provider][1], settings=settings)


async def created(server: BatchServer, provider: str, *texts: str) -> Batch:
    call = call_to(server, provider)
    return await Batch.create(asked(*texts), CASES[provider][0], il.Client(), local=False, name=None, call=call)


@pytest.mark.parametrize("provider", CASES)
async def test_a_batch_too_large_for_one_becomes_several(
    provider: str, server: BatchServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each row is in one of them, and the answers come in the order of the input."""
    monkeypatch.setattr(type(BATCH_APIS[provider]), "max_requests", 2)
    monkeypatch.setattr(type(BATCH_APIS[provider]), "min_requests", 1)
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
    server.broken = [before + (2 if provider in UPLOADS else 1)]
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


async def test_a_part_has_the_fewest_requests_that_the_provider_takes(
    server: BatchServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bedrock refuses a job of fewer than 100 records: the last part takes them from the one before."""
    monkeypatch.setattr(type(BATCH_APIS["amazon-bedrock"]), "max_requests", 4)
    monkeypatch.setattr(type(BATCH_APIS["amazon-bedrock"]), "min_requests", 3)
    batch = await created(server, "amazon-bedrock", *"abcde")
    assert [[0, 2], [2, 3]] == batch.manifest.parts
    await batch.submit(call_to(server, "amazon-bedrock"))
    await batch.fetch(call_to(server, "amazon-bedrock"))
    assert [f"answer to {text}" for text in "abcde"] == [answer.message.text for answer in await batch.answers()]


ENDINGS = {
    "cancelled": "cancelled|stopped",
    "expired": "expired",
    "failed": "wrong|failed|expired|100 records",
}


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("provider", CASES)
async def test_a_batch_that_ended_early_has_its_answers_and_a_reason_for_the_others(
    provider: str, ending: str, server: BatchServer
) -> None:
    """Every row has an answer or an error that says why there is none; none is lost."""
    batch = await created(server, provider, "one", "two", "three", "four")
    await batch.submit(call_to(server, provider))
    if ending == "cancelled":
        server.running = True
        assert await batch.cancel(call_to(server, provider)) == 1
    else:
        server.ending = ending
    progress = await batch.fetch(call_to(server, provider))
    assert progress.is_done
    answers = list(await batch.answers())
    assert ["1", "2", "3", "4"] == [answer.row.id for answer in answers]
    for answer in answers:
        if answer.error is None:
            assert answer.message.text in ("answer to one", "answer to two")
        else:
            assert re.search(ENDINGS[ending], answer.error["message"], re.IGNORECASE), answer.error
    assert all(answer.error is not None for answer in answers[2:])


async def test_a_job_of_bedrock_that_ran_out_of_time_has_its_answers(server: BatchServer) -> None:
    """What was not processed says so."""
    batch = await created(server, "amazon-bedrock", "one", "two")
    await batch.submit(call_to(server, "amazon-bedrock"))
    server.ending = "partial"
    await batch.fetch(call_to(server, "amazon-bedrock"))
    one, two = await batch.answers()
    assert "answer to one" == one.message.text
    assert two.error is not None and "not processed before the job's time was over" == two.error["message"]


@pytest.mark.parametrize("provider", CASES)
async def test_a_cancelled_batch_is_not_submitted_on(provider: str, server: BatchServer) -> None:
    """Also the parts that were never created; their rows say why they have no answer."""
    batch = await created(server, provider, "one")
    assert await batch.cancel(call_to(server, provider)) == 0
    with pytest.raises(il.InterlinguaError, match="was cancelled; --name"):
        await batch.submit(call_to(server, provider))
    assert not server.batches and (await batch.fetch(call_to(server, provider))).is_done
    (answer,) = await batch.answers()
    assert answer.error is not None and "cancelled before this request was sent" in answer.error["message"]


@pytest.mark.parametrize("provider", CASES)
async def test_a_deleted_batch_leaves_nothing_and_can_be_submitted_anew(provider: str, server: BatchServer) -> None:
    """One that still runs is refused; the same requests become another batch afterwards, with an answer of its own."""
    server.running = True
    batch = await created(server, provider, "one")
    await batch.submit(call_to(server, provider))
    with pytest.raises(il.InterlinguaError, match="has not ended"):
        await batch.delete(call_to(server, provider))
    server.running = False
    await batch.fetch(call_to(server, provider))
    await batch.delete(call_to(server, provider))
    assert not batch.folder.exists() and not list(batch.folder.parent.iterdir())
    assert not server.files and not server.objects
    if provider in ("anthropic", "google"):
        assert not server.batches
    again = await created(server, provider, "one")
    assert await again.submit(call_to(server, provider)) == 1
    await again.fetch(call_to(server, provider))
    assert ["answer to one"] == [answer.message.text for answer in await again.answers()]
    assert len(server.batches) == (1 if provider in ("anthropic", "google") else 2)


@pytest.mark.parametrize("provider", CASES)
async def test_what_a_lost_reply_created_is_cancelled_and_deleted_too(provider: str, server: BatchServer) -> None:
    """A batch that may be there is looked for first, so that none runs on unseen."""
    server.running = True
    batch = await created(server, provider, "one")
    server.broken = [2 if provider in UPLOADS else 1]
    with pytest.raises(il.InterlinguaError, match="submit again"):
        await batch.submit(call_to(server, provider))
    assert await batch.cancel(call_to(server, provider)) == 1
    assert ["cancelled"] == [one.get("early") for one in server.batches.values()]
    await batch.delete(call_to(server, provider))
    assert not batch.folder.exists()


@pytest.mark.parametrize("provider", CASES)
async def test_a_batch_that_the_provider_has_removed_itself_can_be_deleted(provider: str, server: BatchServer) -> None:
    """Providers remove batches after some time."""
    batch = await created(server, provider, "one")
    await batch.submit(call_to(server, provider))
    server.batches.clear()
    await batch.delete(call_to(server, provider))
    assert not batch.folder.exists()


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ({}, "needs --s3 s3://BUCKET/PREFIX"),
        ({"s3": S3}, "needs --role"),
        ({"s3": "https://bucket/x", "role": ROLE}, "not of the form s3://BUCKET/PREFIX"),
        ({"s3": S3, "role": "batches"}, "not of the form arn:aws:iam"),
    ],
    ids=["nothing", "role", "no s3", "no arn"],
)
async def test_what_bedrock_needs_is_named_before_anything_is_sent(
    settings: dict[str, str], wanted: str, server: BatchServer
) -> None:
    """No folder, no object, no job."""
    call = CallOptions(settings=settings)
    with pytest.raises(il.FormatError, match=wanted):
        await Batch.create(asked("one"), CASES["amazon-bedrock"][0], il.Client(), local=False, name=None, call=call)
    assert not server.requests


async def test_settings_of_bedrock_may_be_in_models_toml(server: BatchServer, tmp_path: Path) -> None:
    """A variable counts before the file; an unknown setting is an error that names its line."""
    (tmp_path / "home").mkdir()
    notes = tmp_path / "home" / "models.toml"
    notes.write_text(f'[providers.amazon-bedrock.settings]\ns3 = "{S3}/"\nrole = "{ROLE}"\nregion = "us-west-2"\n')
    model = CASES["amazon-bedrock"][0]
    batch = await Batch.create(asked("one"), model, il.Client(), local=False, name=None, call=CallOptions())
    assert {"s3": S3, "role": ROLE, "region": "eu-west-1"} == batch.manifest.settings
    await batch.submit(CallOptions())
    assert len(server.batches) == 1
    notes.write_text('[providers.amazon-bedrock.settings]\nbucket = "x"\n')
    with pytest.raises(il.FormatError, match="line 2: unknown key `bucket`"):
        il.Client().find(model)


async def test_a_refusal_of_s3_is_read_from_its_xml(server: BatchServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong secret is an error of the keys, and nothing is created."""
    batch = await created(server, "amazon-bedrock", "one")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not the secret")
    with pytest.raises(il.AuthFailed, match="signature"):
        await batch.submit(call_to(server, "amazon-bedrock"))
    monkeypatch.undo()
    assert not server.batches and not server.objects


@given(cut=st.integers(0, 200), steps=st.lists(st.dictionaries(st.text(max_size=5), st.integers()), max_size=5))
def test_a_journal_that_was_cut_anywhere_goes_on_with_its_whole_lines(
    cut: int, steps: list[dict[str, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """No step is read by halves, and the next one does not stick to a torn line."""
    path = tmp_path_factory.mktemp("journal") / "journal.jsonl"
    lines = [json.dumps(step).encode() + b"\n" for step in steps]
    data = b"".join(lines)[:cut]
    path.write_bytes(data)
    journal = BatchJournal(path)
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


# --- the test server and our requests are what the official SDKs expect -----------------------------------------------


@pytest.fixture
async def openai_batch(server: BatchServer) -> Batch:
    batch = await created(server, "openai-chat", "one", "two")
    await batch.submit(call_to(server, "openai-chat"))
    return batch


async def test_the_server_answers_openai_sdk(server: BatchServer, openai_batch: Batch) -> None:
    """So that the shapes of the tests are the provider's."""
    openai = pytest.importorskip("openai", reason="needs the openai package")
    with openai.OpenAI(api_key=KEY, base_url=f"{server.url}/v1") as client:
        (listed,) = list(client.batches.list())
        found = client.batches.retrieve(listed.id)
        assert "completed" == found.status
        assert "answer to one" in client.files.content(found.output_file_id).text
        assert "cancelled" == client.batches.cancel(listed.id).status
        server.ending = "failed"
        for each in (found, client.batches.retrieve(listed.id)):
            openai.types.Batch.model_validate(each.model_dump(), strict=True)
        assert client.files.delete(found.output_file_id).deleted


async def test_the_server_answers_anthropic_sdk(server: BatchServer) -> None:
    """So that the shapes of the tests are the provider's, and our requests what its types say."""
    anthropic = pytest.importorskip("anthropic", reason="needs the anthropic package")
    from anthropic.types.messages.batch_create_params import BatchCreateParams
    from pydantic import TypeAdapter

    batch = await created(server, "anthropic", "one", "two")
    await batch.submit(call_to(server, "anthropic"))
    TypeAdapter(BatchCreateParams).validate_python(json.loads(server.bodies[-1]))
    with anthropic.Anthropic(api_key=KEY, base_url=server.url) as client:
        (listed,) = list(client.messages.batches.list())
        assert "ended" == listed.processing_status
        results = list(client.messages.batches.results(listed.id))
        assert "answer to one" in [result.result.message.content[0].text for result in results]
        cancelled = client.messages.batches.cancel(listed.id)
        assert cancelled.cancel_initiated_at is not None
        kinds = [result.result.type for result in client.messages.batches.results(listed.id)]
        assert {"succeeded", "canceled"} == set(kinds)
        assert "message_batch_deleted" == client.messages.batches.delete(listed.id).type


async def test_the_server_answers_google_sdk(server: BatchServer) -> None:
    """So that the shapes of the tests are the provider's."""
    genai = pytest.importorskip("google.genai", reason="needs the google-genai package")
    batch = await created(server, "google", "one")
    await batch.submit(call_to(server, "google"))
    with genai.Client(api_key=KEY, http_options={"base_url": server.url, "api_version": "v1beta"}) as client:
        (listed,) = list(client.batches.list())
        found = client.batches.get(name=listed.name)
        assert "JOB_STATE_SUCCEEDED" == found.state.name
        (answer,) = found.dest.inlined_responses
        assert "answer to one" == answer.response.text
        client.batches.cancel(name=listed.name)
        assert "JOB_STATE_CANCELLED" == client.batches.get(name=listed.name).state.name
        client.batches.delete(name=listed.name)
    assert not server.batches


async def test_the_server_answers_boto3(server: BatchServer) -> None:
    """So that the shapes of the tests are the provider's, and our requests what its models say."""
    boto3 = pytest.importorskip("boto3", reason="needs the boto3 package")
    from botocore.validate import ParamValidator

    batch = await created(server, "amazon-bedrock", "one")
    await batch.submit(call_to(server, "amazon-bedrock"))
    client = boto3.client("bedrock", REGION, endpoint_url=server.url)
    (listed,) = client.list_model_invocation_jobs(nameContains="il-")["invocationJobSummaries"]
    found = client.get_model_invocation_job(jobIdentifier=listed["jobArn"])
    assert ("Completed", "Converse") == (found["status"], found["modelInvocationType"])
    uploaded, sent = json.loads(server.bodies[0]), json.loads(server.bodies[1])
    shape = client.meta.service_model.operation_model("CreateModelInvocationJob").input_shape
    assert not ParamValidator().validate(sent, shape).has_errors()
    runtime = boto3.client("bedrock-runtime", REGION, endpoint_url=server.url)
    converse = runtime.meta.service_model.operation_model("Converse").input_shape
    asked = {"modelId": sent["modelId"], **uploaded["modelInput"]}
    assert not ParamValidator().validate(asked, converse).has_errors()
    client.stop_model_invocation_job(jobIdentifier=listed["jobArn"])
    assert "Stopped" == client.get_model_invocation_job(jobIdentifier=listed["jobArn"])["status"]
