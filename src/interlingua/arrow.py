"""Conversion over columns, for corpora that one machine does not hold: a function that any engine can map over batches.

Needs the extra `arrow`. A row whose conversation cannot be converted does not stop the batch: its `error` says why.
"""

from typing import Any

import pyarrow as pa

from .conversion import convert
from .values.errors import InterlinguaError

LOSSES = pa.list_(
    pa.struct([("path", pa.string()), ("what", pa.string()), ("why", pa.string()), ("severity", pa.string())])
)


def convert_batch(
    batch: Any, to: str, *, column: str = "conversation", dialect: str | None = None, strict: bool = False
) -> Any:
    """A table or record batch with `column` (JSON text or bytes) converted into `to`.

    Adds the columns `<column>_converted` (JSON text, null where it failed), `<column>_losses` and `<column>_error`.
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
