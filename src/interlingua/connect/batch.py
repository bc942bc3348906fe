"""Batches: many requests over a provider's batch API at its batch price, or over concurrent ordinary calls.

A batch is a folder, `<home>/batches/NAME`: `batch.json` describes it, `requests.jsonl` has the requests,
`journal.jsonl` every step, written and synced before a request is sent and after its response, and `part-N.jsonl` the
results. After a kill it resumes from there: a created batch is looked up at the provider before anything is created.
The name is derived from the requests unless given, so that submitting the same twice is idempotent.
"""

import asyncio
import contextlib
import hashlib
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ..conversion import decode
from ..conversion.local_files import atomic, synced
from ..conversion.sources import SourceProblem, documents, expand
from ..dialects.files.wire_bodies import failure
from ..dialects.registry import canonical, wire
from ..values.canonical import build, dump, load, plain
from ..values.errors import AuthFailed, FormatError, InterlinguaError, ProviderError, RateLimited
from ..values.jsontext import read, write
from ..values.losses import Loss
from ..values.messages import AssistantMessage, blocks_of
from ..values.places import home, private_folder
from ..values.regular import open_regular, read_regular, reason
from ..values.request import CallOptions, Conversation, ModelDescriptor, Options, Request
from .batch_apis import (
    AnthropicBatches,
    BatchApi,
    BatchPart,
    BedrockBatches,
    Calls,
    GoogleBatches,
    OpenAIBatches,
    State,
    is_uncertain,
)
from .client import Client
from .connector import HttpConnector
from .models import default, warm
from .retry import CIRCUIT_OPEN, asks_to_wait, passing, wait_of
from .stream import decode_answer, now

VERSION = 1
_NEVER_SENT = "the batch was cancelled before this request was sent"
MAX_WAITS = 20  # times that one request waits for a limit of the provider to pass
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_OPENAI = OpenAIBatches()
# By provider: others that serve the same wires have no such API, or another one.
BATCH_APIS: dict[str, BatchApi] = {
    "openai": _OPENAI,
    "openai-chat": _OPENAI,
    "anthropic": AnthropicBatches(),
    "google": GoogleBatches(),
    "amazon-bedrock": BedrockBatches(),
}


class BatchManifest(Struct, frozen=True, kw_only=True):
    """Describes a batch. `parts` are the first row and the number of rows of each batch at the provider; none for a
    local one. `salt` distinguishes it from a deleted batch of the same requests.
    """

    version: int = VERSION
    name: str
    digest: str
    model: str
    created: int
    rows: int
    base_url: str | None = None
    salt: str = ""
    settings: dict[str, str] = {}
    headers: dict[str, str] = {}
    parts: list[list[int]] = []

    @property
    def is_local(self) -> bool:
        return not self.parts


class BatchRow(Struct, frozen=True, kw_only=True):
    """One request: its number from one, its id (that of the input, where it has one) and where it was read. `error` is
    why it cannot be sent."""

    number: int
    id: str
    source: str
    request: Any = None  # a Request as JSON
    body: Any = None  # as the provider's wire has it
    losses: list[Loss] = []  # what of the request the model is not shown
    error: Any = None


class RowAnswer(Struct, frozen=True, kw_only=True):
    """The outcome of one row. A failed row has an error message as its answer, and the `error` itself."""

    row: BatchRow
    message: AssistantMessage
    error: dict[str, Any] | None = None


class BatchProgress(Struct, frozen=True, kw_only=True):
    """The progress of a batch: rows by outcome, and the provider's batches with their states (None: not created)."""

    rows: int
    answered: int = 0
    failed: int = 0
    states: list[tuple[str | None, State | None]] = []

    @property
    def is_done(self) -> bool:
        if self.states:
            return all(state is not None and state.ended for _, state in self.states)
        return self.answered + self.failed >= self.rows


# --- requests ---------------------------------------------------------------------------------------------------------


def rows_of(
    inputs: Sequence[str], options: Options, *, dialect: str | None = None, reask: bool = False
) -> list[BatchRow]:
    """Returns one row per conversation of these files. An unreadable conversation is a row with an error.

    A conversation that ends with an answer has nothing to send; with `reask`, that answer is dropped.
    """
    dialect = None if dialect is None else canonical(dialect)
    rows: list[BatchRow] = []

    def add(source: str, **fields: Any) -> None:
        number = len(rows) + 1
        rows.append(BatchRow(**{"number": number, "id": str(number), "source": source, **fields}))

    problems: list[SourceProblem] = []

    def add_problems() -> None:
        for problem in problems:
            add(problem.name, error=_error(FormatError(problem.message, problem.name)))
        problems.clear()

    for source in expand(inputs):
        for document in documents(source, dialect, problems):
            add_problems()
            try:
                conversation = decode(document.data, dialect or document.dialect)
                request = _asked(conversation, options, reask=reask)
                add(document.name, request=plain(request), **_own_id(document.data))
            except InterlinguaError as error:
                add(document.name, error=_error(error), **_own_id(document.data))
        add_problems()
    if all(row.error is not None for row in rows):
        why = f": {rows[0].source}: {rows[0].error['message']}" if rows else ""
        raise FormatError(f"no conversation to ask a model about{why}", "INPUT")
    ids = [row.id for row in rows]
    if len(set(ids)) < len(ids):  # of the input: then the numbers are the ids
        rows = [replace(row, id=str(row.number)) for row in rows]
    return rows


def _own_id(data: Any) -> dict[str, str]:
    with contextlib.suppress(FormatError):
        value = read(data) if isinstance(data, bytes | str) else data
        if isinstance(value, dict) and isinstance(value.get("custom_id"), str):
            return {"id": value["custom_id"]}
    return {}


def _asked(conversation: Conversation, options: Options, *, reask: bool) -> Request:
    request = conversation.request()
    messages = request.context.messages
    while reask and messages and isinstance(messages[-1], AssistantMessage):
        messages = messages[:-1]
    if not messages:
        raise FormatError("no messages; a request needs at least one", "messages")
    if isinstance(messages[-1], AssistantMessage):
        raise FormatError("ends with an answer, nothing to ask; use --reask to drop that answer", "messages")
    given = {name: value for name in Options.__struct_fields__ if (value := getattr(options, name)) not in (None, {})}
    return replace(
        request,
        context=replace(request.context, messages=messages),
        options=replace(request.options, **{**given, "stream": None}),
    )


def _error(error: InterlinguaError) -> dict[str, Any]:
    fields = {"type": type(error).__name__, "message": str(error)}
    more = {name: value for name in ("status", "code") if (value := getattr(error, name, None))}
    return {**fields, **more, **({"transient": True} if passing(error) else {})}


# --- the folder of a batch --------------------------------------------------------------------------------------------


def batches_folder() -> Path:
    return home() / "batches"


def names() -> list[str]:
    """Returns the existing batches, oldest first."""
    found = [(path.stat().st_mtime, path.parent.name) for path in batches_folder().glob("*/batch.json")]
    return [name for _, name in sorted(found)]


class BatchJournal:
    """JSON lines that are on disk when `write` returns. An incomplete last line is removed."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> list[dict[str, Any]]:
        try:
            lines = read_regular(self._path, follow=False).split(b"\n")[:-1]
        except FileNotFoundError:
            return []
        try:
            return [read(line) for line in lines]
        except FormatError as error:
            raise InterlinguaError(f"{self._path}: damaged: {error}; remove its folder to start over") from None

    def write(self, **step: Any) -> None:
        try:
            with os.fdopen(open_regular(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND), "ab+") as file:
                if file.tell():
                    file.seek(-1, os.SEEK_END)
                    if file.read() != b"\n":
                        file.seek(0)
                        file.truncate(file.read().rfind(b"\n") + 1)
                file.write(write(step) + b"\n")
                synced(file)
        except OSError as error:
            raise InterlinguaError(f"{self._path}: not written: {reason(error)}") from error


class Batch:
    """A batch on disk and its operations. `client` provides the provider's connector."""

    def __init__(self, folder: Path, client: Client) -> None:
        self.folder = folder
        self.client = client
        self.journal = BatchJournal(folder / "journal.jsonl")
        try:
            self.manifest = load(read_regular(folder / "batch.json", follow=False), BatchManifest)
        except FileNotFoundError:
            known = ", ".join(names()) or "none"
            raise InterlinguaError(f"no batch {folder.name!r}; known batches: {known}") from None
        if self.manifest.version != VERSION:
            raise InterlinguaError(f"{folder}: of another version of Interlingua; use that one")

    @classmethod
    def open(cls, name: str, client: Client) -> "Batch":
        if not _NAME.fullmatch(name):
            raise InterlinguaError(f"invalid batch name {name!r}; use letters, digits, '-', '_' and '.'")
        return cls(batches_folder() / name, client)

    @classmethod
    async def create(
        cls, rows: list[BatchRow], model: str, client: Client, *, local: bool, name: str | None, call: CallOptions
    ) -> "Batch":
        """Creates the batch of these rows, or returns the existing one."""
        given = [model, local, call.base_url, [[row.id, row.request, row.error] for row in rows]]
        settings = {} if local else await _settings(model, client, call)
        digest = hashlib.sha256(write([*given, settings] if settings else given)).hexdigest()
        name = name or f"b-{digest[:12]}"
        if not _NAME.fullmatch(name):
            raise InterlinguaError(f"invalid batch name {name!r}; use letters, digits, '-', '_' and '.'")
        folder = batches_folder() / name
        if not (folder / "batch.json").exists():
            manifest = BatchManifest(
                name=name,
                digest=digest,
                model=model,
                created=now(),
                rows=len(rows),
                base_url=call.base_url,
                salt=secrets.token_hex(4),
                settings=settings,
            )
            if local:
                rows = await _with_losses(rows, model, client)
            else:
                rows, headers, parts = await _encoded(rows, manifest, client)
                manifest = replace(manifest, headers=headers, parts=parts)
            _write_folder(folder, manifest, rows)
        batch = cls(folder, client)
        if batch.manifest.digest != digest:
            raise InterlinguaError(f"the batch {name!r} has other requests, model or mode; choose another --name")
        return batch

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Locks this batch against other processes."""
        with os.fdopen(open_regular(self.folder / "lock", os.O_RDWR | os.O_CREAT), "ab") as lock:
            with contextlib.suppress(ImportError):  # Windows has none
                import fcntl

                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError:
                    raise InterlinguaError(
                        f"the batch {self.manifest.name!r} is in use by another process; wait for it"
                    ) from None
            yield

    def rows(self) -> list[BatchRow]:
        lines = read_regular(self.folder / "requests.jsonl", follow=False).splitlines()
        return [load(line, BatchRow) for line in lines]

    # --- over the provider's batch API ---

    async def submit(self, call: CallOptions) -> int:
        """Creates the missing batches at the provider, and returns their number."""
        if self.is_cancelled:
            raise InterlinguaError(
                f"the batch {self.manifest.name!r} was cancelled; --name NAME submits its requests as another batch"
            )
        api, calls = await self._api(call)
        rows: list[BatchRow] | None = None
        created = 0
        for number, (first, count) in enumerate(self.manifest.parts):
            steps = self._steps(number)
            if _batch_id(steps) is not None:
                continue
            rows = rows or self.rows()
            path = str(wire(calls.model.api).codec.path(calls.model.id, False))
            lines = [
                api.line(self._numbered(row.number), row.body, path)
                for row in rows[first : first + count]
                if row.error is None
            ]
            await self._submit_part(api, calls, number, lines, steps)
            created += 1
        return created

    async def _submit_part(
        self, api: BatchApi, calls: Calls, number: int, lines: list[bytes], steps: list[dict[str, Any]]
    ) -> None:
        part = self._part(number, lines, steps)
        id = await self._find(api, calls, number, part, steps)
        if id is None:
            self.journal.write(part=number, step="creating", at=now())
            try:
                id = await api.create(
                    calls,
                    part,
                    self.manifest.headers,
                    lambda file: self.journal.write(part=number, step="uploaded", file=file),
                )
            except InterlinguaError as error:
                if not is_uncertain(error):
                    self.journal.write(part=number, step="refused", error=_error(error))
                    raise
                raise InterlinguaError(
                    f"{error}; whether the batch was created is not known: submit again, which looks for it first"
                ) from error
        self.journal.write(part=number, step="created", batch=id)

    def _part(self, number: int, lines: list[bytes], steps: list[dict[str, Any]]) -> BatchPart:
        attempts = [step["at"] for step in steps if step["step"] == "creating"]
        return BatchPart(self._numbered(number), lines, min(attempts, default=now()), _uploaded(steps), bool(attempts))

    async def _find(
        self, api: BatchApi, calls: Calls, number: int, part: BatchPart, steps: list[dict[str, Any]]
    ) -> str | None:
        """Returns the batch of an interrupted attempt, or of one without a response."""
        # Each attempt is written before it is made: one without an outcome may have created the batch.
        if sum(step["step"] == "creating" for step in steps) <= sum(step["step"] == "refused" for step in steps):
            return None
        return await api.find(calls, part, {*_rejected(steps), *self._others(number)})

    async def _known(self, api: BatchApi, calls: Calls, number: int) -> str | None:
        """Returns the id of a part's batch, looked up at the provider if its creation was interrupted."""
        steps = self._steps(number)
        id = _batch_id(steps)
        if id is None:
            first, count = self.manifest.parts[number]
            lines = [b""] * sum(row.error is None for row in self.rows()[first : first + count])
            id = await self._find(api, calls, number, self._part(number, lines, steps), steps)
            if id is not None:
                self.journal.write(part=number, step="created", batch=id)
        return id

    @property
    def is_cancelled(self) -> bool:
        return any(step.get("step") == "cancelled" for step in self.journal.read())

    async def cancel(self, call: CallOptions) -> int:
        """Cancels the active batches at the provider, and returns their number. Missing ones are not created."""
        if self.manifest.is_local:
            raise InterlinguaError(
                f"the calls of the batch {self.manifest.name!r} are made by `batch submit`; interrupt that command"
            )
        api, calls = await self._api(call)
        asked = 0
        for number in range(len(self.manifest.parts)):
            id = await self._known(api, calls, number)
            if id is not None:
                if (await api.state(calls, id)).ended:
                    continue
                try:
                    await api.cancel(calls, id)
                except ProviderError:
                    if not (await api.state(calls, id)).ended:  # it is still running
                        raise
                asked += 1
            self.journal.write(part=number, step="cancelled")
        return asked

    async def delete(self, call: CallOptions, *, only_here: bool = False) -> None:
        """Deletes the batch: the provider's data, then its folder. After a kill, call it again."""
        if not self.manifest.is_local and not only_here:
            await self._delete_at_provider(call)
        gone = self.folder.parent / f".{self.folder.name}.{secrets.token_hex(4)}.deleted"
        self.folder.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)

    async def _delete_at_provider(self, call: CallOptions) -> None:
        api, calls = await self._api(call)
        left: dict[int, str | None] = {}
        for number in range(len(self.manifest.parts)):
            if any(step["step"] == "deleted" for step in self._steps(number)):
                continue
            left[number] = id = await self._known(api, calls, number)
            try:
                ended = id is None or (await api.state(calls, id)).ended
            except ProviderError as error:
                if error.status != 404:
                    raise
                left[number], ended = None, True  # the provider has deleted it itself
            if not ended:
                raise InterlinguaError(
                    f"the batch {self.manifest.name!r} has not ended; `batch cancel` it first, or wait until it has"
                )
        for number, id in left.items():
            await api.delete(calls, id, _uploaded(self._steps(number)))
            self.journal.write(part=number, step="deleted")

    async def progress(self, call: CallOptions) -> BatchProgress:
        """Returns the progress, queried from the provider where unknown."""
        if self.manifest.is_local:
            outcomes = self._outcomes()
            failed = sum("error" in outcome for outcome in outcomes.values())
            unsent = sum(row.error is not None for row in self.rows())
            return BatchProgress(rows=self.manifest.rows, answered=len(outcomes) - failed, failed=failed + unsent)
        api, calls = await self._api(call)
        states: list[tuple[str | None, State | None]] = []
        for number in range(len(self.manifest.parts)):
            id = _batch_id(self._steps(number))
            if self._results(number).exists():
                states.append((id, State("ended", True)))
            elif id is None and self.is_cancelled:
                states.append((id, State("cancelled", True, error=_NEVER_SENT)))
            else:
                states.append((id, await api.state(calls, id) if id is not None else None))
        return BatchProgress(rows=self.manifest.rows, states=states)

    async def fetch(self, call: CallOptions) -> BatchProgress:
        """Downloads the results of all ended batches whose results are missing here."""
        progress = await self.progress(call)
        if self.manifest.is_local:
            return progress
        api, calls = await self._api(call)
        for number, (id, state) in enumerate(progress.states):
            if state is None or not state.ended or self._results(number).exists():
                continue
            outcomes = await api.results(calls, id) if id is not None else []
            first, count = self.manifest.parts[number]
            ours = {self._numbered(at + 1) for at in range(first, first + count)}
            if outcomes and not any(outcome.id in ours for outcome in outcomes):
                # Found by its time and size alone, and another's: ours was not created.
                self.journal.write(part=number, step="rejected", batch=id)
                raise InterlinguaError(
                    f"{id} is not of the batch {self.manifest.name!r}, whose creation was cut off; submit it again"
                )
            with atomic(self._results(number), private=True) as file:
                file.write(write({"error": state.error}) + b"\n")
                for outcome in outcomes:
                    file.write(write(outcome._asdict()) + b"\n")
        return progress

    async def answers(self) -> Iterator[RowAnswer]:
        """Yields every row with an outcome, in input order, at the batch price."""
        await warm()
        return self._local_answers() if self.manifest.is_local else self._provider_answers()

    def _provider_answers(self) -> Iterator[RowAnswer]:
        connector, _ = self.client.find_known(self.manifest.model, default())
        assert isinstance(connector, HttpConnector)
        rows = self.rows()
        for number, (first, count) in enumerate(self.manifest.parts):
            if not self._results(number).exists():
                continue
            head, *lines = map(read, read_regular(self._results(number), follow=False).splitlines())
            found = {line["id"]: line for line in lines}
            for row in rows[first : first + count]:
                outcome = found.get(self._numbered(row.number), {"error": head["error"] or "no answer in the results"})
                yield _answer(row, outcome, connector)

    async def _api(self, call: CallOptions) -> tuple[BatchApi, Calls]:
        await warm()
        api, connector, model = _batch_api(self.manifest.model, self.client)
        settings = {**self.manifest.settings, **(call.settings or {})}
        call = replace(call, base_url=call.base_url or self.manifest.base_url, settings=settings or None)
        return api, api.calls(connector, model, call)

    def _results(self, number: int) -> Path:
        return self.folder / f"part-{number}.jsonl"

    def _steps(self, number: int) -> list[dict[str, Any]]:
        return [step for step in self.journal.read() if step.get("part") == number]

    def _others(self, number: int) -> set[str]:
        """Batches at the provider that are known to be other parts."""
        return {step["batch"] for step in self.journal.read() if "batch" in step and step["part"] != number}

    def _numbered(self, number: int) -> str:
        """The id of a row, or of a part, at the provider. The token distinguishes batches."""
        return f"{_token(self.manifest)}-{number}"

    # --- over ordinary calls ---

    async def run(self, call: dict[str, Any], *, jobs: int, rate: float | None = None) -> int:
        """Sends every row without an answer, `jobs` concurrently and `rate` per minute; returns how many were sent
        again because a kill had interrupted them.

        A rate limit delays all of them. An invalid key or an empty account ends the run, once active calls have ended:
        nothing is lost.
        """
        done = self._outcomes()
        last = {step["row"]: step["step"] for step in self.journal.read()}
        cut = [row for row, step in last.items() if step == "asked"]
        # A failure of the moment is worth another try.
        waiting = iter(
            [
                row
                for row in self.rows()
                if row.error is None
                and (row.number not in done or (done[row.number].get("error") or {}).get("transient"))
            ]
        )
        pace = _Pace(rate)
        given = {**call, "base_url": call.get("base_url") or self.manifest.base_url}

        fatal: list[InterlinguaError] = []

        async def work() -> None:
            try:
                await ask()
            except InterlinguaError as error:  # the journal cannot be written
                fatal.append(error)

        async def ask() -> None:
            for row in waiting:
                request = build(row.request, Request)
                await pace.wait()
                if fatal:
                    return
                self.journal.write(row=row.number, step="asked")
                try:
                    message = await self._ask(request, given, pace)
                except (AuthFailed, RateLimited) as error:
                    if isinstance(error, RateLimited) and passing(error):
                        self.journal.write(row=row.number, step="answered", error=_error(error))
                        continue
                    self.journal.write(row=row.number, step="stopped")
                    fatal.append(error)
                    return
                except InterlinguaError as error:
                    self.journal.write(row=row.number, step="answered", error=_error(error))
                    continue
                self.journal.write(row=row.number, step="answered", message=plain(message))

        async with asyncio.TaskGroup() as group:
            for _ in range(jobs):
                group.create_task(work())
        if fatal:
            raise fatal[0]
        return len(cut)

    async def _ask(self, request: Request, call: dict[str, Any], pace: "_Pace") -> AssistantMessage:
        for _ in range(MAX_WAITS):
            try:
                answer: AssistantMessage = await self.client.complete(self.manifest.model, request, **call)
            except InterlinguaError as error:
                if not (passing(error) and asks_to_wait(error)) and getattr(error, "code", None) != CIRCUIT_OPEN:
                    raise
                pace.pause(wait_of(error) or 5.0)
                await pace.wait()
            else:
                return answer
        raise InterlinguaError(f"{self.manifest.model} still limits its callers after {MAX_WAITS} waits; submit again")

    def _outcomes(self) -> dict[int, dict[str, Any]]:
        """The last outcome of each row."""
        return {step["row"]: step for step in self.journal.read() if step.get("step") == "answered"}

    def _local_answers(self) -> Iterator[RowAnswer]:
        outcomes = self._outcomes()
        for row in self.rows():
            outcome = outcomes.get(row.number, {})
            if (error := row.error or outcome.get("error")) is not None:
                yield RowAnswer(row=row, message=failure(error), error=error)
            elif outcome:
                yield RowAnswer(row=row, message=build(outcome["message"], AssistantMessage))


class _Pace:
    """Limits the call rate, and pauses while the provider requests a delay."""

    def __init__(self, rate: float | None) -> None:
        self._gap = 60.0 / rate if rate else 0.0
        self._next = 0.0

    def pause(self, seconds: float) -> None:
        self._next = max(self._next, time.monotonic() + seconds)

    async def wait(self) -> None:
        while (left := self._next - time.monotonic()) > 0:
            await asyncio.sleep(left)
        self._next = time.monotonic() + self._gap


# --- encoding and decoding --------------------------------------------------------------------------------------------


def _batch_api(model: str, client: Client) -> tuple[BatchApi, HttpConnector, ModelDescriptor]:
    connector, described = client.find_known(model, default())
    api = BATCH_APIS.get(connector.provider)
    if api is None or not isinstance(connector, HttpConnector):
        raise InterlinguaError(
            f"no batch API for {connector.provider}; available for {', '.join(BATCH_APIS)}; "
            "--jobs N makes ordinary calls, N at a time"
        )
    return api, connector, described


async def _settings(model: str, client: Client, call: CallOptions) -> dict[str, str]:
    await warm()
    api, connector, described = _batch_api(model, client)
    return await asyncio.to_thread(api.settings, connector, described, call)


async def _encoded(
    rows: list[BatchRow], manifest: BatchManifest, client: Client
) -> tuple[list[BatchRow], dict[str, str], list[list[int]]]:
    """The rows with their bodies, the headers that they need, and the first row and the number of rows of each part."""
    await warm()
    api, connector, described = _batch_api(manifest.model, client)
    target = wire(described.api)
    path = str(target.codec.path(described.id, False))
    headers: dict[str, set[str]] = {}
    encoded: list[BatchRow] = []
    parts: list[list[int]] = []
    size = sendable = 0
    for at, row in enumerate(rows):
        length = 0
        if row.error is None:
            request = _for_model(build(row.request, Request), described)
            try:
                body, _, losses = connector.body(target, request)
                body.pop("stream", None)  # responses of a batch are never streamed
                row = replace(row, request=plain(request), body=body, losses=_reported(losses))
                length = len(api.line(f"{_token(manifest)}-{row.number}", body, path)) + 1
                if length > api.max_bytes:
                    raise FormatError(f"a request of {length:,} bytes; the limit is {api.max_bytes:,}", row.source)
                if connector.row.request_headers is not None:
                    for field, value in connector.row.request_headers(request, None).items():
                        headers.setdefault(field, set()).update(value.split(","))
            except InterlinguaError as error:
                row, length = replace(row, body=None, error=_error(error)), 0
        if not parts or (length and (sendable >= api.max_requests or size + length > api.max_bytes)):
            parts.append([at, 0])
            size = sendable = 0
        parts[-1][1] += 1
        size += length
        sendable += length > 0
        encoded.append(row)
    if all(row.error is not None for row in encoded):
        raise FormatError(f"no request can be sent: {encoded[0].error['message']}", encoded[0].source)
    if len(parts) > 1 and (missing := api.min_requests - parts[-1][1]) > 0:  # of those that the part before has
        parts[-2][1] -= missing
        parts[-1] = [parts[-1][0] - missing, parts[-1][1] + missing]
    return encoded, {field: ",".join(sorted(values)) for field, values in headers.items()}, parts


def _for_model(request: Request, model: ModelDescriptor) -> Request:
    """A row's request as it is sent to this model."""
    options = replace(request.options, stream=False, extra={})
    # What only one wire has is part of the body.
    return replace(request, model=model, options=options, extra={**request.extra, **request.options.extra})


def _reported(losses: Iterable[Loss]) -> list[Loss]:
    return [loss for loss in losses if loss.severity != "record"]


async def _with_losses(rows: list[BatchRow], model: str, client: Client) -> list[BatchRow]:
    """The rows of ordinary calls with what their requests lose. A request that cannot be sent fails in its call."""
    await warm()
    connector, described = client.find_known(model, default())
    if not isinstance(connector, HttpConnector):
        return rows
    target = wire(described.api)
    found = []
    for row in rows:
        if row.error is None:
            with contextlib.suppress(InterlinguaError):
                losses = connector.body(target, _for_model(build(row.request, Request), described))[2]
                row = replace(row, losses=_reported(losses))
        found.append(row)
    return found


def _answer(row: BatchRow, outcome: dict[str, Any], connector: HttpConnector) -> RowAnswer:
    """The answer to a row, decoded as one of an ordinary call is, at the batch price."""
    error = row.error
    if error is None and outcome.get("error") is None:
        request = build(row.request, Request)
        target = wire(request.model.api)

        def mint(number: int) -> str:
            """Ids of calls that came without one are the same each time the results are read."""
            return f"call_{row.number}_{number}"

        try:
            message = decode_answer(target, request.model, outcome.get("body"), mint, provider=connector.provider)
            restore = connector.body(target, request)[1]
            if restore is not None:
                message = replace(message, content=tuple(map(restore, blocks_of(message.content))))
            return RowAnswer(row=row, message=_priced(message, request))
        except InterlinguaError as problem:
            error = _error(problem)
    if error is None:
        given = outcome["error"]
        text = failure(given).error_message
        inner = given.get("error") if isinstance(given, dict) and isinstance(given.get("error"), dict) else given
        kind = (inner.get("type") or inner.get("code")) if isinstance(inner, dict) else None
        error = {"type": str(kind or "error"), "message": text}
    return RowAnswer(row=row, message=failure(error["message"]), error=error)


def _priced(message: AssistantMessage, request: Request) -> AssistantMessage:
    """The message with its cost. Batches cost half (`prices.TIER_FACTORS`), whatever tier the answer names: OpenAI's
    say `default` there."""
    if message.usage is None:
        return message
    cost = default().cost(message.usage, request.model, at=message.timestamp, service_tier="batch")
    return message if cost is None else replace(message, usage=replace(message.usage, cost=cost))


def _token(manifest: BatchManifest) -> str:
    # Anthropic takes 64 of [A-Za-z0-9_-] as the id of a row, which begins with this.
    given = " ".join(filter(None, (manifest.name, manifest.digest, manifest.salt)))
    return "il-" + hashlib.sha256(given.encode()).hexdigest()[:16]


# --- steps of the journal ---------------------------------------------------------------------------------------------


def _batch_id(steps: list[dict[str, Any]]) -> str | None:
    rejected = _rejected(steps)
    created = (step["batch"] for step in steps if step["step"] == "created" and step["batch"] not in rejected)
    return next(created, None)


def _uploaded(steps: list[dict[str, Any]]) -> str | None:
    return next((step["file"] for step in reversed(steps) if step["step"] == "uploaded"), None)


def _rejected(steps: list[dict[str, Any]]) -> set[str]:
    return {step["batch"] for step in steps if step["step"] == "rejected"}


def _write_folder(folder: Path, manifest: BatchManifest, rows: Iterable[BatchRow]) -> None:
    """The folder of a new batch; it appears whole or not at all."""
    private_folder(folder.parent)
    made = folder.parent / f".{folder.name}.{secrets.token_hex(4)}.new"
    made.mkdir(mode=0o700)
    try:
        with atomic(made / "requests.jsonl", private=True) as file:
            for row in rows:
                file.write(dump(row) + b"\n")
        with atomic(made / "batch.json", private=True) as file:
            file.write(dump(manifest) + b"\n")
        # rename(2) is atomic, and the folder must be on disk before a batch is paid for.
        made.rename(folder)
        handle = os.open(folder.parent, os.O_RDONLY)
        os.fsync(handle)
        os.close(handle)
    except OSError as error:
        shutil.rmtree(made, ignore_errors=True)
        if not (folder / "batch.json").exists():  # else another process has created it
            raise InterlinguaError(f"{folder}: not written: {reason(error)}") from error
