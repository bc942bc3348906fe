"""Conversion over Arrow columns."""

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import interlingua as il
from interlingua.arrow import convert_batch, convert_batches, count_losses, table

BODY = json.dumps({"model": "claude-x", "max_tokens": 9, "top_k": 4, "messages": [{"role": "user", "content": "Hi"}]})


def test_a_column_is_converted_row_by_row() -> None:
    """Each row gives what `convert` gives; other columns stay."""
    rows = pa.table({"id": [1, 2], "conversation": [BODY, BODY]})
    done = convert_batch(rows, "openai-completions")
    expected = il.convert(BODY, "openai-completions")
    assert done.column("id").to_pylist() == [1, 2]
    assert json.loads(done.column("conversation_converted")[1].as_py()) == expected.body
    assert [loss["path"] for loss in done.column("conversation_losses")[0].as_py()] == [x.path for x in expected.losses]


def test_a_bad_row_does_not_stop_the_batch() -> None:
    """It has an error in place of a result."""
    batch = pa.record_batch({"conversation": ["{torn", BODY, None]})
    done = convert_batch(batch, "ollama-chat")
    assert isinstance(done, pa.RecordBatch)
    assert [error is None for error in done.column("conversation_error").to_pylist()] == [False, True, True]
    assert [body is None for body in done.column("conversation_converted").to_pylist()] == [True, False, True]


def test_an_empty_batch_has_the_same_columns() -> None:
    """Engines probe with empty batches."""
    done = convert_batch(pa.table({"conversation": pa.array([], pa.string())}), "ollama-chat")
    assert done.column_names == [
        "conversation", "conversation_converted", "conversation_losses", "conversation_error"
    ]  # fmt: skip


def test_an_empty_record_batch_stays_a_record_batch() -> None:
    """An engine that maps record batches gets one of the same type."""
    done = convert_batch(pa.record_batch({"conversation": pa.array([], pa.string())}), "ollama-chat")
    assert isinstance(done, pa.RecordBatch)


@pytest.mark.parametrize("of", [pa.table, pa.record_batch])
@pytest.mark.parametrize("max_bytes", [1, 3 * len(BODY), 1 << 30])
def test_a_large_batch_is_converted_part_by_part(of: Any, max_bytes: int) -> None:
    """The parts together are what the whole batch would be; each ends with the row that reaches the limit."""
    batch = of({"id": range(10), "conversation": [*[BODY] * 8, None, "{torn"]})
    parts = list(convert_batches(batch, "ollama-chat", max_bytes=max_bytes))
    assert {type(batch)} == {type(part) for part in parts}
    assert [row for part in parts for row in part.to_pylist()] == convert_batch(batch, "ollama-chat").to_pylist()
    sizes = [
        sum(len(row["conversation"] or "") + len(row["conversation_converted"] or "") for row in part.to_pylist()[:-1])
        for part in parts
    ]
    assert max(sizes) < max_bytes
    assert len(parts) == {1: 9, 3 * len(BODY): 5, 1 << 30: 1}[max_bytes]


def test_parts_are_measured_in_bytes() -> None:
    """Text in other scripts takes more bytes than characters."""
    body = json.dumps({**json.loads(BODY), "messages": [{"role": "user", "content": "語" * 1000}]}, ensure_ascii=False)
    for text in (body, body.encode()):
        parts = list(convert_batches(pa.table({"conversation": [text] * 4}), "ollama-chat", max_bytes=9000))
        assert [2, 2] == [len(part) for part in parts]
        assert "語" in parts[0].column("conversation_converted")[0].as_py()


@pytest.mark.parametrize("names", [{"to": "no-such"}, {"to": "ollama-chat", "dialect": "no-such"}])
def test_an_unknown_format_is_raised(names: dict[str, str]) -> None:
    """A misspelled name must not produce a data set of refused rows."""
    rows = pa.table({"conversation": [BODY]})
    with pytest.raises(il.InterlinguaError, match="no-such"):
        convert_batch(rows, **names)
    with pytest.raises(il.InterlinguaError, match="no-such"):
        next(convert_batches(rows, **names))
    assert convert_batch(rows, "interlingua").column("conversation_error").to_pylist() == [None]


def test_an_empty_batch_has_one_empty_part() -> None:
    """With the same columns, so that engines learn them."""
    empty = pa.table({"conversation": pa.array([], pa.string())})
    assert list(convert_batches(empty, "ollama-chat")) == [convert_batch(empty, "ollama-chat")]


def test_losses_are_counted_in_groups() -> None:
    """By severity, path without indices and reason, as `convert --report` does; rows without losses add nothing."""
    thought = {"type": "thinking", "thinking": "Hm", "signature": "c2ln"}
    answer = {"role": "assistant", "content": [thought, {"type": "text", "text": "Yes"}]}
    body = {**json.loads(BODY), "messages": [{"role": "user", "content": "Hi"}, answer, answer]}
    rows = [json.dumps(body), "{torn", None, json.dumps(body)]
    done = convert_batch(pa.table({"conversation": rows}), "openai-completions", dialect="anthropic-messages")
    expected: dict[tuple[str, str, str], int] = {}
    for loss in il.convert(rows[0], "openai-completions").losses:
        key = (loss.severity, re.sub(r"\[\d+\]", "[]", loss.path), loss.why)
        expected[key] = expected.get(key, 0) + 2
    groups = count_losses(done).to_pylist()
    assert expected == {(group["severity"], group["path"], group["why"]): group["count"] for group in groups}
    dropped = [group for group in groups if group["severity"] == "dropped"]
    assert ["$.messages[1].content[0]"] == [group["example"] for group in dropped]
    assert groups == count_losses(done.combine_chunks().to_batches()[0]).to_pylist()
    assert 0 == len(count_losses(done.slice(1, 2)))


def test_it_maps_over_a_parquet_file(tmp_path) -> None:
    """Batch by batch, with bounded memory."""
    pq.write_table(pa.table({"conversation": [BODY] * 100}), tmp_path / "in.parquet", row_group_size=10)
    batches = pq.ParquetFile(tmp_path / "in.parquet").iter_batches(batch_size=10)
    assert sum(len(convert_batch(batch, "ollama-chat")) for batch in batches) == 100


ROWS = [
    {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes"}], "source": "a"},
    {"messages": [{"role": "user", "content": "Ho", "name": "Jo"}, {"role": "assistant", "content": "No"}]},
]


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_rows_of_a_columnar_file_are_conversations(kind: str, tmp_path: Path) -> None:
    """What a row does not have is not there, though its column is."""
    path, made = tmp_path / f"rows.{kind}", pa.Table.from_pylist(ROWS)
    if kind == "parquet":
        pq.write_table(made, path)
    else:
        with pa.ipc.new_file(path, made.schema) as writer:
            writer.write_table(made)
    for given in (path, path.read_bytes()):
        found = list(il.read(given))
        assert [[message.text for message in one.messages] for one in found] == [["Hi", "Yes"], ["Ho", "No"]]
    assert il.encode(found[0], "openai-completions").body == ROWS[0]


def test_preference_rows_of_a_parquet_file_keep_both_answers(tmp_path: Path) -> None:
    """As the same rows do when they are lines."""
    path = tmp_path / "pairs.parquet"
    pq.write_table(pa.Table.from_pylist([{"prompt": "Hi", "chosen": "Yes", "rejected": "No"}] * 3), path)
    found = list(il.read(path))
    assert [len(one.entries) for one in found] == [3, 3, 3]
    assert found[0].messages[1].text == "Yes"


def test_conversations_become_a_table(tmp_path: Path) -> None:
    """Which is read again as the same conversations."""
    path = tmp_path / "rows.parquet"
    conversations = [il.decode({"messages": row["messages"]}) for row in ROWS]
    pq.write_table(table(conversations, "sharegpt"), path)
    again = list(il.read(path))
    assert [[m.text for m in one.messages] for one in again] == [["Hi", "Yes"], ["Ho", "No"]]


def test_a_table_has_the_columns_of_all_rows() -> None:
    """Those that the first row does not have included."""
    tool = {"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}
    rows: list[dict[str, Any]] = [{"messages": [{"role": "user", "content": "Hi"}]}]
    rows.append({**rows[0], "tools": [tool]})
    made = table([il.decode(row, "openai-finetune") for row in rows], "openai-finetune")
    assert [None, [tool]] == made.column("tools").to_pylist()


@pytest.mark.parametrize("size", [4, 9, 60])
def test_a_columnar_file_that_is_cut_off_is_refused(size: int, tmp_path: Path) -> None:
    """With one typed error."""
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.Table.from_pylist(ROWS), path)
    with pytest.raises(il.InterlinguaError, match="damaged parquet file"):
        list(il.read(path.read_bytes()[:size]))
