"""Writes the generated parts of docs/dialects.md (field support, and losses between dialects), docs/formats.md (every
file format and its rules), docs/generations.md (requests by model generation), docs/gateway.md (losses between
wires), docs/comparison.md (lines of code by task), the providers of docs/connectors.md, the module table of
CONTRIBUTING.md, and the plots.

`make docs` writes them; a test fails if a page is outdated.
"""

import ast
import inspect
import re
import sys
from pathlib import Path
from typing import Any

from generations_table import table as generation_table
from plots import drawings

from interlingua.connect.providers import ROWS
from interlingua.dialects import DIALECTS, FORMATS, WIRES, FileFormat, dialect
from interlingua.dialects.wire import Wire
from interlingua.gateway.checking import SCENARIOS, front_wires, scenario_body, scenario_losses
from interlingua.values.losses import KEPT, Support

PAGE = Path(__file__).parent / "dialects.md"
MARK = "<!-- generated: below this line, by `make docs` -->"
SIGNS = {"kept": "●", "some": "◐", "weakened": "◐", "dropped": "·", "record": "–"}


def support(name: str) -> dict[str, Support]:
    found = dialect(name)
    return dict(getattr(found, "module", found).FIELD_SUPPORT)


def bases() -> dict[str, dict[str, Support]]:
    """Returns the tables by dialect; variants share that of their base, formats without an encoder have none."""
    return {
        name: support(name)
        for name, value in DIALECTS.items()
        if not hasattr(value.codec, "module") and not getattr(value, "is_log", False) and support(name)
    }


def fields(tables: dict[str, dict[str, Support]]) -> list[str]:
    return list(dict.fromkeys(field for table in tables.values() for field in table if not field.endswith(".extra")))


def field_table(tables: dict[str, dict[str, Support]]) -> str:
    rows = ["| field | " + " | ".join(tables) + " |", "|---|" + ":-:|" * len(tables)]
    for field in fields(tables):
        signs = (SIGNS[table.get(field, KEPT).kind] for table in tables.values())
        rows.append(f"| `{field}` | " + " | ".join(signs) + " |")
    return "\n".join(rows)


def is_supported(table: dict[str, Support], field: str) -> bool:
    return table.get(field, KEPT).kind in ("kept", "some")


def pair_table(tables: dict[str, dict[str, Support]]) -> str:
    """For each pair: how many fields the first supports and the second drops / supports in part."""
    rows = ["| from ↓ to → | " + " | ".join(tables) + " |", "|---|" + ":-:|" * len(tables)]
    for name, table in tables.items():
        cells = []
        for target, other in tables.items():
            supported = [field for field in fields(tables) if is_supported(table, field)]
            gone = sum(other.get(field, KEPT).kind == "dropped" for field in supported)
            part = sum(other.get(field, KEPT).kind in ("some", "weakened") for field in supported)
            cells.append("=" if name == target else f"{gone} / {part}")
        rows.append(f"| **{name}** | " + " | ".join(cells) + " |")
    return "\n".join(rows)


def reasons(tables: dict[str, dict[str, Support]]) -> str:
    parts = []
    for name, table in tables.items():
        grouped: dict[tuple[str, str], list[str]] = {}
        for field, support in table.items():
            if support.kind in ("dropped", "weakened", "some") and not field.endswith(".extra"):
                grouped.setdefault((support.kind, support.why), []).append(f"`{field}`")
        lines = [f"- *{kind}*: {why}: {', '.join(names)}" for (kind, why), names in grouped.items()]
        parts.append(f"### {name}\n\n" + ("\n".join(lines) or "Everything is kept."))
    return "\n\n".join(parts)


def generated() -> str:
    tables = bases()
    return f"""{MARK}

## Field support

● kept · ◐ in some cases (the rest is reported) · `·` dropped (reported) · – bookkeeping that this format does not carry

Session files, exports and logs that are read and returned, but not written from other formats, are in
[formats](formats.md): they round-trip losslessly.

{field_table(tables)}

## Losses between dialects

Fields that the first dialect supports and the second drops / supports only in some cases. Within one, nothing is lost.

{pair_table(tables)}

## Reasons

{reasons(tables)}
"""


FORMATS_PAGE = PAGE.with_name("formats.md")


def contents(form: FileFormat) -> str:
    """The file types of the format."""
    kinds = ["Markdown or text" if form.text else "JSON lines" if form.lines else "JSON"]
    kinds += ["zip"] if form.archive is not None else []
    kinds += ["SQLite"] if form.database is not None else []
    return ", ".join(kinds)


def format_pages() -> str:
    """A table of the file formats, and the rules of each: the docstring of its codec."""
    rows = ["| format | file | several conversations | written from others |", "|---|---|:-:|:-:|"]
    parts = []
    for name, form in sorted(FORMATS.items()):
        several = form.split is not None or form.archive is not None or form.database is not None
        signs = " | ".join("●" if sign else "·" for sign in (several, form.writable))
        rows.append(f"| [`{name}`](#{name}) | {contents(form)} | {signs} |")
        parts.append(f"## {name}\n\n{inspect.cleandoc(form.codec.__doc__ or '')}")
    return "\n".join(rows) + "\n\n" + "\n\n".join(parts)


def formats() -> str:
    return f"{MARK}\n\n{format_pages()}\n"


GENERATIONS = PAGE.with_name("generations.md")


def generations() -> str:
    return f"""{MARK}

## Requests by generation

Each cell is the adapted request for the model in its row. ⚠ marks losses, with the reason.

{generation_table()}
"""


CONTRIBUTING = PAGE.parents[1] / "CONTRIBUTING.md"
PACKAGE = PAGE.parents[1] / "src/interlingua"
BEGIN, END = "<!-- modules: written by `make docs` -->", "<!-- end of modules -->"


def module_table() -> str:
    """Every module with the first sentence of its docstring, one folding table per package."""
    packages: dict[str, list[Path]] = {}
    for path in sorted(PACKAGE.rglob("*.py"), key=lambda path: (path.parent.relative_to(PACKAGE).parts, path.name)):
        packages.setdefault(next(iter(path.relative_to(PACKAGE).parts[:-1]), ""), []).append(path)
    parts = []
    for package, paths in packages.items():
        rows = [f"| `{path.relative_to(PACKAGE).as_posix()}` | {first_sentence(path)} |" for path in paths]
        name = f"<code>{package}/</code>" if package else "root"
        parts.append(f"<details><summary>{name} ({len(paths)})</summary>\n")
        parts += ["| module | content |", "|---|---|", *rows, "\n</details>"]
    return "\n".join(parts)


def first_sentence(path: Path) -> str:
    """Returns the first sentence of a module's docstring."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return " ".join(text.split("\n\n")[0].split()).split(". ")[0].rstrip(".").replace("|", "\\|")


def write_modules() -> None:
    """Not part of `--check`: a reworded docstring does not make the page wrong; tests check the names."""
    text = CONTRIBUTING.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    CONTRIBUTING.write_text(f"{before}{BEGIN}\n{module_table()}\n{END}{rest.partition(END)[2]}", encoding="utf-8")


CONNECTORS = PAGE.with_name("connectors.md")
PROVIDERS_TABLE = re.compile(r"^\| Provider \| Who \| Wire \| Key \|\n(?:\|.*\n)+", re.MULTILINE)


def provider_table() -> str:
    """The rows of `connect/providers.py` for readers."""
    lines = ["| Provider | Who | Wire | Key |", "| --- | --- | --- | --- |"]
    for row in ROWS:
        wires = dict.fromkeys((row.api, *(route.api for route in row.routes)))
        key = ", ".join(f"`{name}`" for name in row.env) or ("none needed" if row.keyless else "a login")
        lines.append(f"| `{row.id}` | {row.label} | {', '.join(f'`{wire}`' for wire in wires)} | {key} |")
    return "\n".join(lines) + "\n"


def write_providers() -> None:
    text = CONNECTORS.read_text(encoding="utf-8")
    CONNECTORS.write_text(PROVIDERS_TABLE.sub(lambda _: provider_table(), text, count=1), encoding="utf-8")


COMPARISON = PAGE.with_name("comparison.md")


def comparison() -> str:
    """The lines of code of tasks, counted in interop/library_tasks."""
    sys.path.append(str(PAGE.parents[1] / "interop" / "library_tasks"))
    from tasks import TASKS, table

    return f"""{MARK}

## {len(TASKS)} tasks, in lines of code

Lines of code per task, in the files of `interop/library_tasks`: formatted alike, without imports and shared code.
`make interop` runs them all, each package in its own environment against one local server, and checks results and
requests. A dash: the package does not support the task.

{table()}
"""


GATEWAY = Path(__file__).parent / "gateway.md"


def pairs() -> str:
    """The losses of each pair of wires by scenario."""
    wires = front_wires()
    rows = []
    for client in wires:
        cells = [pair_cell(client, target) for target in wires]
        unsaid = [name for name in SCENARIOS if scenario_body(client, name) is None]
        rows.append(f"| {client.api} | {' | '.join(cells)} | {', '.join(unsaid) or '-'} |")
    names = " | ".join(wire.api for wire in wires)
    return f"| client \\ provider | {names} | unsupported |\n|{'---|' * (len(wires) + 2)}\n" + "\n".join(rows)


def pair_cell(client: Wire, target: Wire) -> str:
    found = {name: scenario_losses(client, target, name) for name in SCENARIOS}
    lost = [
        f"{name}: {', '.join(dict.fromkeys(f'{one.what} {one.severity}' for one in losses))}"
        for name, losses in found.items()
        if losses
    ]
    return "; ".join(lost) or "nothing"


def crossings() -> str:
    """The losses of each pair of wires at the gateway."""
    wires = {name: table for name, table in bases().items() if name in WIRES}
    lost = {}
    for name, table in wires.items():
        for target, other in wires.items():
            gone = [field for field in table if is_supported(table, field) and other.get(field, KEPT).kind == "dropped"]
            gone = [f"`{field}`" for field in gone if not field.endswith(".extra")]
            if name != target:
                lost[name, target] = ", ".join(gone) or "nothing"
    rows = [f"| {name} | {target} | {fields} |" for (name, target), fields in lost.items()]
    return (
        f"""{MARK}

## Losses by pair

Text, usage, stop reasons, thinking with its signatures over three turns, parallel tools with their results, images,
documents, structured output, cache markers, errors before and within a stream, and disconnecting clients: each client
format is tested in front of each provider format with the vendors' packages (`tests/gateway/test_pairs.py`,
`test_recall.py`, `test_faults.py`). A cell lists the losses of {", ".join(SCENARIOS)}; each loss
is in the header `x-interlingua-losses`.

{pairs()}

Fields that the client's wire supports and the provider's drops, each reported. Within one wire nothing is lost.

| client | provider | dropped |
|---|---|---|
"""
        + "\n".join(rows)
        + "\n"
    )


def main(arguments: list[Any]) -> None:
    if "--check" not in arguments:
        write_modules()
        write_providers()
    outdated = False
    pages = (
        (PAGE, generated()),
        (FORMATS_PAGE, formats()),
        (GENERATIONS, generations()),
        (GATEWAY, crossings()),
        (COMPARISON, comparison()),
    )
    for place, below in pages:
        text = place.read_text(encoding="utf-8")
        page = text.split(MARK)[0] + below
        if "--check" not in arguments:
            place.write_text(page, encoding="utf-8")
        outdated |= page != text
    for place, drawing in drawings().items():
        outdated |= not place.exists() or place.read_text(encoding="utf-8") != drawing
        if "--check" not in arguments:
            place.write_text(drawing, encoding="utf-8")
    sys.exit("--check" in arguments and outdated)


if __name__ == "__main__":
    main(sys.argv[1:])
