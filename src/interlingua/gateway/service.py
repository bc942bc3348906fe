"""A gateway as `interlingua serve` runs it: with keys, limits, ledger, log, metrics and recording, from one file."""

import asyncio
import contextlib
import gc
import hmac
import ipaddress
import itertools
import logging
import time
from pathlib import Path
from typing import Any

from aiohttp import web
from msgspec.structs import replace

from ..connect import models, telemetry
from ..serving import guard
from ..serving.listener import is_loopback
from ..serving.problems import HttpProblem
from ..values import jsontext
from ..values.errors import InterlinguaError
from ..values.places import home
from .access_log import AccessLog
from .accounts import READ, Accounts
from .exchange import Exchange, Observer, safe_name
from .gate import KeyGate
from .keys import ClientKeys
from .ledger import Ledger
from .metrics import CONTENT_TYPE, Metrics
from .recall import Recall
from .recall_store import RecallStore, open_recall
from .recorder import Recorder, recorder_of
from .server import Gateway
from .settings_file import ServeSettings, load_settings, resolved_address
from .state import StateError, StateStore, VersionedValue, log_failure, open_state

DRAIN = 30.0  # seconds that open exchanges have after SIGTERM
_WATCH = 1.0  # seconds between two looks at the settings file, and two files of a worker's metrics
# Seconds until the ledger adopts journals again: first those that a starting process of a killed gateway still locked.
_RECOVER = (5.0, 300.0)
_READY = "ready\n"  # written by probes; no key has such a name
_PROBE = 1.0  # seconds for which the store's answer to a probe counts

_log = logging.getLogger(__name__)


class _Traces:
    """Creates a span for each exchange, if telemetry is on."""

    async def observe(self, exchange: Exchange) -> None:
        self.note(exchange)

    def note(self, exchange: Exchange) -> None:
        if telemetry.is_enabled() and exchange.model is not None and exchange.request is not None and exchange.attempts:
            answer = exchange.answer
            if answer is not None:  # its own usage is that of a part, if it was cut
                answer = replace(answer, usage=exchange.usage, model=answer.model and safe_name(answer.model))
            telemetry.record(
                replace(exchange.model, id=safe_name(exchange.model.id)),
                exchange.request,
                answer,
                exchange.error,
                started=exchange.started,
                first=exchange.first_byte,
                finished=exchange.finished or time.time(),
            )


class Service:
    """Everything around a `Gateway`, started and stopped together. `folder` has the keys, and by default the ledger."""

    def __init__(
        self,
        settings: ServeSettings,
        folder: Path,
        *,
        config: Path | None = None,
        metrics_folder: Path | None = None,
        **given: Any,
    ) -> None:
        self.settings = settings
        self._config = config
        self._seen = self._changes()
        self._in_file: ServeSettings | None = None  # as read; options of the command line take precedence
        if config is not None:
            with contextlib.suppress(InterlinguaError):
                self._in_file = load_settings(config)
        listen, state = settings.gateway.listen, settings.state
        is_local = listen.unix is not None or is_loopback(listen.host)
        database = f"sqlite:{folder / 'gateway.db'}"
        self.keys = ClientKeys(
            Path(state.keys).expanduser() if state.keys is not None else folder / "keys.json", is_open=is_local
        )
        if not is_local and not self.keys.has_any():
            raise InterlinguaError(
                f"without keys the gateway listens only on loopback addresses, not on {listen.host};"
                " make one first: interlingua serve keys add NAME"
            )
        self.ledger = Ledger(resolved_address(state.ledger or database), folder)
        self._store: StateStore = open_state(resolved_address(state.limits or database), self.ledger.database)
        self.accounts = Accounts(self._store, seed=self.ledger.spent)
        self.metrics = Metrics(lambda: self.gateway.open_exchanges, metrics_folder, self._unrecorded)
        self.recorder: Recorder | None = recorder_of(settings.recording, self.metrics.count_recorder)
        self._log = AccessLog(settings.log.access) if settings.log.access else None
        size = settings.gateway.recall_bytes
        self._recall = _shared_recall(settings, folder) if size > 0 else None
        observers: list[Observer | None] = [self.ledger, self.metrics, _Traces(), self._log, self.recorder]
        self.gateway = Gateway(
            settings.gateway,
            gate=KeyGate(self.keys, self.accounts, self.ledger),
            observers=[one for one in observers if one is not None],
            recall=Recall(size, self._recall),
            **given,
        )
        self.gateway.routes |= {
            ("GET", "/healthz"): self._healthz,
            ("GET", "/readyz"): self._readyz,
            ("GET", "/metrics"): self._metrics,
        }
        self._is_draining = False
        self._probed: tuple[float, str | None] = (0.0, None)
        self._watchers: list[asyncio.Task[None]] = []

    def _unrecorded(self) -> int:
        return self.recorder.waiting if self.recorder is not None else 0

    # --- life --------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        if self.settings.log.telemetry and not telemetry.is_enabled():
            telemetry.enable()
            if not telemetry.has_provider():
                _log.warning(
                    "[log] telemetry has no effect: this process has no OpenTelemetry provider;"
                    " start it with opentelemetry-instrument"
                )
        # Before the first request: what killed gateways had charged counts against budgets.
        self.ledger.recover()
        await self.gateway.start()
        self._watchers.append(asyncio.ensure_future(self._recover()))
        self._watchers.append(asyncio.ensure_future(self._watch()))

    async def drain(self, seconds: float = DRAIN) -> None:
        """Accepts no new connections, and waits for active exchanges."""
        self._is_draining = True
        await self.gateway.drain(seconds)

    async def stop(self) -> None:
        for watcher in self._watchers:
            watcher.cancel()
        await asyncio.gather(*self._watchers, return_exceptions=True)
        # First the gateway, so that nothing new comes; then what its last exchanges are written to.
        await self.gateway.stop()
        if self.recorder is not None:
            await self.recorder.close()
        await self.accounts.close()
        await self._store.close()
        await self.ledger.close()
        if self._recall is not None:
            await self._recall.close()
        self.metrics.save()
        if self._log is not None:
            self._log.close()

    async def __aenter__(self) -> "Service":
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def _recover(self) -> None:
        for pause in itertools.chain(_RECOVER, itertools.repeat(_RECOVER[-1])):
            await asyncio.sleep(pause)
            self.ledger.recover()

    # --- other settings ----------------------------------------------------------------------------------------------

    async def reload(self) -> bool:
        """Reloads the settings file and `models.toml`. Errors are logged, and the settings stay unchanged.

        Active exchanges keep the old settings. The listener and the state stores do not change while it runs.
        """
        if self._log is not None:
            with contextlib.suppress(OSError):
                self._log.reopen()
        before, seen = self._in_file or self.settings, self._seen
        self._seen = self._changes()
        if self._config is None and self._seen == seen:
            return False
        try:
            read = before if self._config is None else _unless_empty(self._config)
            gateway = replace(read.gateway, listen=self.settings.gateway.listen)
            models.load_overrides()  # raises if it is invalid
            models.reload()
            await self.gateway.reload(gateway)
        except InterlinguaError as error:
            _log.error("the settings are not taken: %s", error)
            return False
        fixed = [name for name in ("state", "recording", "log") if getattr(read, name) != getattr(before, name)]
        fixed += ["listen"] if read.gateway.listen != before.gateway.listen else []
        if fixed:
            _log.warning("changes of %s count after a restart", ", ".join(f"[{name}]" for name in fixed))
        is_new = read != self._in_file or self._seen[1] != seen[1]
        self._in_file = read
        self.settings = replace(self.settings, gateway=gateway)
        _log.warning("the settings were read again" if is_new else "the settings have not changed")
        return True

    async def _watch(self) -> None:
        before = self._seen
        while True:
            await asyncio.sleep(_WATCH)
            self.metrics.save()
            found = self._changes()
            if found != self._seen and found == before:  # who writes in pieces has finished
                await self.reload()
            before = found

    def _changes(self) -> tuple[object, object]:
        """The states of the settings file and of `models.toml`."""
        return _changed(self._config), _changed(home() / "models.toml")

    # --- how it is ---------------------------------------------------------------------------------------------------

    async def _healthz(self, http: web.BaseRequest) -> web.Response:
        return web.Response(text="ok\n")

    async def _readyz(self, http: web.BaseRequest) -> web.Response:
        """Whether requests can be served. The reason is only in the log: the caller has shown no key."""
        problem = (
            "draining" if self._is_draining else "ledger" if self.ledger.failure is not None else await self._probe()
        )
        body = jsontext.write({"ready": problem is None, **({"problem": problem} if problem else {})})
        return web.Response(body=body, status=200 if problem is None else 503, content_type="application/json")

    async def _probe(self) -> str | None:
        at, problem = self._probed
        if time.monotonic() - at > _PROBE:
            try:
                found = (await self._store.swap({_READY: READ}))[_READY]
                await self._store.swap({_READY: VersionedValue(found.version, b"-")})  # a full store can still be read
                problem = None
            except StateError as error:
                log_failure("the limits of keys cannot be written", error)
                problem = "limits"
            self._probed = (time.monotonic(), problem)
        return problem

    async def _metrics(self, http: web.BaseRequest) -> web.Response:
        if not self._may_read_metrics(http):
            text = "send the token of [log] metrics_token as `Authorization: Bearer …`\n"
            if self.settings.log.metrics_token is None:
                text = "metrics are read from this machine, without a proxy; set [log] metrics_token for others\n"
            return web.Response(status=403, text=text)
        return web.Response(body=self.metrics.exposition(), headers={"Content-Type": CONTENT_TYPE})

    def _may_read_metrics(self, http: web.BaseRequest) -> bool:
        """Metrics name every key and model: they are for the operator, not for clients."""
        reference = self.settings.log.metrics_token
        if reference is not None:
            sent = http.headers.get("Authorization", "").removeprefix("Bearer ").strip()
            return hmac.compare_digest(sent.encode(), resolved_address(reference).encode())
        # A proxy on this machine passes on what comes from elsewhere.
        if any(name in http.headers for name in ("Forwarded", "X-Forwarded-For", "Via")):
            return False
        peer = http.transport.get_extra_info("peername") if http.transport is not None else None
        if not isinstance(peer, tuple):  # a Unix socket: the file's permissions decide
            return self.settings.gateway.listen.unix is not None
        try:  # a page of another site, whose name it has bound to this machine
            guard.refuse_foreign_host(http)
            guard.refuse_foreign_origin(http)
        except HttpProblem:
            return False
        return ipaddress.ip_address(peer[0]).is_loopback


def relax_gc() -> None:
    """Makes garbage collection rare in a process that only serves.

    Loaded modules stay, and exchanges leave almost no cycles. Collecting took a tenth of the time of a call.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


def _shared_recall(settings: ServeSettings, folder: Path) -> RecallStore | None:
    """Returns where workers and gateways share responses: its own address, that of the limits, or a file for several
    workers.
    """
    several = f"sqlite:{folder / 'recall.db'}" if settings.gateway.listen.reuse_port else None
    address = resolved_address(settings.state.recall or settings.state.limits or several or "memory:")
    return None if address == "memory:" else open_recall(address, settings.gateway.recall_bytes)


def _unless_empty(path: Path) -> ServeSettings:
    """Loads other settings. An empty file is refused: it is one that is being written, and would serve nobody."""
    read = load_settings(path)
    if (found := _changed(path)) is not None and found[1] == 0:
        raise InterlinguaError(f"{path}: it is empty; write the settings into it, or restart")
    return read


def _changed(path: Path | None) -> tuple[int, int, int] | None:
    try:
        found = path.stat() if path is not None else None
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_size, found.st_ino) if found is not None else None
