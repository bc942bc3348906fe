"""docs/performance.md, written from results."""

from pathlib import Path
from typing import Any

import report

_PAGE = """\
# Performance

How much processor time Interlingua takes, beside two things: the *limit*, which is the least that hand-written code
needs for the same work, and its *peers*, the packages that people use for it today.

This page is written by `bench/run.py` from measured results; the numbers are not edited.

## Targets

{verdict}

{misses}

## Run it again

```console
make bench                              # or: .venv/bin/python bench/run.py
.venv/bin/python bench/run.py --quick   # four minutes instead of about half an hour
.venv/bin/python bench/run.py --only gemini
.venv/bin/python bench/run.py --write-docs
```

The command makes one environment for each peer under `bench/.envs/`, from the lock file with hashes in `bench/envs/`.
It prints these tables and writes `bench/results/latest.json`; `--write-docs` turns that file into this page, and
`--lock` resolves the lock files to the newest versions.

## Requests

One agent conversation of 101 messages as the bytes of a request: 20 turns of user, assistant (thinking, text, two
calls), two results of 2 KB, assistant; a system prompt of 6 KB, two images of 50 KB, 20 tools; about 260 KB.
Interlingua starts from its own `Request` and ends with bytes, its check for numbers that JSON cannot say included: a
NaN would be written as `null`, so where that word occurs, the values are looked at one by one (second row).
The limit writes exactly the same body (the run compares them). A peer is called in public, not streaming, with the
network replaced below it. `anthropic`, `openai`, `google-genai` and `boto3` are handed a body that is in the wire's
shape already, so they have nothing to translate: their time is what the package adds.

{requests}

## Streams

Bytes to *all* events and the final message, one server-sent event in each network chunk. `text5k` and `text50k` are
that many pieces of text, `think1k` a thousand of thinking and a thousand of text, `tool20k` and `tool200k` the
arguments of one call, 100 bytes at a time, as one long string; `rows20k` and `rows200k` the same as many small objects.
Gemini sends a call whole: its last four columns are streams of two events.

The limit splits, decodes only the fields it needs, appends to lists and joins once; it makes no events, keeps no
unknown fields and checks nothing. Rows called *raw events* go through the provider's events without building a message,
so they are shown but are no peer: `google-genai` has no final message, and `litellm`'s `aresponses` passes on what the
provider sends.

{streams}

## Long arguments

The work for one event must not grow with what came before it.

{growth}

## A streamed call

One whole call over a socket: the request is made, sent, answered with a stream, and read to its end; every event is
gone through. All call the same local server, which replays ready answers from a process of its own, each event as an
HTTP chunk of its own. Each participant uses its own HTTP client, pooled, as its documentation shows. Measured by
`bench/connectors.py`; processor time of the calling process, all threads.

*One at a time* sends an event each millisecond, so that the reader wakes up for every one; in the other columns the
whole answer is sent at once. The last column but one is wall time until the caller has the first event. Rows called
*raw events* build no message. The last row of participants is what the HTTP client costs that Interlingua uses, when
nobody looks at what it brings.

{calls}

How to read it. The first table holds the worst wire of each column against the aim, once beside the peers that build a
message, as Interlingua does, and once beside all, the raw rows too. With many events the work is in what is done with
each: beside peers that build a message the aim is held there on every wire; beside raw events it is not, on Ollama and
for Anthropic's 200 pieces. The other columns are dominated by something else, and the aim is mostly missed in them:

- *One at a time*: waking the event loop and reading the socket, which `aiohttp` alone pays as well, is the larger part.
  A blocking client has no event loop to wake: the vendors' sync rows are cheaper here than their async ones. Our sync
  call hands each event from one thread to another, which costs as much again.
- *Short answer*: the HTTP request is the smaller part. The rest is ours: the catalogue and the price, looking for the
  key, adapting the conversation, and the machinery for trying again, each in every call.
- *20 KB call* on Gemini and Ollama: the call comes whole, in an answer of two events: this is the short answer again.
- *First event*: when 2,000 pieces arrive at once, Interlingua decodes all that has arrived before it hands out the
  first: its async row is the last on every wire. With one event at a time it is among the others; it waits for an event
  that says something. These are wall times, and move the most on a machine that does other work.
- *Ollama*: its package builds no message, and is cheaper than Interlingua for short answers and for calls, and about
  equal for one event at a time.

## Session files

One large session file through `interlingua convert … -t transcript -o …`, from the start of the process to the file in
its place. The limit is a bare loop: read a line, decode it with msgspec into the typed structs, encode it, write it.
Measured by `bench/transcripts.py`; wall time, since processes are compared.

{files}

## The gateway

One worker with a key, limits, a ledger and metrics, in front of an upstream that speaks Anthropic's wire from memory.
`bare` passes bytes on with aiohttp on both sides; `codec` is that with our codecs between, and nothing around them.
`same` is the gateway where client and provider speak one wire, `translated` where they do not; `recording` and `redis`
are `translated` with recording on, and with the limits in Redis. Measured by `bench/gateway.py`; the share is that of
the processor time of a call.

{gateway}

## The canvas

The server beside LLM Canvas, and search beside an FTS5 table that is given the same texts (`bench/canvas.py`); the
page in Chromium beside the flow library given all nodes, and beside Inspect View with the same messages
(`bench/browser.py`). Each server is a process of its own, and what is compared takes turns.

{canvas}

{browser}

## Import

A fresh process until a client exists; bytecode compiled, files in the disk cache.

{ready}

## What is measured, and what is not

- Processor time of the process, all threads, `time.process_time`. Imports are wall time, for nothing else is done.
- Participants take turns within each cell, in an order that changes from round to round. A number is the median of
  {rounds} rounds, and `x` is the median of the ratios to the limit *in the same process* just before and after.
- No TLS, no provider and, but for the streamed calls, no sockets: only what a program itself adds. A real answer takes
  seconds, so what these numbers buy is how many streams one core can carry, not how soon one answer comes.
- Peers are called as their documentation shows, with the fewest layers they offer; logging and warnings are off.
  A cell that is empty would have taken a peer more than {longest:.0f} seconds a call.
- Not measured: other languages, other Python versions, peers that only wrap these peers.

How far to trust it: ratios repeat within about 10 % on a quiet machine; times do not, on another processor. On a
machine that does other work too, single cells move by 20 % and more. This run: {date}, Python {python}, {machine},
load {load:.1f} at its start. Versions: {versions}.
"""

# What a miss means, by the start of its group and of its cell; said only where something is missed.
_REASONS = (
    (
        "request: 10 x",
        "",
        """\
*Requests beside a vendor's own package.* `anthropic` and `boto3` are handed a body in the wire's shape; they copy or
check it and write it with `json.dumps`, which alone is four times the limit. Ten times faster than that is hardly more
than the limit, and Interlingua also translates, keeps account of losses and refuses NaN. Beside the peers that do
translate, the factor is more than ten.""",
    ),
    (
        "stream: 10 x",
        "gemini",
        """\
*Gemini's calls.* A call comes whole, in one event of up to 200 KB. Nearly all of the time is one JSON parse, which
every participant does in compiled code: the limit itself is not ten times faster than the fastest peer.""",
    ),
)


def _measured_apart(name: str) -> str:
    """The tables that another program has left."""
    tables = Path(__file__).parent / "results" / f"{name}.md"
    return tables.read_text().strip() if tables.exists() else "Not measured in this run."


def with_canvas(written: str) -> str:
    """The page as it was written, with the canvas as measured last: it is measured without the rest."""
    _, own = _PAGE.split("## The canvas\n")
    tables = {name: _measured_apart(name) for name in ("canvas", "browser")}
    section = "## The canvas\n" + own.partition("## Import\n")[0].format(**tables)
    before, _, after = written.partition("## Import\n")
    return before.partition("## The canvas\n")[0] + section + "## Import\n" + after


def document(results: dict[str, Any], longest: float) -> str:
    about = results["about"]
    streams = [f"**{report.TITLES[wire]}**\n\n{report.streams(results, wire)}" for wire in results["streams"]]
    return _PAGE.format(
        verdict=report.summary(results),
        misses=_misses(results),
        requests=report.requests(results),
        streams="\n\n".join(streams),
        growth=report.growth(results),
        calls=_measured_apart("connectors"),
        files=_measured_apart("transcripts"),
        gateway=_measured_apart("gateway"),
        canvas=_measured_apart("canvas"),
        browser=_measured_apart("browser"),
        ready=report.ready(results),
        rounds=about["rounds"],
        longest=longest,
        date=about["date"],
        python=about["python"],
        machine=about["machine"],
        load=about["load"],
        versions=", ".join(f"{name} {version}" for name, version in about["versions"].items()),
    )


def _misses(results: dict[str, Any]) -> str:
    missed = [target for target in report.targets(results) if not target.met]
    if not missed:
        return "Nothing is missed."
    lines = [f"- {t.group}: {report.number(t.value)} at {t.cell}" for t in missed]
    reasons = [
        reason
        for group, cell, reason in _REASONS
        if any(target.group.startswith(group) and target.cell.startswith(cell) for target in missed)
    ]
    return "\n".join(["Missed:", "", *lines, *(f"\n{reason}" for reason in reasons)])
