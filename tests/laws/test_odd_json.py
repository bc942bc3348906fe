"""Odd text and odd numbers are decided once, and the same way in every place where JSON is read or written."""

import base64
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

import interlingua as il
from interlingua.conversion.adapting.adapter import adapt
from interlingua.dialects import WIRES, dialect
from interlingua.values import jsontext
from interlingua.values.canonical import dump, load
from interlingua.values.errors import BadWire, FormatError
from interlingua.values.folding import arguments_text, fold, parse_arguments
from interlingua.values.messages import AssistantMessage, DocumentBlock, TextBlock, ToolCall, UserMessage, text_of
from interlingua.values.request import Context, ModelDescriptor, Request
from laws.wires import decode_stream, every_dialect, fields_outside, spelled, stream_of
from strategies import deep_objects, json_bytes, json_values, nested

ANY_TEXT = st.text(st.characters(), max_size=12)  # unpaired surrogates included
LONE = st.sampled_from(["\ud800", "a\udfffb", "\ud800\ud800", "\udc00\ud800", "\ud83dx\ude42"])


@given(json_values())
def test_json_text_is_read_as_the_standard_library_reads_it(value: Any) -> None:
    """
    Whatever value there is, reading and writing agree with a second implementation.
    """
    assert spelled(value) == spelled(jsontext.read(json_bytes(value)))
    assert spelled(value) == spelled(json.loads(jsontext.write(value)))
    assert spelled(value) == spelled(json.loads(jsontext.compact(value)))
    assert spelled(value) == spelled(jsontext.read(json.dumps(value)))


@given(st.one_of(ANY_TEXT, LONE))
def test_unpaired_surrogates_become_replacement_characters(text: str) -> None:
    """
    Halves without a partner become U+FFFD in both directions, escaped or raw; proper pairs are joined.
    """
    meant = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    assert meant == jsontext.clean(text)
    assert {meant: [meant]} == json.loads(jsontext.write({text: [text]}))
    assert {meant: [meant]} == json.loads(jsontext.compact({text: [text]}))
    assert {meant: [meant]} == jsontext.read(json.dumps({text: [text]}))  # as escapes
    assert meant == jsontext.read(json.dumps(text, ensure_ascii=False).encode("utf-8", "surrogatepass"))  # as bytes
    assert meant == jsontext.read(json.dumps(text, ensure_ascii=False))  # as text


@given(LONE)
def test_unpaired_surrogates_do_not_stop_our_own_json(text: str) -> None:
    """
    A message with broken text is still written and read.
    """
    block = TextBlock(text=text, extra={"some-other": {"x": text}})
    again = load(dump(block), TextBlock)
    assert jsontext.clean(text) == again.text == again.extra["some-other"]["x"]


@every_dialect
@given(text=LONE)
def test_unpaired_surrogates_do_not_stop_a_request(name: str, text: str) -> None:
    """
    Broken text goes over every wire as U+FFFD, and the losses say where.
    """
    wire = dialect(name)
    call = ToolCall(id="call_1", name="a", arguments={"a": [text]})
    request = Request(
        model=ModelDescriptor(id="m"),
        context=Context(system=text, messages=(UserMessage(content=text), AssistantMessage(content=(call,)))),
    )
    body = wire.encode_request(request)
    again = wire.decode_request(body.bytes(), **fields_outside(wire, request))
    returned, meant = again.context, jsontext.clean(text)
    assert (meant, meant) == (text_of(returned.system), text_of(returned.messages[0].content))
    assert [{"a": [meant]}] == [call.arguments for call in returned.messages[1].tool_calls]
    assert {"$.system", "$.messages[0].content", "$.messages[1].content[0].arguments"} <= {
        loss.path for loss in body.losses
    }


@every_dialect
@pytest.mark.parametrize("adapt", [True, False])
@pytest.mark.parametrize(
    "document",
    [
        DocumentBlock(text="a\ud800b", mime_type="text/plain"),
        DocumentBlock(text="a\ud800b"),
        DocumentBlock(url="data:text/plain,a\ud800b"),
    ],
)
def test_unpaired_surrogates_do_not_stop_a_document(name: str, adapt: bool, document: DocumentBlock) -> None:
    """
    A text as a file is encoded with U+FFFD, in base64 too, and the losses say where.
    """
    conversation = il.Conversation(entries=(il.Entry(message=UserMessage(content=(document,))),))
    encoded = il.encode(conversation, name, adapt=adapt)
    meant = "a\ufffdb".encode()
    if any(loss.severity == "dropped" and "content[0]" in loss.path and not adapt for loss in encoded.losses):
        return
    assert meant in encoded.bytes() or base64.b64encode(meant) in encoded.bytes()
    assert [loss for loss in encoded.losses if "surrogate" in loss.why and loss.severity == "weakened"]


NOT_NUMBERS = [float("nan"), float("inf"), float("-inf")]


@pytest.mark.parametrize("number", NOT_NUMBERS)
def test_numbers_that_json_has_no_word_for_are_refused(number: float) -> None:
    """
    NaN and Infinity are errors in both directions; nothing turns them into null behind one's back.
    """
    for value in (number, [number], {"a": {"b": number}}, [None, number]):
        for write in (jsontext.write, jsontext.compact):
            with pytest.raises(FormatError):
                write(value)
        with pytest.raises(FormatError):
            jsontext.read(json.dumps(value))
    with pytest.raises(FormatError):
        dump(ToolCall(id="1", name="a", arguments={"a": [None, number]}))


@every_dialect
@pytest.mark.parametrize("number", NOT_NUMBERS)
def test_numbers_that_json_has_no_word_for_never_reach_a_wire(name: str, number: float) -> None:
    """
    A request with NaN in it is refused when its bytes are made.
    """
    call = ToolCall(id="call_1", name="a", arguments={"a": number})
    request = Request(model=ModelDescriptor(id="m"), context=Context(messages=(AssistantMessage(content=(call,)),)))
    with pytest.raises(FormatError):
        dialect(name).encode_request(request).bytes()


@pytest.mark.parametrize("levels", [501, 1_000, 100_000])
def test_bottomless_json_is_refused(levels: int) -> None:
    """
    Nesting beyond 500 levels is a typed error that comes quickly, in every place that reads or writes.
    """
    for text in ("[" * levels, "[" * levels + "]" * levels, '{"a":' * levels + "1" + "}" * levels):
        with pytest.raises(FormatError):
            jsontext.read(text)
        with pytest.raises(FormatError):
            load(text.encode(), Context)
    value: Any = []
    for _ in range(levels):
        value = [value]
    for write in (jsontext.write, jsontext.compact):
        with pytest.raises(FormatError):
            write(value)
    with pytest.raises(FormatError):
        dump(TextBlock(text="", extra={"a": {"b": value}}))
    while value:  # freed level by level: a deep list would overflow the stack otherwise
        value = value.pop()


@every_dialect
def test_bottomless_bodies_are_refused(name: str) -> None:
    """
    The same for the bodies of a wire.
    """
    wire = dialect(name)
    bomb = b'{"messages":' * 2_000 + b"1" + b"}" * 2_000
    for decode in (wire.decode_request, wire.decode_response, wire.decode):
        with pytest.raises(BadWire):
            decode(bomb)


@given(deep_objects(450))
def test_depth_within_the_limit_is_carried(value: dict[str, Any]) -> None:
    """
    What is deep but allowed is read, written, and carried in our own JSON.
    """
    assert value == jsontext.read(jsontext.write(value)) == jsontext.read(jsontext.compact(value))
    call = ToolCall(id="1", name="a", arguments=value)
    assert call == load(dump(call), ToolCall)


def test_of_repeated_keys_the_last_one_counts() -> None:
    """
    As every parser in use does it; in our own JSON too.
    """
    assert jsontext.read('{"a":1,"a":2}') == {"a": 2}
    assert TextBlock(text="b") == load(b'{"type":"text","text":"a","text":"b"}', TextBlock)
    assert nested(3) == jsontext.read(json.dumps(nested(3)))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_numbers_that_are_none_are_found_in_long_text(value: float) -> None:
    """
    However long the text and however deep the number; a plain null is fine.
    """
    long = {"text": "word " * 5000, "deep": [{"rows": [1.5, None]} for _ in range(50)]}
    assert json.loads(jsontext.write(long)) == long
    with pytest.raises(FormatError):
        jsontext.write({**long, "here": [{"x": (value,)}]})


# --- the spelling of numbers -----------------------------------------------------------------------------------------

NUMBERS = st.one_of(
    st.sampled_from(["1e2", "1E+2", "1.10", "-0", "-0.0", "1e16", "1e-400", "9" * 40, "0.1e1", "100", "1.0"]),
    st.from_regex(r"-?(0|[1-9][0-9]{0,25})(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,2})?", fullmatch=True),
)


def spellings() -> st.SearchStrategy[str]:
    """JSON objects as models write them: any number, any spacing, keys that repeat."""
    gap = st.sampled_from(["", " ", "\n  "])
    leaf = st.one_of(NUMBERS, st.sampled_from(['"\\u00e9"', '"\\/"', "true", "null", '"1e2"']))
    values = st.recursive(leaf, lambda inner: st.builds("[{}{}]".format, gap, inner), max_leaves=3)
    pairs = st.builds('{}"{}":{}{}'.format, gap, st.sampled_from("ab"), gap, values)
    return st.builds(lambda inside, after: f"{{{','.join(inside)}{after}}}", st.lists(pairs, max_size=3), gap)


SPELLING_WIRES = sorted(name for name in WIRES if dialect(name).FIELD_SUPPORT["ToolCall.arguments_text"].kind == "kept")


@pytest.mark.parametrize("name", SPELLING_WIRES)
@pytest.mark.parametrize("target", SPELLING_WIRES)
@given(text=spellings(), size=st.sampled_from([None, 1, 3]))
def test_arguments_keep_their_spelling_where_text_is_kept(name: str, target: str, text: str, size: int | None) -> None:
    """
    `1e2` stays `1e2`: in requests and answers, whole and streamed, through our JSON, and on to another such wire.
    """
    arguments, kept, problem = parse_arguments(text)
    call = ToolCall(id="c", name="f", arguments=arguments, arguments_text=kept, parse_error=problem)
    message = AssistantMessage(content=(call,), stop_reason="toolUse")
    wire, other = dialect(name), dialect(target)
    source = Request(model=ModelDescriptor(id="m"), context=Context(messages=(UserMessage(content="a"), message)))
    request = load(dump(wire.decode_request(wire.encode_request(source).bytes())), Request)
    streamed = fold(decode_stream(wire, [stream_of(wire, message, size)]))
    for answer in (wire.decode_response(wire.encode_response(message).bytes()), streamed):
        read = load(dump(answer), AssistantMessage)
        assert text == arguments_text(read.tool_calls[0])
        assert texts_in(other.encode_response(read).body) >= {text}
    assert texts_in(other.encode_request(adapt(request, target).request).body) >= {text}
    assert texts_in(other.encode_request(request).body) >= {text}


def texts_in(value: Any) -> set[str]:
    """Every string in a JSON value."""
    if isinstance(value, str):
        return {value}
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return set().union(*map(texts_in, items))


@pytest.mark.parametrize(
    ("text", "changed"), [('{ "a": 1 }', {"a": True}), ('{"a":1.0 }', {"a": 1}), ("{ }", {"a": 0})]
)
def test_arguments_that_were_changed_are_spelled_anew(text: str, changed: dict[str, Any]) -> None:
    """
    The wire's text goes only with the values that it spells: `true` is not `1`, and `1` is not `1.0`.
    """
    arguments, kept, _ = parse_arguments(text)
    call = ToolCall(id="c", name="f", arguments=arguments, arguments_text=kept)
    assert text == arguments_text(call)
    assert json.dumps(changed, separators=(",", ":")) == arguments_text(replace(call, arguments=changed))


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ({"rows": [{"n": 1}, {"n": 2}]}, {"rows": [{"n": 1}, {"n": 2}]}, True),
        ({"rows": [{"n": 1}]}, {"rows": [{"n": True}]}, False),
        ({"rows": [{"n": 1}]}, {"rows": [{"n": 1.0}]}, False),
        ({"a": 1, "b": [2]}, {"b": [2], "a": 1}, True),
        ({"a": 1, "b": [2]}, {"b": [2.0], "a": 1}, False),
        ([10**30, 0.0], [10**30, -0.0], True),
        ([10**30, 1], [10**30, True], False),
        (["\ud800", 1], ["\ud800", 1], True),
    ],
    ids=range(8),
)
def test_values_are_the_same_when_their_json_says_the_same(one: Any, other: Any, expected: bool) -> None:
    """
    Order of keys apart, and whatever Python calls equal.
    """
    assert expected == jsontext.same(one, other)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{,}", "object keys must be strings (byte 1)"),
        ("nope", "invalid character (byte 4)"),
        ("[1] 2", "trailing characters (byte 5)"),
        (b"\xff", "invalid character (byte 0)"),
        ("[1", "input data was truncated"),
    ],
)
def test_text_that_is_not_json_is_refused_with_the_reason_and_the_place(text: Any, reason: str) -> None:
    """Once, and in lower case."""
    with pytest.raises(FormatError) as caught:
        jsontext.read(text)
    assert caught.value.message == f"not JSON: {reason}"


PAIRS = st.recursive(
    st.sampled_from(["a", ":", 'b"c:', 2**70, 1.5, None]),
    lambda part: st.lists(part, max_size=3) | st.lists(st.tuples(st.sampled_from("a:é"), part), max_size=3).map(tuple),
    max_leaves=8,
)


def written(draw: Any, value: Any) -> str:
    """JSON text in one of many spellings; a tuple is an object, whose keys may be equal."""
    blank = draw(st.sampled_from(["", " ", "\n\t"]))
    if isinstance(value, tuple):
        pairs = (f"{written(draw, key)}{blank}:{written(draw, part)}" for key, part in value)
        return f"{{{blank}{','.join(pairs)}{blank}}}"
    if isinstance(value, list):
        return f"[{','.join(written(draw, part) for part in value)}{blank}]"
    text = json.dumps(value, ensure_ascii=draw(st.booleans()))
    escaped = draw(st.sampled_from([":", "\\u003a", "\\u003A"]))
    return text.replace(":", escaped)


@given(PAIRS, st.data())
def test_a_duplicate_key_is_refused_in_any_spelling_and_nothing_else_is(value: Any, data: st.DataObject) -> None:
    """
    Also where as many colons are escaped as the duplicates have.
    """
    text = written(data.draw, value).encode()
    duplicates: list[str] = []

    def collect(pairs: list[tuple[str, Any]]) -> None:
        keys = [key for key, _ in pairs]
        duplicates.extend(key for key in keys if keys.count(key) > 1)

    json.loads(text, object_pairs_hook=collect)
    if duplicates:
        with pytest.raises(FormatError, match="duplicate key; send it once") as refused:
            jsontext.refuse_duplicates(text, jsontext.read(text))
        assert refused.value.path.endswith(tuple(f".{key}" for key in duplicates))
    else:
        jsontext.refuse_duplicates(text, jsontext.read(text))


@pytest.mark.parametrize(
    ("text", "path"),
    [
        (b'{"a":1,"a":1}', "$.a"),
        (b'{"a":1,"\\u0061":2}', "$.a"),
        (b'{"a":[{"b":{"c":1,"c":2}}]}', "$.a[0].b.c"),
        (b'{"a":1,"b":{"c":1,"c":1},"a":{}}', "$.a"),
        (b'{"a":1,"a":"\\u003a"}', "$.a"),
        (b'{"a":18446744073709551616,"a":1%b}' % (b"0" * 400), "$.a"),
        (b'{"a":"\\ud800","a":1}', "$.a"),
    ],
)
def test_the_path_of_a_duplicate_key_is_named(text: bytes, path: str) -> None:
    """
    The outermost one: what is in a value that was replaced is not in the value that was read.
    """
    with pytest.raises(FormatError) as refused:
        jsontext.refuse_duplicates(text, jsontext.read(text))
    assert path == refused.value.path


# Of one conversation in several layouts: where the text is that is no Unicode.
LAYOUTS: dict[str, tuple[bytes, str, str]] = {
    "body": (
        b'{"model":"m","messages":[{"role":"user","content":"~"}]}',
        "openai-completions",
        "$.messages[0].content",
    ),
    "key": (
        b'{"model":"m","messages":[{"role":"user","content":"a"}],"metadata":{"~":1}}',
        "openai-completions",
        "$.metadata",
    ),
    "lines": (
        b'{"role":"user","content":"a"}\n{"role":"assistant","content":[{"type":"text","text":"~"}]}\n',
        "openclaw",
        "$[1].content[0].text",
    ),
    "lines that are read one at a time": (
        b'{"type":"user","uuid":"u1","parentUuid":null,"sessionId":"s","message":{"role":"user","content":"a"}}\n'
        b'{"type":"user","uuid":"u2","parentUuid":"u1","sessionId":"s","message":{"role":"user","content":"~"}}\n',
        "claude-code",
        "$[1].message.content",
    ),
    "items that are read one at a time": (
        b'{"type":"session_meta","payload":{"id":"s"}}\n'
        b'{"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"~"}]}}\n',
        "codex-cli",
        "$[1].payload.content[0].text",
    ),
    "our own lines": (
        b'{"role":"session","version":1}\n{"role":"user","content":"a","id":"1","parentId":null}\n'
        b'{"role":"user","content":"~","id":"2","parentId":"1"}\n',
        "transcript",
        "$[2].content",
    ),
}
SPELLINGS = {"escape": b"\\ud83d", "second half": b"x\\uDE00", "raw": b"\xed\xa0\xbd", "byte": b"\xff"}


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_is_no_unicode_is_told_when_it_is_read(layout: str, spelling: str) -> None:
    """
    `decode` and `read` name the place among the problems, `convert` among the losses; strict mode refuses it.
    """
    text, name, path = LAYOUTS[layout]
    broken, whole = text.replace(b"~", SPELLINGS[spelling]), text.replace(b"~", b"\\ud83d\\ude00\\ufffd")
    message = f"characters that are no Unicode: read as U+FFFD (at {path})"
    assert [message] == [problem.message for problem in il.decode(broken, name).problems]
    assert [message] == [problem.message for (one,) in [il.read(broken, name)] for problem in one.problems]
    losses = il.convert(broken, "google-generative-ai", name).losses
    assert [(path, "text", "weakened")] == [loss[:2] + loss[3:] for loss in map(fields, losses) if "U+FFFD" in loss[2]]
    with pytest.raises(il.Unsupported, match=re.escape(path)):
        il.convert(broken, name, name, strict=True)
    assert () == il.decode(whole, name).problems == next(il.read(whole, name)).problems
    assert not [loss for loss in il.convert(whole, "google-generative-ai", name).losses if "U+FFFD" in loss.why]


def fields(loss: il.Loss) -> tuple[str, str, str, str]:
    return loss.path, loss.what, loss.why, loss.severity
