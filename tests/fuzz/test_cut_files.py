"""Every file format, cut short: values, or one typed error that names the place."""

import os
import random
from pathlib import Path

import pytest

import interlingua as il
from interlingua.dialects import FORMATS
from interlingua.values.errors import InterlinguaError

WIRE = Path(__file__).parents[1] / "wire"
CUTS = int(os.environ.get("INTERLINGUA_CUTS", "20"))  # at random bytes; more for a long run
SAMPLES = [path for name in sorted(FORMATS) for path in sorted(WIRE.glob(f"{name.replace('-', '[-_]')}/*"))]


def look(data: bytes, name: str) -> None:
    """Reads what is left of a file, by detection and as what it was."""
    for read in (lambda: list(il.read(data)), lambda: il.decode(data, name)):
        try:
            found = read()
        except InterlinguaError as error:
            assert str(error).strip(), "an error without a word"
            assert ":" in str(error) or "$" in str(error) or "format" in str(error), f"no place or cause: {error}"
        else:
            assert found or data.strip() != b""


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_file_cut_at_any_line_or_byte_is_read_or_refused(path: Path) -> None:
    """At the end of each line, and at random bytes; always the same ones."""
    data = path.read_bytes()
    name = path.parent.name.replace("_", "-")
    ends = [at + 1 for at, byte in enumerate(data) if byte == 0x0A]
    chosen = random.Random(path.name).sample(range(len(data)), min(CUTS, len(data)))
    for cut in sorted({*ends, *chosen}):
        look(data[:cut], name)
