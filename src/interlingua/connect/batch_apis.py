"""The batch APIs of OpenAI, Anthropic, Google and Bedrock: create, find, read, cancel and delete batches.

None of them documents an idempotent create, so each can `find` a batch whose creation was interrupted: by its metadata
(OpenAI), its display name (Google), or its time and size, and afterwards the ids in its results (Anthropic).
"""

import asyncio
import os
import re
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote, urlencode

from ..dialects.registry import wire
from ..values.errors import AuthFailed, BadWire, FormatError, InterlinguaError, ProviderError, TransportError
from ..values.jsontext import read, write
from ..values.request import CallOptions, ModelDescriptor
from .connector import USER_AGENT, Endpoint, HttpConnector
from .retry import Retry
from .stream import scrubbed, unreachable
from .transport import whole, with_headers

MAX_RESULTS = 2 << 30  # bytes of one file of results
CLOCK_SKEW = 300_000  # milliseconds by which a provider's clock may be behind ours
_MAX_PAGES = 1000
# The page size parameter of lists, by the name of their cursor, and the field of their entries.
_PAGE_SIZES = {"pageToken": "pageSize", "nextToken": "maxResults"}
_ENTRIES = ("data", "operations", "invocationJobSummaries")
_RETRY = Retry(attempts=5)
# docs.claude.com/en/docs/build-with-claude/batch-processing: neither is charged.
_WITHOUT_ANSWER = {
    "canceled": "the batch was cancelled before this request was processed",
    "expired": "the batch expired, after 24 hours, before this request was processed",
}


class State(NamedTuple):
    """The state of a batch. `error` is why requests without a result have none."""

    status: str
    ended: bool
    counts: dict[str, int] = {}
    error: str | None = None


class RequestOutcome(NamedTuple):
    """The outcome of one request: the body of its response, or an error."""

    id: str
    body: Any = None
    error: Any = None


class BatchPart(NamedTuple):
    """The requests that become one batch of the provider. `tag` names it there; `since` is when we began to create it,
    in milliseconds; `uploaded` the id of its file, where that is known; `is_retry`: an earlier attempt was cut off."""

    tag: str
    lines: Sequence[bytes]
    since: int
    uploaded: str | None = None
    is_retry: bool = False


class Calls:
    """Calls to one provider's API. Idempotent ones are retried; creating calls are not."""

    def __init__(self, connector: HttpConnector, model: ModelDescriptor, call: CallOptions) -> None:
        self.model = model
        self.call = call
        self.connector = connector
        self._wire = wire(model.api)
        self._endpoint: Endpoint | None = None

    async def get(self, path: str, **query: Any) -> Any:
        return _json(await self.repeat("GET", f"{path}?{urlencode(query)}" if query else path), self.model.api)

    async def repeat(self, method: str, path: str, body: bytes | None = None) -> bytes:
        """Returns the response body of an idempotent request: reading, cancelling, deleting."""
        for attempt in range(1, _RETRY.attempts):
            try:
                return await self.send(method, path, body, {}, MAX_RESULTS)
            except InterlinguaError as error:
                if not _RETRY.again(error):
                    raise
                await asyncio.sleep(_RETRY.wait(error, attempt))
        return await self.send(method, path, body, {}, MAX_RESULTS)

    async def delete(self, path: str) -> None:
        """Deletes something; a missing one counts as deleted."""
        try:
            await self.repeat("DELETE", path)
        except ProviderError as error:
            if error.status != 404:
                raise

    async def create(self, path: str, body: bytes, headers: Mapping[str, str], name: str = "id") -> str:
        """Creates something, and returns its id."""
        made = _json(await self.send("POST", path, body, headers, 1 << 26), self.model.api).get(name)
        if not isinstance(made, str):
            raise BadWire(self.model.api, f"the answer of {path} has no {name}")
        return made

    async def send(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str], limit: int) -> bytes:
        """Returns the response body of one request; raises an error response."""
        url, sent = await self.addressed(method, path, body, headers)
        try:
            reply = await self.connector.transport.send(method, url, sent, body)
        except TransportError as error:
            raise unreachable(error, self.connector.row, url) from error.__cause__
        try:
            received = await whole(reply, limit)
        except BaseException:
            reply.close()
            raise
        if not 200 <= reply.status < 300:
            raise self.failure(reply.status, received, reply.headers)
        return received

    async def addressed(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> tuple[str, Mapping[str, str]]:
        """Returns the URL of a request, and its headers with the credentials."""
        if self._endpoint is None:
            self._endpoint = await self.connector.access(self.model, self.call)
        return self._endpoint.base + path, {**self._wire.http.headers, **self._endpoint.headers, **headers}

    def failure(self, status: int, body: bytes, headers: Mapping[str, str]) -> InterlinguaError:
        error: InterlinguaError = self._wire.codec.decode_error(status, body, headers)
        return scrubbed(error, [self._endpoint.key if self._endpoint else None])


def is_uncertain(error: InterlinguaError) -> bool:
    """Whether a failed request may have been executed: there was no response, or the server failed."""
    # RFC 9110, 15.5.9: after 408, too, the server may have had the whole request.
    return not isinstance(error, ProviderError) or error.status >= 500 or error.status == 408


class BatchApi(Protocol):
    """One provider's batches. A part of a batch has at most `max_requests` lines of together `max_bytes`, and where a
    batch becomes several, at least `min_requests`."""

    max_requests: int
    max_bytes: int
    min_requests: int = 1
    calls: type[Calls] = Calls

    def settings(self, connector: HttpConnector, model: ModelDescriptor, call: CallOptions) -> dict[str, str]:
        """Returns the settings of a batch, which are stored with it; raises if one is missing."""
        return {}

    def line(self, id: str, body: dict[str, Any], path: str) -> bytes:
        """One request in the form of a batch."""
        ...

    async def create(
        self, calls: Calls, part: BatchPart, headers: Mapping[str, str], uploaded: Callable[[str], None]
    ) -> str:
        """Creates the batch and returns its id; `uploaded` is called with the id of its file, if any."""
        ...

    async def find(self, calls: Calls, part: BatchPart, excluded: Collection[str]) -> str | None:
        """Returns the batch of this part, if an interrupted create has created it."""
        ...

    async def state(self, calls: Calls, id: str) -> State: ...

    async def results(self, calls: Calls, id: str) -> list[RequestOutcome]: ...

    async def cancel(self, calls: Calls, id: str) -> None:
        """Cancels a batch; finished responses are kept."""
        ...

    async def delete(self, calls: Calls, id: str | None, uploaded: str | None) -> None:
        """Deletes the provider's data of an ended batch, as far as possible: its file if there is one."""
        ...


class OpenAIBatches(BatchApi):
    """A file of lines, then a batch of it. platform.openai.com/docs/guides/batch"""

    # OpenAI: up to 50,000 requests and 200 MB per input file; one endpoint and one model per file.
    max_requests = 50_000
    max_bytes = 200_000_000
    ENDED = frozenset({"completed", "failed", "expired", "cancelled"})

    def line(self, id: str, body: dict[str, Any], path: str) -> bytes:
        return write({"custom_id": id, "method": "POST", "url": f"/v1{path}", "body": body})

    async def create(
        self, calls: Calls, part: BatchPart, headers: Mapping[str, str], uploaded: Callable[[str], None]
    ) -> str:
        data = b"\n".join(part.lines) + b"\n"
        # The upload may have come through although its answer did not: OpenAI lists files by name and size.
        file = part.uploaded or (await self._find_file(calls, part.tag, len(data)) if part.is_retry else None)
        file = file or await self._upload(calls, part.tag, data)
        uploaded(file)
        body = {
            "input_file_id": file,
            "endpoint": read(part.lines[0])["url"],
            "completion_window": "24h",  # the only value there is
            "metadata": {"interlingua": part.tag},
        }
        return await calls.create("/batches", write(body), {**headers, "Idempotency-Key": part.tag})

    async def _find_file(self, calls: Calls, tag: str, size: int) -> str | None:
        async for file in pages(calls, "/files", "after", purpose="batch"):
            if file.get("filename") == f"{tag}.jsonl" and file.get("bytes") == size:
                return str(file["id"])
        return None

    async def _upload(self, calls: Calls, tag: str, data: bytes) -> str:
        boundary = f"interlingua-{tag}"
        body = (
            f'--{boundary}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
            f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{tag}.jsonl"\r\n'
            "Content-Type: application/jsonl\r\n\r\n"
        ).encode()
        form = {"Content-Type": f"multipart/form-data; boundary={boundary}"}
        return await calls.create("/files", body + data + f"\r\n--{boundary}--\r\n".encode(), form)

    async def find(self, calls: Calls, part: BatchPart, excluded: Collection[str]) -> str | None:
        async for batch in pages(calls, "/batches", "after"):
            if (batch.get("metadata") or {}).get("interlingua") == part.tag and batch["id"] not in excluded:
                return str(batch["id"])
        return None

    async def state(self, calls: Calls, id: str) -> State:
        batch = await calls.get(f"/batches/{quote(id)}")
        status = str(batch.get("status"))
        problems = [str(one.get("message")) for one in (batch.get("errors") or {}).get("data") or ()]
        # One that is cancelled or expired has the answers that there were; the other requests are in no file, or in
        # that of the errors as `batch_expired`.
        error = None if status == "completed" else "; ".join(problems) or f"the batch is {status}"
        return State(status, status in self.ENDED, batch.get("request_counts") or {}, error)

    async def results(self, calls: Calls, id: str) -> list[RequestOutcome]:
        batch = await calls.get(f"/batches/{quote(id)}")
        found = []
        # Responses and errors are separate files; an empty one does not exist.
        for file in filter(None, (batch.get("output_file_id"), batch.get("error_file_id"))):
            for line in lines_of(await calls.repeat("GET", f"/files/{quote(file)}/content"), calls):
                response = line.get("response") or {}
                body = response.get("body")
                failed = line.get("error") or (body if (response.get("status_code") or 200) >= 300 else None)
                found.append(RequestOutcome(str(line.get("custom_id")), None if failed else body, failed))
        return found

    async def cancel(self, calls: Calls, id: str) -> None:
        await calls.repeat("POST", f"/batches/{quote(id)}/cancel", b"")

    async def delete(self, calls: Calls, id: str | None, uploaded: str | None) -> None:
        # Batches stay listed at OpenAI; what they hold is in files, which can be deleted.
        batch = await calls.get(f"/batches/{quote(id)}") if id is not None else {}
        names = (uploaded, *(batch.get(f"{name}_file_id") for name in ("input", "output", "error")))
        for file in dict.fromkeys(filter(None, names)):
            await calls.delete(f"/files/{quote(file)}")


class AnthropicBatches(BatchApi):
    """All requests in one body. docs.claude.com/en/docs/build-with-claude/batch-processing"""

    # Anthropic: "a Message Batch is limited to either 100,000 requests or 256 MB in size, whichever is reached first".
    max_requests = 100_000
    max_bytes = 256_000_000
    PATH = "/v1/messages/batches"

    def line(self, id: str, body: dict[str, Any], path: str) -> bytes:
        return write({"custom_id": id, "params": body})

    async def create(
        self, calls: Calls, part: BatchPart, headers: Mapping[str, str], uploaded: Callable[[str], None]
    ) -> str:
        body = b'{"requests":[' + b",".join(part.lines) + b"]}"
        return await calls.create(self.PATH, body, headers)

    async def find(self, calls: Calls, part: BatchPart, excluded: Collection[str]) -> str | None:
        """A batch of our size since then. Whether it is ours shows in the ids of its results, which come at its end."""
        async for batch in pages(calls, self.PATH, "after_id"):  # newest first
            created = datetime.fromisoformat(batch["created_at"]).timestamp() * 1000
            # The list is newest first: all further batches are older.
            if created < part.since - CLOCK_SKEW:
                return None
            if sum(batch["request_counts"].values()) == len(part.lines) and batch["id"] not in excluded:
                return str(batch["id"])
        return None

    async def state(self, calls: Calls, id: str) -> State:
        batch = await calls.get(f"{self.PATH}/{quote(id)}")
        status = str(batch.get("processing_status"))
        return State(status, status == "ended", batch.get("request_counts") or {})

    async def results(self, calls: Calls, id: str) -> list[RequestOutcome]:
        found = []
        for line in lines_of(await calls.repeat("GET", f"{self.PATH}/{quote(id)}/results"), calls):
            result = line.get("result") or {}
            kind = result.get("type")
            # `errored` has an `error`, `canceled` and `expired` only their type; neither is in the order of the
            # requests.
            failed = None if kind == "succeeded" else result.get("error") or self._without_answer(str(kind))
            found.append(RequestOutcome(str(line.get("custom_id")), result.get("message"), failed))
        return found

    def _without_answer(self, kind: str) -> dict[str, str]:
        """The message for a result that names only its type: `canceled` or `expired`."""
        return {"type": kind, "message": _WITHOUT_ANSWER.get(kind, f"the request is {kind}")}

    async def cancel(self, calls: Calls, id: str) -> None:
        await calls.repeat("POST", f"{self.PATH}/{quote(id)}/cancel", b"")

    async def delete(self, calls: Calls, id: str | None, uploaded: str | None) -> None:
        if id is not None:
            await calls.delete(f"{self.PATH}/{quote(id)}")


class GoogleBatches(BatchApi):
    """All requests in one body, which may have 20 MB. ai.google.dev/gemini-api/docs/batch-api"""

    max_requests = 50_000
    max_bytes = 19_000_000
    ENDED = ("SUCCEEDED", "FAILED", "CANCELLED", "EXPIRED")

    def line(self, id: str, body: dict[str, Any], path: str) -> bytes:
        return write({"request": body, "metadata": {"key": id}})

    async def create(
        self, calls: Calls, part: BatchPart, headers: Mapping[str, str], uploaded: Callable[[str], None]
    ) -> str:
        path = str(wire(calls.model.api).codec.path(calls.model.id, False)).replace(
            ":generateContent", ":batchGenerateContent"
        )
        # Put together by hand: the lines are JSON already.
        head = b'{"batch":{"display_name":' + write(part.tag) + b',"input_config":{"requests":{"requests":['
        return await calls.create(path, head + b",".join(part.lines) + b"]}}}}", headers, "name")

    async def find(self, calls: Calls, part: BatchPart, excluded: Collection[str]) -> str | None:
        async for batch in pages(calls, "/batches", "pageToken"):
            if (batch.get("metadata") or {}).get("displayName") == part.tag and batch["name"] not in excluded:
                return str(batch["name"])
        return None

    async def state(self, calls: Calls, id: str) -> State:
        operation = await calls.get(f"/{quote(id)}")
        about = operation.get("metadata") or {}
        # BATCH_STATE_SUCCEEDED over HTTP; the SDKs and older responses have JOB_STATE_SUCCEEDED.
        status = str(about.get("state", "")).rpartition("STATE_")[2] or ("SUCCEEDED" if operation.get("done") else "")
        stats = about.get("batchStats") or {}
        counts = {name.removesuffix("RequestCount"): int(value) for name, value in stats.items()}  # int64 is a string
        error = (operation.get("error") or {}).get("message")
        if error is None and status not in ("", "SUCCEEDED") and status in self.ENDED:
            error = f"the batch is {status.lower()}"
        return State(status.lower(), status in self.ENDED or bool(operation.get("done")), counts, error)

    async def results(self, calls: Calls, id: str) -> list[RequestOutcome]:
        operation = await calls.get(f"/{quote(id)}")
        output = operation.get("response") or (operation.get("metadata") or {}).get("output") or {}
        inline = (output.get("inlinedResponses") or {}).get("inlinedResponses") or ()
        return [
            RequestOutcome(str((one.get("metadata") or {}).get("key")), one.get("response"), one.get("error"))
            for one in inline
        ]

    async def cancel(self, calls: Calls, id: str) -> None:
        await calls.repeat("POST", f"/{quote(id)}:cancel", b"{}")

    async def delete(self, calls: Calls, id: str | None, uploaded: str | None) -> None:
        if id is not None:
            await calls.delete(f"/{quote(id)}")


async def pages(calls: Calls, path: str, cursor: str, **asked: str) -> AsyncIterator[dict[str, Any]]:
    """The entries of a list, page by page."""
    query: dict[str, Any] = {_PAGE_SIZES.get(cursor, "limit"): 100, **asked}
    for _ in range(_MAX_PAGES):
        page = await calls.get(path, **query)
        entries: list[dict[str, Any]] = next((page[name] for name in _ENTRIES if page.get(name)), [])
        for entry in entries:
            yield entry
        more = page.get("has_more") and entries and entries[-1]["id"]
        following = page.get("nextPageToken") or page.get("nextToken") or more
        if not following:
            return
        query[cursor] = following


def _json(body: bytes, api: str) -> Any:
    try:
        value = read(body)
    except FormatError as error:
        raise BadWire(api, f"an answer of the batch API: {error.message}") from None
    if not isinstance(value, dict):
        raise BadWire(api, "an answer of the batch API is not an object")
    return value


def lines_of(data: bytes, calls: Calls) -> list[dict[str, Any]]:
    return [_json(line, calls.model.api) for line in data.splitlines() if line.strip()]


# --- Bedrock ----------------------------------------------------------------------------------------------------------
# docs.aws.amazon.com/bedrock/latest/userguide/batch-inference.html. Requests to Bedrock's control plane and to S3 are
# signed like those to the model; no other AWS client is used. The S3 location, the role of the job, and the region are
# stored with the batch.

_JOBS = "/model-invocation-job"
# The patterns of the API reference: S3Uri (its prefix may be left out) and RoleArn.
_S3 = re.compile(r"s3://([a-z0-9][-.a-z0-9]{1,61}[a-z0-9])((?:/[-!_*'().a-z0-9A-Z]+)*)/?")
_ROLE = re.compile(r"arn:aws(-[^:]+)?:iam::([0-9]{12})?:role/.+")
_XML_FIELD = r"<{0}>([^<]*)</{0}>"


class AwsCalls(Calls):
    """Calls that are signed: a path is one of Bedrock's control plane, `s3://BUCKET/KEY` an object in S3."""

    async def addressed(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> tuple[str, Mapping[str, str]]:
        from .auth.cloud import aws_credentials, sign

        settings = self.call.settings or {}
        region, service = settings["region"], "s3" if path.startswith("s3://") else "bedrock"
        url = self._object(path, region) if service == "s3" else self._control(path, region)
        try:
            credentials = await aws_credentials(settings.get("profile"), region)
        except AuthFailed as error:
            raise AuthFailed(
                f"{error.message.partition(';')[0]}; a batch goes through S3, which takes no Bedrock key: "
                "run `aws configure` or `aws sso login`, or set AWS_PROFILE",
                provider=self.connector.provider,
            ) from None
        own = {"Content-Type": "application/json", "Accept-Encoding": "identity", "User-Agent": USER_AGENT}
        given = {**with_headers(own, self.call.headers), **headers}
        signed = await asyncio.to_thread(
            sign, method, url, given, body or b"", region=region, credentials=credentials, service=service
        )
        return url, signed

    def _control(self, path: str, region: str) -> str:
        given = self.call.base_url or self._variable("AWS_ENDPOINT_URL_BEDROCK", "AWS_ENDPOINT_URL")
        return (given or f"https://bedrock.{region}.{_domain(region)}").rstrip("/") + path

    def _object(self, uri: str, region: str) -> str:
        bucket, _, key = uri.removeprefix("s3://").partition("/")
        # As AWS signs it: docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html.
        key = quote(key, safe="/-_.~")
        given = self._variable("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
        if given is not None:
            return f"{given.rstrip('/')}/{bucket}/{key}"
        host = f"s3.{region}.{_domain(region)}"
        # A dot in the name of a bucket is no part of a host that the certificate covers.
        return f"https://{host}/{bucket}/{key}" if "." in bucket else f"https://{bucket}.{host}/{key}"

    def _variable(self, *names: str) -> str | None:
        env = os.environ if self.call.env is None else self.call.env
        return next((value for name in names if (value := env.get(name, "").strip())), None)

    def failure(self, status: int, body: bytes, headers: Mapping[str, str]) -> InterlinguaError:
        """S3 answers with XML, which is read as the JSON error that it would be."""
        text = body.decode("utf-8", "replace")
        found = {name: re.search(_XML_FIELD.format(name), text) for name in ("Code", "Message")}
        if body.lstrip().startswith(b"<") and found["Code"]:
            values = {name: match.group(1) for name, match in found.items() if match}
            message = f"S3: {values.get('Message') or values['Code']}"
            body = write({"__type": values["Code"], "message": message})
        return super().failure(status, body, headers)


class BedrockBatches(BatchApi):
    """A job reads one object and writes `JOB/NAME.jsonl.out` below the place of its output."""

    # Quotas of a job: docs.aws.amazon.com/general/latest/gr/bedrock.html. A file may have 1 GB; less is kept in memory.
    max_requests = 50_000
    min_requests = 100
    max_bytes = 200_000_000
    calls = AwsCalls
    ENDED = frozenset({"Completed", "PartiallyCompleted", "Failed", "Stopped", "Expired"})

    def settings(self, connector: HttpConnector, model: ModelDescriptor, call: CallOptions) -> dict[str, str]:
        from .auth.cloud import aws_region

        given = {name: connector.setting(name, call) for name in ("s3", "role", "region")}
        for name, pattern, form in (
            ("s3", _S3, "s3://BUCKET/PREFIX"),
            ("role", _ROLE, "arn:aws:iam::ACCOUNT:role/NAME"),
        ):
            value = given[name]
            if value is None:
                raise FormatError(
                    f"a batch of {connector.label} needs --{name} {form}; --jobs N makes ordinary calls", f"--{name}"
                )
            if not pattern.fullmatch(value):
                raise FormatError(f"{value!r} is not of the form {form}", f"--{name}")
        profile = (call.settings or {}).get("profile")
        return {
            "s3": str(given["s3"]).rstrip("/"),
            "role": str(given["role"]),
            "region": aws_region(
                (call.settings or {}).get("region"), model.id, profile=profile, env=call.env, default=given["region"]
            ),
            **({"profile": profile} if profile else {}),
        }

    def line(self, id: str, body: dict[str, Any], path: str) -> bytes:
        return write({"recordId": id, "modelInput": body})

    async def create(
        self, calls: Calls, part: BatchPart, headers: Mapping[str, str], uploaded: Callable[[str], None]
    ) -> str:
        settings = calls.call.settings or {}
        source = part.uploaded or f"{settings['s3']}/{part.tag}.jsonl"
        if part.uploaded is None:  # writing an object again leaves one object
            data = b"\n".join(part.lines) + b"\n"
            await calls.send("PUT", source, data, {"Content-Type": "application/jsonl"}, 1 << 20)
            uploaded(source)
        body = {
            "jobName": part.tag,
            "clientRequestToken": part.tag,  # a second request with it makes no second job
            "roleArn": settings["role"],
            "modelId": calls.model.id,
            "modelInvocationType": "Converse",
            "inputDataConfig": {"s3InputDataConfig": {"s3InputFormat": "JSONL", "s3Uri": source}},
            "outputDataConfig": {"s3OutputDataConfig": {"s3Uri": f"{settings['s3']}/"}},
        }
        return await calls.create(_JOBS, write(body), headers, "jobArn")

    async def find(self, calls: Calls, part: BatchPart, excluded: Collection[str]) -> str | None:
        async for job in pages(calls, f"{_JOBS}s", "nextToken", nameContains=part.tag):
            if job.get("jobName") == part.tag and job["jobArn"] not in excluded:
                return str(job["jobArn"])
        return None

    async def state(self, calls: Calls, id: str) -> State:
        job = await calls.get(_job(id))
        status = str(job.get("status"))
        counts = {
            name: job[field]
            for name in ("total", "processed", "success", "error")
            if (field := f"{name}RecordCount") in job
        }
        error = None
        if status in self.ENDED and status != "Completed":
            error = job.get("message") or _REASONS.get(status, f"the job is {status}")
        return State(status, status in self.ENDED, counts, error)

    async def results(self, calls: Calls, id: str) -> list[RequestOutcome]:
        job = await calls.get(_job(id))
        try:
            data = await calls.repeat("GET", _output(job))
        except ProviderError as error:
            # A job without output. Without the permission to list, S3 responds 403 for a missing object.
            if error.status == 404 or (error.status == 403 and job.get("status") in ("Failed", "Expired")):
                return []
            raise
        return [_outcome(line) for line in lines_of(data, calls)]

    async def cancel(self, calls: Calls, id: str) -> None:
        await calls.repeat("POST", f"{_job(id)}/stop", b"")

    async def delete(self, calls: Calls, id: str | None, uploaded: str | None) -> None:
        # Jobs stay listed at Bedrock; what they hold is in S3.
        objects = [uploaded] if uploaded else []
        if id is not None:
            output = _output(await calls.get(_job(id)))
            objects += [output, f"{output.rpartition('/')[0]}/manifest.json.out"]
        for uri in objects:
            await calls.delete(uri)


_REASONS = {
    "PartiallyCompleted": "not processed before the job's time was over",
    "Expired": "the job expired before it began",
    "Stopped": "the job was stopped before this request was processed",
}


def _job(arn: str) -> str:
    return f"{_JOBS}/{quote(arn, safe='')}"


def _output(job: dict[str, Any]) -> str:
    """The object of a job's results, by the locations in the job."""
    source = job["inputDataConfig"]["s3InputDataConfig"]["s3Uri"]
    place = job["outputDataConfig"]["s3OutputDataConfig"]["s3Uri"]
    return f"{place.rstrip('/')}/{job['jobArn'].rpartition('/')[2]}/{source.rpartition('/')[2]}.out"


def _outcome(line: dict[str, Any]) -> RequestOutcome:
    failed = line.get("error")
    if isinstance(failed, dict):
        failed = {"type": str(failed.get("errorCode") or "error"), "message": failed.get("errorMessage")}
    if failed is None and "modelOutput" not in line:
        failed = {"type": "error", "message": "no output in the results"}
    return RequestOutcome(str(line.get("recordId")), None if failed else line["modelOutput"], failed)


def _domain(region: str) -> str:
    return "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
