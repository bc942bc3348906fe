"""The laws for formats that are read and returned, but not made from other formats: the session files of programs."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, note
from hypothesis import strategies as st

import interlingua as il
from dialects.trips import returned
from interlingua.dialects import FORMATS, WIRES, dialect
from interlingua.values.errors import BadWire, Unsupported
from interlingua.values.messages import text_of
from laws.wires import RETURNED, every_returned, spelled
from strategies import json_objects, json_values, mutated, with_unknown_fields

HERE = Path(__file__).parents[1] / "wire"


def samples(name: str) -> list[Any]:
    return [values(path) for path in sorted((HERE / name).iterdir())]


def values(path: Path) -> Any:
    text = path.read_text()
    if path.suffix == ".md":
        return text
    return [json.loads(line) for line in text.splitlines()] if path.suffix == ".jsonl" else json.loads(text)


FILES = [path for name in sorted(RETURNED) for path in sorted((HERE / name).iterdir())]


@pytest.mark.parametrize("path", FILES, ids=[f"{path.parent.name}/{path.name}" for path in FILES])
def test_a_file_comes_back_as_it_was(path: Path) -> None:
    """From bytes, text and values; nothing is lost, and the format is told from its content."""
    name, expected = path.parent.name, values(path)
    for form in (path.read_bytes(), path.read_text(), expected):
        assert returned(name, form) == expected
    assert list(il.encode(il.decode(path.read_bytes(), name), name).losses) == []
    detected = il.detect(path.read_bytes())
    assert detected is not None
    assert detected.dialect == name
    assert set(detected.others) <= {*WIRES, "clawtools"}  # bare messages are a wire's or a context's too


@every_returned
@given(data=st.data())
def test_unknown_fields_come_back_wherever_they_stand(name: str, data: st.DataObject) -> None:
    """Fields and kinds of records that we have never heard of return to their places, at any depth."""
    more = data.draw(with_unknown_fields(data.draw(st.sampled_from(samples(name)))))
    note(f"file: {more!r}")
    assert spelled(returned(name, more)) == spelled(more)


@every_returned
@given(data=st.data())
def test_a_file_that_is_slightly_wrong_comes_back_or_is_refused(name: str, data: st.DataObject) -> None:
    """With parts missing, exchanged or of another type."""
    sample = data.draw(st.sampled_from(samples(name)))
    if isinstance(sample, str):
        return  # a text: see below
    body = data.draw(mutated(sample))
    note(f"file: {body!r}")
    if isinstance(sample, list) and isinstance(body, dict):
        body = [body]  # a file of one line
    assume(not isinstance(body, str))  # that would be the text of a file
    try:
        assert spelled(returned(name, body)) == spelled(body)
    except BadWire as error:
        assert error.path.startswith("$")


@pytest.mark.parametrize("name", sorted(name for name in RETURNED if FORMATS[name].text))
@given(data=st.data())
def test_a_text_that_was_cut_comes_back_or_is_refused(name: str, data: st.DataObject) -> None:
    """With a part missing, wherever it stood."""
    sample = data.draw(st.sampled_from(samples(name)))
    start, stop = sorted(data.draw(st.tuples(*[st.integers(0, len(sample))] * 2)))
    body = sample[:start] + sample[stop:]
    try:
        assert returned(name, body) == body
    except BadWire as error:
        assert error.path.startswith("$")


@every_returned
@given(body=st.one_of(json_values(), json_objects(), st.binary(max_size=40)))
def test_anything_is_understood_or_refused(name: str, body: Any) -> None:
    """What has nothing to do with the format gives a conversation or one typed error that names the place."""
    try:
        dialect(name).decode(body)
    except BadWire as error:
        assert error.path.startswith("$")


@every_returned
def test_no_file_is_made_of_a_foreign_conversation(name: str) -> None:
    """It is refused in words, and so is a foreign message among the format's own."""
    hello = il.Entry(message=il.UserMessage(content="Hello"))
    with pytest.raises(Unsupported, match="read and returned"):
        dialect(name).encode(il.Conversation(entries=(hello,)))


@every_returned
def test_a_word_that_was_changed_is_encoded_as_it_is_now(name: str) -> None:
    """No hint overrules what somebody wrote since."""
    changed = 0
    for sample in samples(name):
        written, decoded = spelled(sample), dialect(name).decode(sample)
        read = il.dump(decoded).decode()
        texts = [text_of(getattr(message, "content", None)) for message in decoded.messages]
        for word in dict.fromkeys(re.findall(r"\b[A-Za-z]{4,}\b", " ".join(texts))):
            whole = re.compile(rf"\b{word}\b")
            times = len(whole.findall(written))
            # As often in the file as in what is read of it, or half as often: some keep a copy of the file.
            if len(whole.findall(read)) in (times, 2 * times):
                changed += 1
                encoded = dialect(name).encode(il.load(whole.sub("Walrus", read).encode(), il.Conversation)).body
                assert spelled(encoded) == whole.sub("Walrus", written), word
                break
    assert changed
