"""A wire is one value: no other module knows wires by name."""

import ast
from pathlib import Path
from typing import get_args

import interlingua
import interlingua as il
from interlingua.dialects import WIRES
from interlingua.values.request import KnownApi

ROOT = Path(interlingua.__file__).parent
# Where a wire may be named, and why.
ALLOWED = {
    "dialects/registry.py": "the names, and where the values are",
    "values/request.py": "a type of the public contract",
    "connect/providers.py": "rows say which wire a provider has",
    "canvas/export.py": "one of its formats is a list of this wire's messages",
    "dialects/files/agents_sdk.py": "the format holds this wire's items",
    "dialects/files/openai_finetune.py": "the format is this wire's request",
    "dialects/files/claude_code.py": "the format holds this wire's messages",
    "dialects/files/codex_cli.py": "the format holds this wire's items",
    "dialects/files/gemini_cli.py": "the format holds this wire's parts",
    "dialects/files/new_sessions.py": "the sessions hold messages of these wires",
    "dialects/files/openclaw.py": "the format packs items of these wires",
    "dialects/files/vercel_ui.py": "the format holds signatures of this wire's",
    "dialects/files/wire_bodies.py": "batches and logs hold bodies of these wires",
}
# Providers that have the name of a wire.
PROVIDERS = {"google-vertex", "google-gemini-cli", "azure-openai-responses"}


def named(path: Path) -> set[str]:
    """The wires that a module names in its code; docstrings do not count."""
    tree = ast.parse(path.read_text("utf-8"))
    texts = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return {text.value for text in texts if text.value in WIRES}


def test_no_module_beside_the_wires_own_knows_a_wire_by_name() -> None:
    """What is asked of a wire is asked of its value; else a wire of a plugin would be left out."""
    packages = {Path(str(wire.codec.__dict__.get("module", wire.codec).__file__)).parent for wire in WIRES.values()}
    found = {
        str(path.relative_to(ROOT)): sorted(names)
        for path in sorted(ROOT.rglob("*.py"))
        if path.parent not in packages and (names := named(path) - (PROVIDERS if "connect" in path.parts else set()))
    }
    assert ALLOWED.keys() == found.keys(), found


def test_the_type_of_known_wires_names_wires_that_there_are() -> None:
    """`KnownApi` is a closed list of the public contract; each of its names is a wire."""
    assert set(get_args(KnownApi)) <= set(WIRES)
    assert all(il.wire(name).api == name for name in get_args(KnownApi))
