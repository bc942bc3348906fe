"""The batch APIs of OpenAI, Anthropic and Google: create, find, read, cancel and delete batches.

None of them documents an idempotent create, so each can `find` a batch whose creation was interrupted: by its metadata
(OpenAI), its display name (Google), or its time and size, and afterwards the ids in its results (Anthropic).
"""

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote, urlencode

from ..dialects.registry import wire
from ..values.errors import BadWire, FormatError, InterlinguaError, ProviderError, TransportError
from ..values.jsontext import read, write
from ..values.request import CallOptions, ModelDescriptor
from .auth.credentials import scrub
from .connector import Endpoint, HttpConnector
from .retry import Retry
from .stream import scrubbed, unreachable
from .transport import whole

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


class Outcome(NamedTuple):
    """The outcome of one request: the body of its response, or an error."""

    id: str
    body: Any = None
    error: Any = None


class Part(NamedTuple):
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
        return scrubbed(error, functools.partial(scrub, secrets=[self._endpoint.key if self._endpoint else None]))


def is_uncertain(error: InterlinguaError) -> bool:
    """Whether a failed request may have been executed: there was no response, or the server failed."""
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
        self, calls: Calls, part: Part, headers: Mapping[str, str], uploaded: Callable[[str], None]
    ) -> str:
        """Creates the batch and returns its id; `uploaded` is called with the id of its file, if any."""
        ...

    async def find(self, calls: Calls, part: Part, excluded: Collection[str]) -> str | None:
        """Returns the batch of this part, if an interrupted create has created it."""
        ...

    async def state(self, calls: Calls, id: str) -> State: ...

    async def results(self, calls: Calls, id: str) -> list[Outcome]: ...

    async def cancel(self, calls: Calls, id: str) -> None:
        """Cancels a batch; finished responses are kept."""
        ...

    async def delete(self, calls: Calls, id: str | None, uploaded: str | None) -> None:
        """Deletes the provider's data of an ended batch, as far as possible: its file if there is one."""
        ...


class OpenAIBatches(BatchApi):
    """A file of lines, then a batch of it. platform.openai.com/docs/guides/batch"""

    max_requests = 50_000
    max_bytes = 200_000_000
    ENDED = frozenset({"completed", "failed", "expired", "cancelled"})

    def line(self, id: str, body: dict[str, Any], path: str) -> bytes:
        return write({"custom_id": id, "method": "POST", "url": f"/v1{path}", "body": body})

    async def create(
        self, calls: Calls, part: Part, headers: Mapping[str, str], uploaded: Callable[[str], None]
    ) -> str:
        data = b"\n".join(part.lines) + b"\n"
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

    async def find(self, calls: Calls, part: Part, excluded: Collection[str]) -> str | None:
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

    async def results(self, calls: Calls, id: str) -> list[Outcome]:
        batch = await calls.get(f"/batches/{quote(id)}")
        found = []
        # Responses and errors are separate files; an empty one does not exist.
        for file in filter(None, (batch.get("output_file_id"), batch.get("error_file_id"))):
            for line in lines_of(await calls.repeat("GET", f"/files/{quote(file)}/content"), calls):
                response = line.get("response") or {}
                body = response.get("body")
                failed = line.get("error") or (body if (response.get("status_code") or 200) >= 300 else None)
                found.append(Outcome(str(line.get("custom_id")), None if failed else body, failed))
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

    max_requests = 100_000
    max_bytes = 256_000_000
    PATH = "/v1/messages/batches"

    def line(self, id: str, body: dict[str, Any], path: str) -> bytes:
        return write({"custom_id": id, "params": body})

    async def create(
        self, calls: Calls, part: Part, headers: Mapping[str, str], uploaded: Callable[[str], None]
    ) -> str:
        body = b'{"requests":[' + b",".join(part.lines) + b"]}"
        return await calls.create(self.PATH, body, headers)

    async def find(self, calls: Calls, part: Part, excluded: Collection[str]) -> str | None:
        """A batch of our size since then. Whether it is ours shows in the ids of its results, which come at its end."""
        async for batch in pages(calls, self.PATH, "after_id"):  # newest first
            created = datetime.fromisoformat(batch["created_at"]).timestamp() * 1000
            if created < part.since - CLOCK_SKEW:
                return None
            if sum(batch["request_counts"].values()) == len(part.lines) and batch["id"] not in excluded:
                return str(batch["id"])
        return None

    async def state(self, calls: Calls, id: str) -> State:
        batch = await calls.get(f"{self.PATH}/{quote(id)}")
        status = str(batch.get("processing_status"))
        return State(status, status == "ended", batch.get("request_counts") or {})

    async def results(self, calls: Calls, id: str) -> list[Outcome]:
        found = []
        for line in lines_of(await calls.repeat("GET", f"{self.PATH}/{quote(id)}/results"), calls):
            result = line.get("result") or {}
            kind = result.get("type")
            failed = None if kind == "succeeded" else result.get("error") or self._without_answer(str(kind))
            found.append(Outcome(str(line.get("custom_id")), result.get("message"), failed))
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
        self, calls: Calls, part: Part, headers: Mapping[str, str], uploaded: Callable[[str], None]
    ) -> str:
        path = str(wire(calls.model.api).codec.path(calls.model.id, False)).replace(
            ":generateContent", ":batchGenerateContent"
        )
        # Put together by hand: the lines are JSON already.
        head = b'{"batch":{"display_name":' + write(part.tag) + b',"input_config":{"requests":{"requests":['
        return await calls.create(path, head + b",".join(part.lines) + b"]}}}}", headers, "name")

    async def find(self, calls: Calls, part: Part, excluded: Collection[str]) -> str | None:
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

    async def results(self, calls: Calls, id: str) -> list[Outcome]:
        operation = await calls.get(f"/{quote(id)}")
        output = operation.get("response") or (operation.get("metadata") or {}).get("output") or {}
        inline = (output.get("inlinedResponses") or {}).get("inlinedResponses") or ()
        return [
            Outcome(str((one.get("metadata") or {}).get("key")), one.get("response"), one.get("error"))
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
