"""Compact sets and maps of ids behave as `set` and `dict`."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlingua.values import compact
from interlingua.values.compact import IdMap, IdNumbers, IdSet, StringTable

TEXTS = st.text(st.characters(), max_size=4)


@pytest.fixture(params=[1, 4, compact._PLAIN], scope="module", autouse=True)
def plain(request: pytest.FixtureRequest) -> Iterator[None]:
    """Few ids are packed, too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compact, "_PLAIN", request.param)
        yield


@given(st.lists(TEXTS))
def test_ids_are_numbered_in_the_order_of_their_first_use(texts: list[str]) -> None:
    ids = StringTable()
    numbers = [ids.number(text) for text in texts]
    unique = list(dict.fromkeys(texts))
    assert [unique.index(text) for text in texts] == numbers
    assert unique == [ids.text(number) for number in range(len(ids))]


@given(st.lists(st.tuples(st.booleans(), TEXTS)), st.lists(TEXTS | st.none()))
def test_a_set_contains_what_was_added(changes: list[tuple[bool, str]], asked: list[str | None]) -> None:
    ids = StringTable()
    expected: set[str | None] = set()
    actual, other, alone = IdSet(ids), IdSet(ids), IdSet()
    for adds, text in changes:
        for one in (expected, actual, alone):
            (one.add if adds else one.discard)(text)
    for text in [*asked, *(text for _, text in changes)]:
        assert (text in expected, text in expected, False) == (text in actual, text in alone, text in other)


@given(st.lists(st.tuples(TEXTS, TEXTS, st.none() | st.integers(0, 2**30))), st.lists(TEXTS))
def test_maps_return_what_was_set(pairs: list[tuple[str, str, int | None]], asked: list[str]) -> None:
    ids = StringTable()
    texts, alone, numbers = IdMap(ids), IdMap(), IdNumbers(ids)
    expected_texts, expected_numbers = dict[str, str](), dict[str, int | None]()
    for key, text, number in pairs:
        texts[key] = alone[key] = expected_texts[key] = text
        numbers[key] = expected_numbers[key] = number
    for key in [*asked, *expected_texts]:
        for one in (texts, alone):
            assert (key in one, one.get(key)) == (key in expected_texts, expected_texts.get(key))
        assert (key in numbers, numbers.get(key, 5)) == (key in expected_numbers, expected_numbers.get(key, 5))
    assert texts.get(None) is alone.get(None) is numbers.get(None) is None
    assert expected_numbers == {key: numbers[key] for key in expected_numbers}


def test_thousands_of_ids_are_found_after_the_table_has_grown() -> None:
    ids = StringTable()
    assert [ids.number(f"u-{at}") for at in range(70_000)] == list(range(70_000))
    assert [ids.find(f"u-{at}") for at in (0, 69_999, 70_000)] == [0, 69_999, None]
