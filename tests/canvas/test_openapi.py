"""The published document: made from the routes, valid, and the same as the page's types."""

import re
from pathlib import Path
from typing import Any

import pytest

from canvas.driving import browsing
from interlingua.canvas.openapi import document, typescript
from interlingua.canvas.routing import ROUTES

TYPES = Path(__file__).parents[2] / "web" / "src" / "api.d.ts"


def references(value: Any) -> set[str]:
    if isinstance(value, dict):
        own = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
        return own.union(*map(references, value.values()))
    return set().union(*map(references, value)) if isinstance(value, list) else set()


def test_every_route_is_in_the_document() -> None:
    """With a summary, its parameters, and what it answers; nothing refers to what is not there."""
    found = document()
    assert "3.1.0" == found["openapi"]
    for route in ROUTES:
        operation = found["paths"][route.path][route.method.lower()]
        assert operation["summary"], route
        named = {parameter["name"] for parameter in operation["parameters"] if parameter["in"] == "path"}
        assert set(re.findall(r"{(\w+)}", route.path)) == named
    names = [op["operationId"] for path in found["paths"].values() for op in path.values()]
    assert len(names) == len(set(names))
    known = {f"#/components/schemas/{name}" for name in found["components"]["schemas"]}
    assert references(found) <= known


async def test_the_document_is_served(tmp_path: Path) -> None:
    """To whoever may read."""
    async with browsing(tmp_path) as (_, browser):
        assert document() == await browser.get("/api/openapi.json")


@pytest.mark.skipif(not TYPES.parent.is_dir(), reason="the page is not part of this checkout")
def test_the_types_of_the_page_are_those_of_the_server() -> None:
    """`python -m interlingua.canvas.openapi web/src/api.d.ts` writes them anew."""
    assert typescript() == TYPES.read_text()


def test_types_say_what_may_be_absent() -> None:
    """A field with a default is optional; null stays where it means something of its own."""
    text = typescript()
    row = text[text.index("export type Row = {") :].partition("};")[0]
    assert "  seq: number;" in row and "  cost?: number;" in row and "  calls?: CallRow[];" in row
    asked = text[text.index("export type RunRequest = {") :].partition("};")[0]
    assert "  from?: string | null;" in asked and "  models: string[];" in asked
