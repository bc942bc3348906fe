"""Conversion of Arrow columns: functions that any engine (Spark, Ray, DuckDB, …) can map over batches.

Requires the extra `arrow`. A row that cannot be converted does not stop the batch: its `error` column has the reason.
`il.read` yields the conversations of a Parquet or Arrow file, and `table` builds one from conversations.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from .conversion import SELF, convert, encode
from .conversion.containers import columns_of
from .dialects import dialect as find
from .values.errors import InterlinguaError, Unsupported
from .values.request import Conversation

BLOCK = 32 << 20  # bytes of text per yielded table; engines handle blocks of 1 to 128 MB well
LOSSES = pa.list_(
    pa.struct([("path", pa.string()), ("what", pa.string()), ("why", pa.string()), ("severity", pa.string())])
)
_GROUP = ["severity", "path", "why"]


def convert_batch(
    batch: Any, to: str, *, column: str = "conversation", dialect: str | None = None, strict: bool = False
) -> Any:
    """Converts `column` (JSON text or bytes) of a table or record batch to the format `to`.

    Adds the columns `<column>_converted` (JSON text, null on failure), `<column>_losses` and `<column>_error`. An
    unknown format is an error of the caller and raised.
    """
    _check_names(to, dialect)
    rows = [_converted(value.as_py(), to, dialect, strict) for value in batch.column(column)]
    return _extended(batch, column, rows)


def convert_batches(
    batch: Any,
    to: str,
    *,
    column: str = "conversation",
    dialect: str | None = None,
    strict: bool = False,
    max_bytes: int = BLOCK,
) -> Iterator[Any]:
    """Converts a table or record batch of any size; yields parts with the columns of `convert_batch`.

    A part is complete when its source and converted text reach `max_bytes`, so the rows in memory as Python values are
    bounded whatever the size of the batch. An empty batch yields one empty part.
    """
    _check_names(to, dialect)
    rows: list[_Row] = []
    start = size = 0
    for value in batch.column(column):
        text = value.as_py()
        rows.append(_converted(text, to, dialect, strict))
        size += _size(text) + _size(rows[-1][0])
        if size >= max_bytes:
            yield _extended(batch.slice(start, len(rows)), column, rows)
            start, size, rows = start + len(rows), 0, []
    if rows or not start:
        yield _extended(batch.slice(start), column, rows)


def count_losses(batch: Any, *, column: str = "conversation") -> Any:
    """Returns the losses of a converted table or record batch in groups: `severity`, `path`, `why`, `count`, `example`.

    The path of a group has no indices; the example is the path of one of its losses. To merge the groups of many
    batches, group by the first three columns and sum `count`.
    """
    losses = pc.list_flatten(batch.column(f"{column}_losses"))
    paths = pc.struct_field(losses, "path")
    table = pa.table(
        {
            "severity": pc.struct_field(losses, "severity"),
            "path": pc.replace_substring_regex(paths, r"\[\d+\]", "[]"),
            "why": pc.struct_field(losses, "why"),
            "example": paths,
        }
    )
    groups = table.group_by(_GROUP).aggregate([("path", "count"), ("example", "min")])
    return groups.rename_columns([*_GROUP, "count", "example"])


def _check_names(to: str, dialect: str | None) -> None:
    """Raises if a format is unknown: else every row would be refused for it."""
    for name in (to, dialect):
        if name is not None and name != SELF:
            find(name)


def _size(text: str | bytes | None) -> int:
    """The size in UTF-8."""
    return len(text.encode("utf-8", "replace") if isinstance(text, str) and not text.isascii() else text or "")


_Row = tuple[bytes | None, list[dict[str, str]] | None, str | None]


def _extended(batch: Any, column: str, rows: list[_Row]) -> Any:
    """Returns `batch` with the results of its rows as further columns."""
    for at, (name, kind) in enumerate((("converted", pa.string()), ("losses", LOSSES), ("error", pa.string()))):
        batch = batch.append_column(f"{column}_{name}", pa.array([row[at] for row in rows], kind))
    return batch


def _converted(value: str | bytes | None, to: str, dialect: str | None, strict: bool) -> _Row:
    if value is None:
        return None, None, None
    try:
        encoded = convert(value, to, dialect, strict=strict)
        losses = [
            {"path": loss.path, "what": loss.what, "why": loss.why, "severity": loss.severity}
            for loss in encoded.losses
        ]
        return encoded.bytes(), losses, None
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
