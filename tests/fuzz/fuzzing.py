"""A fuzzer for all that reads what strangers wrote: `make fuzz MINUTES=60`.

Each target takes bytes. It may return anything and raise our own errors; any other exception is a find, saved under
`tests/fuzz/found/` and read again by every test run. Inputs grow from seeds: those that make a target behave in a new
way (a new function entered, or a new message) join the pool and are mutated further.
"""

import contextlib
import hashlib
import json
import os
import random
import re
import sys
import tempfile
import time
import traceback
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import interlingua as il
from interlingua.dialects import FORMATS, WIRES, dialect
from interlingua.dialects.framing import NDJSON, SSE, AWSEventStream, JSONArray, JSONDocuments
from interlingua.sessions import Session
from interlingua.sessions.repair import examine
from interlingua.tools.core.apply_patch import parse_patch
from interlingua.tools.policy import Policy
from interlingua.tools.validation import validated
from interlingua.values.canonical import dump, load
from interlingua.values.errors import InterlinguaError
from interlingua.values.folding import unfold

FOUND = Path(__file__).with_name("found")
WIRE = Path(__file__).parents[1] / "wire"
PACKAGE = str(Path(il.__file__).parent)
Target = Callable[[bytes], object]
_LONGEST = 20_000
_FRAMINGS = (SSE, NDJSON, JSONArray, JSONDocuments, AWSEventStream)
_POLICY = Policy.of(
    {
        "rules": [
            {"action": "deny", "tool": "*", "path": "secrets/**"},
            {"action": "allow", "tool": "exec", "command": "git status"},
            {"action": "deny", "tool": "web_fetch", "host": "*.internal"},
            {"action": "deny", "tool": "any", "command": ["rm", "git push"], "host": ".internal"},
        ]
    }
)


def framings(data: bytes) -> None:
    """All framings, in pieces."""
    for make in _FRAMINGS:
        frames = make()
        with contextlib.suppress(InterlinguaError):
            for at in range(0, len(data), 7):
                frames.feed(data[at : at + 7])
            frames.close()


def dialects(data: bytes) -> None:
    """Every dialect and file format, each way in."""
    for name in (*WIRES, *FORMATS):
        wire = dialect(name)
        for way in ("decode", "decode_request", "decode_response"):
            with contextlib.suppress(InterlinguaError):
                getattr(wire, way, len)(data)
    with contextlib.suppress(InterlinguaError):
        il.detect(data)
    with contextlib.suppress(InterlinguaError):
        il.decode(data)


def documents(data: bytes) -> None:
    """The first line names a dialect. What it reads of the rest is stored, checked and written in every dialect."""
    name, _, body = data.partition(b"\n")
    wire = dialect(_known(name))
    for way in ("decode_request", "decode_response"):
        with contextlib.suppress(InterlinguaError):
            value = getattr(wire, way, len)(body)
            assert isinstance(value, int) or value == load(dump(value), type(value))
    with contextlib.suppress(InterlinguaError):
        il.check(body)
    with contextlib.suppress(InterlinguaError):
        conversation = wire.decode(body)
        assert conversation == load(dump(conversation), il.Conversation)
        for target in (*WIRES, *FORMATS):
            with contextlib.suppress(InterlinguaError):
                il.encode(conversation, target)
    with contextlib.suppress(InterlinguaError):
        for _ in il.read(body):
            pass


def answers(data: bytes) -> None:
    """The first line names a wire; the rest is a streamed answer of it, or an error."""
    name, _, body = data.partition(b"\n")
    codec = dialect(_known(name, only=WIRES))
    decoder, frames = codec.StreamDecoder(), codec.framing()
    events = []
    with contextlib.suppress(InterlinguaError):
        for frame in [*frames.feed(body), *frames.close()]:
            events += decoder.feed(frame)
    events += decoder.close()
    message = il.fold(events)
    assert message == load(dump(message), il.AssistantMessage)
    for wire in map(dialect, WIRES):
        with contextlib.suppress(InterlinguaError):
            encoder = wire.StreamEncoder()
            for event in events:
                encoder.feed(event)
            encoder.close()
        with contextlib.suppress(InterlinguaError):
            wire.encode_response(message)
    error = codec.decode_error(len(body) % 600, body, {"retry-after": body[:20].decode("latin-1")})
    with contextlib.suppress(InterlinguaError):
        codec.encode_error(error)


def schemas(data: bytes) -> None:
    """A schema and a value for it: `{"schema": …, "value": {…}}`."""
    try:
        given = json.loads(data)
    except (ValueError, RecursionError):
        return
    if isinstance(given, dict) and isinstance(given.get("value"), dict):
        with contextlib.suppress(InterlinguaError):
            validated(given.get("schema"), given["value"])
    schema = given.get("schema") if isinstance(given, dict) else given
    tools = (il.ToolSpec(name="f", description="d", input_schema=schema),)
    for target in WIRES:
        model = il.ModelDescriptor(id="m", api=target, provider="p")
        with contextlib.suppress(InterlinguaError):
            asked = il.Request(model=model, context=il.Context(messages=_CONTEXT.messages, tools=tools))
            dialect(target).encode_request(il.adapt(asked, target)[0])


def _known(name: bytes, only: Iterable[str] = (*WIRES, *FORMATS)) -> str:
    """The dialect of this name; for one that mutation has spoilt, one that depends on it."""
    names = sorted(only)
    text = name.decode("latin-1")
    return text if text in names else names[sum(name) % len(names)]


def streams(data: bytes) -> None:
    """Every stream decoder, frame by frame."""
    for name in WIRES:
        codec = dialect(name)
        decoder, frames = codec.StreamDecoder(), codec.framing()
        with contextlib.suppress(InterlinguaError):
            for frame in [*frames.feed(data), *frames.close()]:
                for event in decoder.feed(frame):
                    getattr(event, "partial", None)
        decoder.close()


def session_files(data: bytes) -> None:
    """A session file: opened for reading and writing, shown in full, repaired."""
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "s.jsonl"
        path.write_bytes(data)
        for read_only in (True, False):
            with contextlib.suppress(InterlinguaError), Session.open(path, read_only=read_only) as session:
                _look(session)
                if not read_only:
                    session.append(il.UserMessage(content="on"))
        with contextlib.suppress(InterlinguaError):
            assert not examine(examine(data).data).findings


def indexes(data: bytes) -> None:
    """An index beside a good file: what is read does not depend on it."""
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "s.jsonl"
        with Session.open(path) as session:
            right = [session.append(il.UserMessage(content=str(at))).id for at in range(3)]
        path.with_suffix(".idx").write_bytes(data)
        with Session.open(path, read_only=True) as session:
            assert right == [entry.id for entry in session.path()]


def policies(data: bytes) -> None:
    """Command lines, paths, hosts and whole arguments before a policy."""
    text = data.decode("utf-8", "replace")
    for tool, params in (("exec", {"command": text}), ("read", {"path": text}), ("web_fetch", {"url": text})):
        with contextlib.suppress(InterlinguaError):
            _POLICY.decide(tool, params)
    with contextlib.suppress(InterlinguaError, ValueError, RecursionError):
        given = json.loads(text)
        if isinstance(given, dict):
            _POLICY.decide("any", given)
            Policy.of(given)


def patches(data: bytes) -> None:
    """Patches of files."""
    with contextlib.suppress(InterlinguaError):
        parse_patch(data.decode("utf-8", "replace"))


def _look(session: Session) -> None:
    for show in (
        session.path,
        session.nodes,
        session.labels,
        session.branches,
        session.notes,
        session.unfinished_calls,
    ):
        with contextlib.suppress(InterlinguaError):
            show()
    with contextlib.suppress(InterlinguaError):
        _ = session.problems, session.title, session.model, session.options, session.base, session.conversation()


TARGETS: dict[str, Target] = {
    target.__name__: target
    for target in (
        *(framings, dialects, documents, streams, answers, session_files, indexes, policies, patches, schemas),
    )
}
SEEDS: dict[str, tuple[bytes, ...]] = {
    "framings": (
        b'data: {"a": 1}\n\nevent: x\ndata: [DONE]\n\n',
        b'{"a":1}\n\n[1,2]\n',
        b'[{"a":1},{"b":[2]}]',
        b"\0\0\0\x10" * 4,
    ),
    "dialects": (
        b'{"messages":[{"role":"user","content":[{"type":"text","text":"x"}]},{"role":"assistant","content":null,'
        b'"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"a",'
        b'"content":"y"}],"model":"m","tools":[{"name":"f","input_schema":{"type":"object"}}],"max_tokens":5}',
        b'{"contents":[{"role":"user","parts":[{"text":"x"},{"inlineData":{"mimeType":"image/png","data":"AA=="}}]}]}',
        b'{"role":"user","content":"x","id":"a"}\n{"type":"session","id":"b"}\n{"uuid":"c","parentUuid":null,"message":{}}\n',
        b'[{"mapping":{"a":{"id":"a","message":{"author":{"role":"user"},"content":{"parts":["x"]}},"children":[]}}}]',
    ),
    "streams": (
        b'data: {"type":"message_start","message":{"id":"m","usage":{"input_tokens":1}}}\n\ndata: {'
        b'"type":"content_block_start","index":0,'
        b'"content_block":{"type":"text","text":""}}\n\ndata: {"type":"message_stop"}\n\n',
        b'data: {"choices":[{"index":0,"delta":{"content":"x","tool_calls":[{"index":0,"id":"a","function":{"name":"f",'
        b'"arguments":"{"}}]}}]}\n\ndata: [DONE]\n\n',
        b'data: {"candidates":[{"content":{"parts":[{"text":"x","thought":true}]},"finishReason":"STOP"}]}\n\n',
    ),
    "session_files": (
        b'{"role":"session","version":1,"id":"s"}\n{"role":"user","content":"x","id":"a"}\n{"role":"assistant","content":'
        b'[{"type":"toolCall","id":"c","name":"f","arguments":{}}],"id":"b","parentId":"a"}\n{"role":"head","target":"a"}\n'
        b'{"role":"label","target":"a","label":"l"}\n{"role":"branch","name":"n","target":"a"}\n{"role":"note","note":"1",'
        b'"target":"a","text":"t"}\n{"role":"revision","target":"a","version":2,"message":{"role":"user","content":"y"}}\n'
        b'{"role":"journal","kind":"tool_start","callId":"c","parentId":"b"}\n{"role":"compaction","summary":"s","id":"d"}\n',
    ),
    "indexes": (b"ILIDX\0\0\4" + bytes(200),),
    "policies": (
        b"git status; cd a && cat secrets/key",
        b"../secrets/./x",
        b"http://a.internal:80/",
        b'{"rules":[{"action":"ask"}]}',
        b'{"command":["a",["rm",null]],"args":{"b":[1.5]},"files":{"src/a":{"value":"x"}},"hosts":[["a.internal"]],"env":{"A":""}}',
    ),
    "schemas": (
        b'{"schema":{"type":"object","properties":{"a":{"$ref":"#/$defs/b"},"c":{"type":["integer","null"],"minimum":1}},'
        b'"required":["a"],"$defs":{"b":{"anyOf":[{"type":"string","pattern":"^x+$"},{"type":"array","items":{"$ref":"#/$defs/b"}}]}},'
        b'"additionalProperties":false},"value":{"a":["x"],"c":"5"}}',
        b'{"schema":{"oneOf":[{"const":1},{"enum":["x"]}],"if":{"not":{}},"then":true,"prefixItems":[{"$dynamicRef":"#a"}],'
        b'"$dynamicAnchor":"a","dependentSchemas":{"a":{}},"propertyNames":{"format":"uri"}},"value":{"a":1}}',
    ),
    "patches": (
        b"*** Begin Patch\n*** Update File: a\n@@ x\n-b\n+c\n*** End of File\n*** Add File: d\n+e\n*** End Patch",
    ),
}
_ANSWER = il.AssistantMessage(
    content=(
        il.ThinkingBlock(thinking="hm", thinking_signature="c2ln"),
        il.TextBlock(text="x"),
        il.ToolCall(id="a", name="f", arguments={"x": [1, {"y": None}]}),
    ),
    usage=il.Usage(input=3, output=4, cache_read=0, cache_write=0, total_tokens=7),
    stop_reason="toolUse",
    model="m",
)
_CONTEXT = il.Context(
    system="s",
    messages=(
        il.UserMessage(content=(il.TextBlock(text="x"), il.ImageBlock(data="AA==", mime_type="image/png"))),
        _ANSWER,
        il.ToolResultMessage(tool_call_id="a", tool_name="f", content=(il.TextBlock(text="y"),), is_error=False),
    ),
    tools=(il.ToolSpec(name="f", description="d", input_schema={"type": "object", "properties": {"x": {}}}),),
)


def _bodies() -> Iterator[bytes]:
    """Each sample of a file format, and a request and an answer of each wire, after the dialect's name."""
    for name in FORMATS:
        for path in sorted(WIRE.glob(f"{name.replace('-', '[-_]')}/*")):
            yield f"{name}\n".encode() + path.read_bytes()[:_LONGEST]
    for name in WIRES:
        asked = il.Request(model=il.ModelDescriptor(id="m", api=name, provider="p"), context=_CONTEXT)
        yield f"{name}\n".encode() + dialect(name).encode_request(il.adapt(asked, name)[0]).bytes()
        yield f"{name}\n".encode() + dialect(name).encode_response(_ANSWER).bytes()


def _streamed() -> Iterator[bytes]:
    """A streamed answer and an error of each wire, after the wire's name."""
    for name in WIRES:
        encoder = dialect(name).StreamEncoder()
        body = b"".join([*map(encoder.feed, unfold(_ANSWER, size=1)), encoder.close()])
        yield f"{name}\n".encode() + body
        refused = dialect(name).encode_error(il.RateLimited("slow down", status=429))[1]
        yield f"{name}\n".encode() + json.dumps(refused).encode()


SEEDS |= {"documents": (*_bodies(),), "answers": (*_streamed(),)}
_TOKENS = (
    b"null",
    b"true",
    b"-1",
    b"1e999",
    b"99999999999999999999",
    b"[]",
    b"{}",
    b'""',
    b'"\\ud800"',
    b"\0",
    b"\xff",
    b"\n",
    b"\r\n",
    b"[" * 200,
    b'{"a":' * 200,
    b'"type":',
    b'"role":',
    b'"content":',
    b'"id":',
    b"data: ",
    b"$(",
    b"`",
    b"'",
    b"..",
)


def mutated(data: bytes, other: bytes, chance: random.Random) -> bytes:
    """A few random changes: bytes, tokens, parts removed, doubled, moved, or taken from another input."""
    out = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 3, 6))):
        at, end = sorted((chance.randrange(len(out) + 1), chance.randrange(len(out) + 1)))
        match chance.randrange(7):
            case 0:
                out[at : at + 1] = bytes([chance.randrange(256)])
            case 1:
                out[at:at] = chance.choice(_TOKENS)
            case 2:
                del out[at : min(end, at + 40)]
            case 3:
                out[at:at] = out[at:end][:200]
            case 4:
                cut = chance.randrange(len(other) + 1)
                out[at:end] = other[cut : cut + 200]
            case 5:  # a JSON value for another
                values = [*re.finditer(rb'"[^"]*"|-?\d+|null|true|false|\[\]|\{\}', out)]
                if values:
                    found = chance.choice(values)
                    out[found.start() : found.end()] = chance.choice(_TOKENS)
            case _:
                out[at:end] = bytes(reversed(out[at:end]))
    return bytes(out[:_LONGEST])


class Pool:
    """The inputs of one target that behaved in a way of their own."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.inputs = [*SEEDS[name], *(path.read_bytes() for path in sorted(FOUND.glob(f"{name}-*")))]
        self._seen: set[tuple[str, str]] = set()

    def run(self, data: bytes) -> BaseException | None:
        """What the target raised that it may not; keeps an input that enters a function by a new way."""
        edges: set[tuple[str, str]] = set()

        def trace(frame: FrameType, event: str, arg: Any) -> None:
            if event == "call" and frame.f_code.co_filename.startswith(PACKAGE) and frame.f_back is not None:
                edges.add((frame.f_code.co_qualname, f"{frame.f_back.f_code.co_name}:{frame.f_back.f_lineno}"))

        sys.setprofile(trace)
        try:
            TARGETS[self.name](data)
        except Exception as error:
            return error
        finally:
            sys.setprofile(None)
        if not edges <= self._seen:
            self._seen |= edges
            self.inputs.append(data)
        return None


def fuzz(minutes: float, names: list[str], seed: int) -> int:
    """Runs the targets in turn until time is up and prints how many inputs each had; 1 if there was a find."""
    chance, until = random.Random(seed), time.monotonic() + minutes * 60
    pools = [Pool(name) for name in names]
    tried: Counter[str] = Counter()
    finds: Counter[str] = Counter()
    for pool in pools:
        for data in [*pool.inputs]:
            pool.run(data)
    while time.monotonic() < until:
        for pool in pools:
            turn = time.monotonic() + 0.5
            while time.monotonic() < turn:
                data = mutated(chance.choice(pool.inputs), chance.choice(pool.inputs), chance)
                tried[pool.name] += 1
                error = pool.run(data)
                if error is not None:
                    finds[pool.name] += 1
                    _save(pool.name, data, error)
    print(f"{'target':15}{'inputs':>12}{'pool':>8}{'untyped':>10}")
    for pool in pools:
        print(f"{pool.name:15}{tried[pool.name]:>12,}{len(pool.inputs):>8,}{finds[pool.name]:>10,}")
    return 1 if finds else 0


def _save(name: str, data: bytes, error: BaseException) -> None:
    """Saves one input for each place that raises, and prints it once."""
    where = traceback.extract_tb(error.__traceback__)[-1]
    key = hashlib.sha256(f"{type(error).__name__} {where.filename} {where.lineno}".encode()).hexdigest()[:12]
    place = FOUND / f"{name}-{key}"
    if not place.exists():
        FOUND.mkdir(exist_ok=True)
        place.write_bytes(data)
        print(f"{place}: {type(error).__name__}: {error} at {where.filename}:{where.lineno}", flush=True)


def main() -> int:
    parser = ArgumentParser(description="Fuzz whatever reads what strangers wrote.")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=time.time_ns())
    parser.add_argument("targets", nargs="*", default=[*TARGETS])
    arguments = parser.parse_args()
    os.environ["INTERLINGUA_HOME"] = tempfile.mkdtemp(prefix="interlingua-fuzz-")
    return fuzz(arguments.minutes, arguments.targets, arguments.seed)


if __name__ == "__main__":
    sys.exit(main())
