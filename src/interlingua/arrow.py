"""Conversion of Arrow columns: a function that any engine (Spark, Ray, DuckDB, …) can map over batches.

Requires the extra `arrow`. A row that cannot be converted does not stop the batch: its `error` column has the reason.
`il.read` yields the conversations of a Parquet or Arrow file, and `table` builds one from conversations.
"""

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from .conversion import convert, encode
from .conversion.containers import columns_of
from .values.errors import InterlinguaError, Unsupported
from .values.request import Conversation

LOSSES = pa.list_(
    pa.struct([("path", pa.string()), ("what", pa.string()), ("why", pa.string()), ("severity", pa.string())])
)


def convert_batch(
    batch: Any, to: str, *, column: str = "conversation", dialect: str | None = None, strict: bool = False
) -> Any:
    """Converts `column` (JSON text or bytes) of a table or record batch to the format `to`.

    Adds the columns `<column>_converted` (JSON text, null on failure), `<column>_losses` and `<column>_error`.
    """
    rows = [_converted(value.as_py(), to, dialect, strict) for value in batch.column(column)]
    bodies, losses, errors = ([row[at] for row in rows] for at in range(3))
    table = pa.Table.from_batches([batch]) if isinstance(batch, pa.RecordBatch) else batch
    table = table.append_column(f"{column}_converted", pa.array(bodies, pa.string()))
    table = table.append_column(f"{column}_losses", pa.array(losses, LOSSES))
    table = table.append_column(f"{column}_error", pa.array(errors, pa.string()))
    return table.combine_chunks().to_batches()[0] if isinstance(batch, pa.RecordBatch) and len(batch) else table


def _converted(
    value: str | bytes | None, to: str, dialect: str | None, strict: bool
) -> tuple[str | None, list[dict[str, str]] | None, str | None]:
    if value is None:
        return None, None, None
    try:
        encoded = convert(value, to, dialect, strict=strict)
        losses = [
            {"path": loss.path, "what": loss.what, "why": loss.why, "severity": loss.severity}
            for loss in encoded.losses
        ]
        return encoded.bytes().decode(), losses, None
    except InterlinguaError as error:
        return None, None, str(error)


def table(conversations: Iterable[Conversation], dialect: str, *, strict: bool = False) -> Any:
    """Returns a table with one row per conversation, for a format whose body is an object: its fields are the columns.

    For a training set such as `openai-finetune` or `sharegpt`; `pyarrow.parquet.write_table` writes it to a file.
    """
    rows = []
    for conversation in conversations:
        body = encode(conversation, dialect, strict=strict).body
        if not isinstance(body, dict):
            raise Unsupported(dialect, "a row is an object; a list of messages has no columns")
        rows.append(body)
    try:
        return pa.table(columns_of(rows))
    except pa.ArrowInvalid as error:
        raise Unsupported(dialect, f"the rows have no common columns: {error}") from None
