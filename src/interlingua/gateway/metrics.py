"""Prometheus metrics, in its text format (prometheus.io/docs/instrumenting/exposition_formats).

Labels have few values: known keys and models, never names invented by a client. Several workers sum their metrics
through files, since a scrape reaches only one of them.
"""

import contextlib
import os
from bisect import bisect_left
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec
from msgspec import Struct, field

from ..serving.access import write_private
from ..values.regular import read_regular
from .accounts import NANO
from .exchange import Exchange, safe_name
from .ledger import charged_cost

# The version of the text format is part of the type: Prometheus selects its parser by it.
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)  # seconds
_PREFIX = "interlingua_gateway"
_MODELS = 500  # that have numbers of their own

_HELP = {
    "requests_total": ("counter", "Requests, by how they ended"),
    "tokens_total": ("counter", "Tokens in disjoint buckets"),
    "cost_dollars_total": ("counter", "What answers with a known price cost"),
    "losses_total": ("counter", "Losses in conversions between formats"),
    "cache_breaks_total": ("counter", "Prompts whose beginning is not what was sent before"),
    "errors_total": ("counter", "Requests that ended with an error, by its kind"),
    "aborted_total": ("counter", "Requests whose client left"),
    "estimated_total": ("counter", "Requests whose usage is an estimate"),
    "attempts_total": ("counter", "Calls of providers"),
    "unrecorded_total": ("counter", "Exchanges that are not in the recording, by reason"),
    "recorder_restarts_total": ("counter", "Times that the recorder's process ended and was started again"),
    "request_seconds": ("histogram", "Time from a request to the end of its answer"),
    "first_byte_seconds": ("histogram", "Time from a request to the first byte of its answer"),
}
_LABELS = {
    "requests_total": ("key", "model", "wire", "lane", "status"),
    "tokens_total": ("key", "model", "kind"),
    "cost_dollars_total": ("key", "model"),
    "losses_total": ("wire", "severity"),
    "cache_breaks_total": ("key", "model"),
    "errors_total": ("wire", "error"),
    "aborted_total": ("wire",),
    "estimated_total": ("wire",),
    "attempts_total": ("model",),
    "unrecorded_total": ("reason",),
    "recorder_restarts_total": (),
    "request_seconds": ("wire",),
    "first_byte_seconds": ("wire",),
}


class Histogram(Struct):
    counts: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS) + 1))
    total: float = 0.0

    def add(self, value: float) -> None:
        self.counts[bisect_left(BUCKETS, value)] += 1
        self.total += value


class Numbers(Struct):
    """Everything counted so far; labels in the order of `_LABELS`."""

    counters: dict[str, dict[tuple[str, ...], float]] = field(default_factory=dict)
    histograms: dict[str, dict[tuple[str, ...], Histogram]] = field(default_factory=dict)
    open: int = 0
    unwritten: int = 0
    pid: int = 0  # of the worker

    def count(self, name: str, labels: tuple[str, ...], amount: float = 1.0) -> None:
        found = self.counters.setdefault(name, {})
        found[labels] = found.get(labels, 0.0) + amount

    def measure(self, name: str, labels: tuple[str, ...], value: float) -> None:
        found = self.histograms.setdefault(name, {})
        histogram = found.get(labels)
        if histogram is None:
            histogram = found[labels] = Histogram()
        histogram.add(max(0.0, value))

    def merge(self, other: "Numbers") -> None:
        for name, counted in other.counters.items():
            for labels, amount in counted.items():
                self.count(name, labels, amount)
        for name, measured in other.histograms.items():
            for labels, histogram in measured.items():
                own = self.histograms.setdefault(name, {}).setdefault(labels, Histogram())
                own.counts = [a + b for a, b in zip(own.counts, histogram.counts, strict=True)]
                own.total += histogram.total
        self.open += other.open
        self.unwritten += other.unwritten


class _Totals(Struct):
    """The sums of exchanges that have all labels in common: one look-up for each of them."""

    requests: int = 0
    attempts: int = 0
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cost: int | None = None  # billionths of a dollar, as in the ledger: sums do not depend on their order


class Metrics:
    """Counts exchanges. `open_exchanges` returns how many are on their way, `unwritten` how many are not recorded yet;
    `folder` is shared by the workers."""

    def __init__(
        self,
        open_exchanges: Callable[[], int] = lambda: 0,
        folder: Path | None = None,
        unwritten: Callable[[], int] = lambda: 0,
    ) -> None:
        self._numbers = Numbers()
        self._totals: dict[tuple[str, str, str, str, int], _Totals] = {}  # key, model, wire, lane, status
        self._models: set[str] = set()
        self._open = open_exchanges
        self._unwritten = unwritten
        self._file = folder / f"worker-{os.getpid()}.metrics" if folder is not None else None
        self._saved = b""

    async def observe(self, exchange: Exchange) -> None:
        self.note(exchange)

    def note(self, exchange: Exchange) -> None:
        numbers, wire = self._numbers, exchange.wire.api
        model = (
            self._label(f"{exchange.model.provider}/{exchange.model.id}") if exchange.model is not None else "unknown"
        )
        labels = (exchange.key.name, model, wire, exchange.lane, exchange.status)
        totals = self._totals.get(labels)
        if totals is None:
            totals = self._totals[labels] = _Totals()
        totals.requests += 1
        totals.attempts += exchange.attempts
        usage = exchange.usage
        if usage is not None:
            totals.input += usage.input
            totals.output += usage.output
            totals.cache_read += usage.cache_read
            totals.cache_write += usage.cache_write
        cost = charged_cost(exchange)
        if cost is not None:
            totals.cost = (totals.cost or 0) + cost
        if exchange.losses:
            severities = [loss.severity for loss in exchange.losses]
            for severity in set(severities):
                numbers.count("losses_total", (wire, severity), severities.count(severity))
        if exchange.cache_break is not None:
            numbers.count("cache_breaks_total", (labels[0], self._label(exchange.cache_break.model)))
        if exchange.error is not None:
            numbers.count("errors_total", (wire, type(exchange.error).__name__))
        if exchange.is_aborted:
            numbers.count("aborted_total", (wire,))
        if exchange.is_estimated:
            numbers.count("estimated_total", (wire,))
        if exchange.finished is not None:
            numbers.measure("request_seconds", (wire,), exchange.finished - exchange.started)
        if exchange.first_byte is not None:
            numbers.measure("first_byte_seconds", (wire,), exchange.first_byte - exchange.started)

    def count_recorder(self, event: str) -> None:
        """Counts a restart of the recorder, or an exchange that it did not record, by the reason."""
        if event == "restart":
            self._numbers.count("recorder_restarts_total", ())
        else:
            self._numbers.count("unrecorded_total", (event,))

    def _label(self, model: str) -> str:
        """The name of a model; `other` for those beyond the first so many, since a provider's may be made up."""
        model = safe_name(model)
        if model not in self._models:
            if len(self._models) >= _MODELS:
                return "other"
            self._models.add(model)
        return model

    def _summed(self) -> Numbers:
        """Returns all metrics of this process."""
        numbers = Numbers()
        numbers.merge(self._numbers)
        for (key, model, wire, lane, status), totals in self._totals.items():
            numbers.count("requests_total", (key, model, wire, lane, str(status)), totals.requests)
            if totals.attempts:
                numbers.count("attempts_total", (model,), totals.attempts)
            for kind in ("input", "output", "cache_read", "cache_write"):
                if amount := getattr(totals, kind):
                    numbers.count("tokens_total", (key, model, kind), amount)
            if totals.cost is not None:
                numbers.count("cost_dollars_total", (key, model), totals.cost)
        numbers.open = self._open()
        numbers.unwritten = self._unwritten()
        numbers.pid = os.getpid()
        return numbers

    def save(self) -> None:
        """Writes what has changed for the other workers; called every second."""
        if self._file is not None and (data := msgspec.msgpack.encode(self._summed())) != self._saved:
            with contextlib.suppress(OSError):  # numbers are not worth a request
                write_private(self._file, data)
                self._saved = data

    def exposition(self) -> bytes:
        """Returns all metrics, including the other workers'."""
        numbers = self._summed()
        for path in self._file.parent.glob("*.metrics") if self._file is not None else ():
            if path != self._file:
                with contextlib.suppress(OSError, msgspec.MsgspecError):
                    other = msgspec.msgpack.decode(read_regular(path), type=Numbers)
                    if not _runs(other.pid):  # what it counted remains; its open requests ended with it
                        other.open = other.unwritten = 0
                    numbers.merge(other)
        return "".join(_lines(numbers)).encode()


def _runs(pid: int) -> bool:
    try:
        # kill(2): signal 0 only checks whether the process exists.
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _lines(numbers: Numbers) -> Iterable[str]:
    for name, (kind, text) in _HELP.items():
        yield f"# HELP {_PREFIX}_{name} {text}\n# TYPE {_PREFIX}_{name} {kind}\n"
        if kind == "counter":
            for labels, amount in numbers.counters.get(name, {}).items():
                value = amount / NANO if name == "cost_dollars_total" else amount
                yield f"{_PREFIX}_{name}{_text(_LABELS[name], labels)} {value:.17g}\n"
        else:
            for labels, histogram in numbers.histograms.get(name, {}).items():
                yield from _histogram(name, labels, histogram)
    yield f"# HELP {_PREFIX}_open_requests Requests on their way\n# TYPE {_PREFIX}_open_requests gauge\n"
    yield f"{_PREFIX}_open_requests {numbers.open}\n"
    yield f"# HELP {_PREFIX}_unwritten_records Exchanges that the recorder has yet to write\n"
    yield f"# TYPE {_PREFIX}_unwritten_records gauge\n{_PREFIX}_unwritten_records {numbers.unwritten}\n"


def _histogram(name: str, labels: tuple[str, ...], histogram: Histogram) -> Iterable[str]:
    # Buckets are cumulative: each counts all observations up to its limit, the last one, `+Inf`, all.
    total = 0
    for limit, count in zip((*BUCKETS, float("inf")), histogram.counts, strict=True):
        total += count
        le = "+Inf" if limit == float("inf") else f"{limit:g}"
        yield f"{_PREFIX}_{name}_bucket{_text((*_LABELS[name], 'le'), (*labels, le))} {total}\n"
    yield f"{_PREFIX}_{name}_sum{_text(_LABELS[name], labels)} {histogram.total:.17g}\n"
    yield f"{_PREFIX}_{name}_count{_text(_LABELS[name], labels)} {total}\n"


def _text(names: tuple[str, ...], values: tuple[str, ...]) -> str:
    if not names:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in zip(names, values, strict=True)) + "}"


def _escaped(value: str) -> str:
    # The format's own rules for the value of a label.
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
