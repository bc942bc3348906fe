"""The laws for formats that hold conversations and make no calls: transcripts, contexts, exports."""

from typing import Any

from hypothesis import given, note
from hypothesis import strategies as st

from dialects.trips import accounted, foreign_conversations, returned
from fuzz.outcomes import FRAGMENTS, outcome
from interlingua.dialects import dialect
from interlingua.values.canonical import dump, load
from interlingua.values.errors import InterlinguaError
from interlingua.values.request import Conversation
from laws.wires import every_file, spelled, through_json
from strategies import json_values, mutated, with_unknown_fields


@every_file
@given(data=st.data())
def test_a_conversation_comes_back_as_it_was(name: str, data: st.DataObject) -> None:
    """
    What the format says, unknown fields included, returns equal through our own JSON.
    """
    body = through_json(dialect(name).encode(data.draw(foreign_conversations(name))).body)
    assert spelled(body) == spelled(returned(name, body))
    more = data.draw(with_unknown_fields(body))
    note(f"body: {more!r}")
    assert spelled(more) == spelled(returned(name, more))


@every_file
@given(data=st.data())
def test_every_difference_is_reported_and_every_report_is_a_difference(name: str, data: st.DataObject) -> None:
    """
    What a conversation says and what is read back from the file differ exactly where losses are reported.
    """
    source = data.draw(foreign_conversations(name))
    note(f"source: {dump(source).decode()}")
    if dialect(name).FIELD_SUPPORT:
        assert accounted(name, source) == ([], [])
    else:  # our own lines, which hold everything
        body, losses = dialect(name).encode(source)
        assert (source, []) == (dialect(name).decode(through_json(body)), list(losses))


@every_file
@given(body=st.one_of(json_values(), st.binary(max_size=40), st.lists(st.sampled_from(FRAGMENTS)).map(b"".join)))
def test_anything_is_understood_or_refused(name: str, body: Any) -> None:
    """
    A file that has nothing to do with the format gives a conversation or one typed error that names the place.
    """
    stored(outcome(dialect(name).decode, body))


@every_file
@given(data=st.data())
def test_a_file_that_is_slightly_wrong_comes_back_or_is_refused(name: str, data: st.DataObject) -> None:
    """
    With parts missing, exchanged or of another type; what is understood all the same also returns the same.
    """
    proper = through_json(dialect(name).encode(data.draw(foreign_conversations(name))).body)
    body = data.draw(mutated(proper))
    note(f"body: {body!r}")
    if stored(outcome(dialect(name).decode, body)) and type(body) is type(proper):
        again = through_json(returned(name, body))
        assert spelled(again) == spelled(through_json(returned(name, again)))
        if dialect(name).FIELD_SUPPORT:  # our own JSON leaves out what is only a default
            assert spelled(body) == spelled(again)


def stored(value: Any) -> bool:
    """Whether something was understood; then our own JSON holds it."""
    if isinstance(value, InterlinguaError):
        return False
    assert value == load(dump(value), Conversation)
    return True
