"""Conversion over Arrow columns."""

import json

import pyarrow as pa
import pyarrow.parquet as pq

import interlingua as il
from interlingua.arrow import convert_batch

BODY = json.dumps({"model": "claude-x", "max_tokens": 9, "top_k": 4, "messages": [{"role": "user", "content": "Hi"}]})


def test_a_column_is_converted_row_by_row() -> None:
    """Each row gives what `convert` gives; other columns stay."""
    table = pa.table({"id": [1, 2], "conversation": [BODY, BODY]})
    done = convert_batch(table, "openai-completions")
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


def test_it_maps_over_a_parquet_file(tmp_path) -> None:
    """Batch by batch, with bounded memory."""
    pq.write_table(pa.table({"conversation": [BODY] * 100}), tmp_path / "in.parquet", row_group_size=10)
    batches = pq.ParquetFile(tmp_path / "in.parquet").iter_batches(batch_size=10)
    assert sum(len(convert_batch(batch, "ollama-chat")) for batch in batches) == 100
