"""The public names of the root: few, each found by `dir`, completion, `help` and type checkers."""

import ast
import importlib
import pydoc
import subprocess
import sys
from pathlib import Path

import pytest

import interlingua as il

ROOT = Path(il.__file__)


def test_the_root_has_few_names() -> None:
    """Rarer types live in their packages."""
    assert len(il.__all__) <= 75
    assert sorted(set(il.__all__)) == sorted(il.__all__)


@pytest.mark.parametrize("name", il.__all__)
def test_every_public_name_is_shown_and_there(name: str) -> None:
    """Lazy ones too, in a module where nothing was used yet."""
    assert name in dir(il)
    assert getattr(il, name) is not None


def test_nothing_but_public_names_is_shown() -> None:
    """Completion does not offer the imports of the module."""
    assert set(il.__all__) == {name for name in dir(il) if not name.startswith("_")}


def test_help_shows_every_public_name() -> None:
    """Both in the overview at its top and in its body."""
    assert [] == [name for name in il.__all__ if name not in (il.__doc__ or "").replace(";", " ").split()]
    page = pydoc.render_doc(il, renderer=pydoc.plaintext)
    assert [] == [name for name in il.__all__ if name not in page]


def test_type_checkers_see_the_names_that_are_loaded_on_first_use() -> None:
    """Each from the same module as at run time."""
    tree = ast.parse(ROOT.read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {alias.name: one.module for one in block.body if isinstance(one, ast.ImportFrom) for alias in one.names}
    lazy, moved = (
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in ("_LAZY", "_MOVED")
    )
    assert lazy | moved | {"sync": None} == seen


@pytest.mark.parametrize("name", ["DIALECTS", "Aborted", "Message", "OutputInvalid", "Result", "audio", "document"])
def test_a_name_that_left_the_root_is_deprecated(name: str) -> None:
    """Programs that use it still work, and the warning names the place it moved to."""
    with pytest.warns(DeprecationWarning, match=rf"interlingua\.{name} is deprecated; use .*\.{name}$") as seen:
        value = getattr(il, name)
    home = str(seen[0].message).rpartition(" ")[2].rpartition(".")[0]
    assert value is getattr(importlib.import_module(home), name)
    assert name not in dir(il)


def test_an_unknown_name_is_an_attribute_error() -> None:
    """As for any module."""
    with pytest.raises(AttributeError, match="module 'interlingua' has no attribute 'Frobnicate'"):
        il.Frobnicate  # noqa: B018


def test_importing_the_package_imports_no_http_client() -> None:
    """Programs that only convert do not pay for connectors."""
    code = "import sys, interlingua; print([m for m in ('aiohttp', 'click', 'rich', 'mcp') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "[]\n" == done.stdout


def test_an_offline_call_loads_only_what_it_needs() -> None:
    """The first call of a process takes as long as its imports: no adapter, file format or HTTP client for `debug`."""
    heavy = ("aiohttp", "sqlite3", "tempfile", "email", "html", "tomllib", "difflib", "configparser", "multidict")
    ours = ("conversion.adapting", "conversion.detection", "dialects.files", "connect.http1", "connect.auth.oauth")
    code = (
        "import asyncio, sys, interlingua as il; asyncio.run(il.complete('debug/parrot-1', 'hi'));"
        f"print([m for m in {heavy} + tuple('interlingua.' + n for n in {ours}) if m in sys.modules])"
    )
    for _ in range(2):  # the first call of a home also writes the cache of prices
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "[]\n" == done.stdout
