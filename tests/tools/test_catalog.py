"""The core tools as a table, and their discovery."""

import importlib
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from interlingua.host.channels import TerminalSink
from interlingua.tools import catalog
from interlingua.tools.calling import validated
from interlingua.tools.catalog import (
    GROUPS,
    ROWS,
    ToolRow,
    discover_core_tools,
    get_core_sections,
    get_core_tool_catalog,
)
from interlingua.tools.fs import local_bridge
from interlingua.tools.registry import ToolRegistry
from interlingua.tools.schemas import extract_tool_schemas
from interlingua.tools.tool import Tool, ToolContext, ToolMeta, ToolResult, ToolSection, text_result

IDS = [row.id for row in ROWS]


async def execute(*_: Any) -> ToolResult:
    return text_result("ok")


def make(name: str) -> Any:
    def factory(context: ToolContext) -> Tool:
        return Tool(name=name, description=name, parameters={}, execute=execute)

    return factory


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table of three tools: one that works, one whose module breaks, one that has no module."""
    good = types.ModuleType("cat_alog.good")
    good.good_tool = make("good")  # type: ignore[attr-defined]
    good.__spec__ = importlib.machinery.ModuleSpec("cat_alog.good", None)
    package = types.ModuleType("cat_alog")
    package.__path__ = []
    monkeypatch.setitem(sys.modules, "cat_alog", package)
    monkeypatch.setitem(sys.modules, "cat_alog.good", good)
    rows = (
        ToolRow("lost", "fs", "c", False, "cat_alog.lost:lost_tool", "", "Is not there"),
        ToolRow("broken", "fs", "c", True, "cat_alog.good:other_tool", "", "Does not load"),
        ToolRow("good", "web", "mcg", True, "cat_alog.good:good_tool", "root", "Works"),
    )
    monkeypatch.setattr(catalog, "ROWS", rows)


@pytest.fixture
def warnings() -> list[str]:
    return []


@pytest.fixture
def registry(warnings: list[str]) -> ToolRegistry:
    return ToolRegistry(on_warning=warnings.append)


def discovered(registry: ToolRegistry, **options: Any) -> list[str]:
    discover_core_tools(registry, **options)
    return [meta.id for meta in registry]


# --- the table -------------------------------------------------------------------------------------------------------


def test_the_catalogue_tells_of_each_tool() -> None:
    """Id, words, section, profiles and source; nothing of where its factory is."""
    metas = get_core_tool_catalog()
    assert IDS == [meta.id for meta in metas]
    sections = {section.id for section in get_core_sections()}
    for meta in metas:
        assert isinstance(meta, ToolMeta)
        assert (meta.id, "core", True) == (meta.label, meta.source, meta.section_id in sections)
        assert meta.description and isinstance(meta.profiles, tuple)
    assert metas is not get_core_tool_catalog()


def test_ids_are_unique_and_needs_are_fields_of_the_context() -> None:
    """A row that is wrong is found here."""
    assert len(IDS) == len(set(IDS))
    assert {name for row in ROWS for name in row.needs.split()} <= set(ToolContext.__struct_fields__)


def test_the_sections_have_their_labels() -> None:
    """Eleven of them, in their order."""
    labels = "Files Runtime Web Memory Sessions UI Messaging Automation Nodes Agents Media"
    sections = get_core_sections()
    assert labels == " ".join(section.label for section in sections)
    assert ToolSection(id="fs", label="Files") == sections[0]


def test_the_groups_are_the_sections_and_those_that_are_flagged() -> None:
    """`group:openclaw` too, which the original only knows as a flag."""
    assert {section.id for section in get_core_sections()} | {"openclaw"} == set(GROUPS)
    assert ("read", "write", "edit", "apply_patch", "ls", "find", "grep") == GROUPS["fs"]
    assert {"web_search", "web_fetch", "memory_search", "memory_get"} <= set(GROUPS["openclaw"])
    assert not set(GROUPS["fs"]) & set(GROUPS["openclaw"])


def test_the_profiles_of_core_tools() -> None:
    """Coding has files, commands and memory; the web is in no named profile."""
    profiles = {meta.id: meta.profiles for meta in get_core_tool_catalog()}
    assert {("coding",)} == {profiles[name] for name in (*GROUPS["fs"], *GROUPS["runtime"], *GROUPS["memory"])}
    assert {()} == {profiles[name] for name in GROUPS["web"]}


# --- discovery -------------------------------------------------------------------------------------------------------


def test_discovery_registers_what_is_there(registry: ToolRegistry) -> None:
    """Each tool whose module exists, in the order of the table; of the others a warning."""
    lost: list[str] = []
    found = discovered(registry, on_load_warning=lost.append)
    assert [id for id in IDS if id in found] == found
    assert len(IDS) == len(found) + len(lost)


def test_discovery_imports_no_tool() -> None:
    """Only the factories do, when they are called."""
    code = (
        "import sys; from interlingua.tools.registry import ToolRegistry; from interlingua.tools import catalog\n"
        "registry = ToolRegistry(); catalog.discover_core_tools(registry, on_load_warning=str); list(registry)\n"
        "sys.exit(any(name.startswith('interlingua.tools.core.') or name == 'jsonschema_rs' for name in sys.modules))"
    )
    assert 0 == subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode


def test_discovery_can_be_repeated(registry: ToolRegistry, warnings: list[str]) -> None:
    """Nothing doubles, and nothing is told as a collision."""
    once = discovered(registry, on_load_warning=str)
    assert (once, []) == (discovered(registry, on_load_warning=str), warnings)


@pytest.mark.usefixtures("modules")
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ["broken", "good"]),
        ({"include": ["good"]}, ["good"]),
        ({"include": []}, []),
        ({"exclude": []}, ["broken", "good"]),
        ({"exclude": ["good"]}, ["broken"]),
        ({"include": ["group:web"]}, ["good"]),
        ({"exclude": ["group:web"]}, ["broken"]),
        ({"include": ["group:openclaw"]}, ["broken", "good"]),
        ({"include": ["group:openclaw"], "exclude": ["group:fs"]}, ["good"]),
        ({"include": ["good"], "exclude": ["good"]}, []),
        ({"include": ["group:nothing"]}, []),
        ({"exclude": ["group:nothing"]}, ["broken", "good"]),
    ],
)
def test_discovery_takes_lists_and_groups(registry: ToolRegistry, options: Any, expected: list[str]) -> None:
    """Absent is all, empty is nothing, and out beats in."""
    assert expected == discovered(registry, on_load_warning=str, **options)


@pytest.mark.usefixtures("modules")
def test_an_unknown_group_is_reported(registry: ToolRegistry) -> None:
    """It matches nothing, and is not taken in silence."""
    reported: list[str] = []
    discover_core_tools(registry, exclude=["group:nothing", "group:web"], on_load_warning=reported.append)
    assert reported[0].startswith("unknown group 'group:nothing'; valid groups: group:fs, ")
    assert 2 == len(reported)


@pytest.mark.usefixtures("modules")
def test_a_module_that_is_not_there_or_does_not_load_is_reported_and_the_others_stay(registry: ToolRegistry) -> None:
    """The warning names the tool and the cause; the report too."""
    reported: list[str] = []
    errors: list[Any] = []
    discover_core_tools(registry, on_load_warning=reported.append)
    assert ["the core tool lost could not be loaded: no module cat_alog.lost"] == reported
    tools = registry.resolve_all(ToolContext(root="/r"), lambda meta, error: errors.append((meta.id, type(error))))
    assert (["good"], [("broken", AttributeError)]) == ([tool.name for tool in tools], errors)
    assert 2 == len(reported) and "the core tool broken could not be loaded: AttributeError" in reported[1]
    assert ["broken"] == [skipped.id for skipped in registry.skipped]


@pytest.mark.usefixtures("modules")
def test_a_core_tool_without_its_context_is_reported_and_not_loaded(registry: ToolRegistry) -> None:
    """With the field that is missing."""
    discover_core_tools(registry, include=["good"])
    assert [] == registry.resolve_all()
    assert [("good", ("root",))] == [(skipped.id, skipped.missing) for skipped in registry.skipped]


def test_sections_are_labelled_whatever_is_selected(registry: ToolRegistry) -> None:
    """So that tools added later find their label."""
    discover_core_tools(registry, include=[])
    registry.register(make("mine")(ToolContext()), section_id="fs")
    assert ["Files"] == [section.label for section in registry.list_by_section()]


def test_a_tool_of_the_user_is_not_replaced_in_silence(registry: ToolRegistry, warnings: list[str]) -> None:
    """Discovery afterwards wins, as every last registration, and it is told."""
    registry.register(make("read")(ToolContext()))
    discover_core_tools(registry, include=["read"])
    assert 1 == len(registry) and "the tool read was registered twice" in warnings[0]


def test_the_openclaw_root_is_kept_for_plugins(registry: ToolRegistry, tmp_path: Path) -> None:
    """Once; one that is not there is told, and the tools are registered all the same."""
    reported: list[str] = []
    for _ in range(2):
        discover_core_tools(registry, include=["read"], openclaw_root=str(tmp_path), on_load_warning=reported.append)
    discover_core_tools(registry, include=["read"], openclaw_root="/nowhere", on_load_warning=reported.append)
    assert ((str(tmp_path),), ["read"]) == (registry.search_roots, [meta.id for meta in registry])
    assert [
        "/nowhere is not a directory, so no plugins are searched there; set openclaw_root to the path of a checkout"
    ] == reported


# --- what is really there --------------------------------------------------------------------------------------------


def test_core_tools_are_made_for_a_context_and_the_rest_is_explained(registry: ToolRegistry, tmp_path: Path) -> None:
    """What resolves has all that a tool has, what does not has its reason; nothing crashes without a context."""
    discover_core_tools(registry, on_load_warning=str)
    for context in (
        ToolContext(),
        ToolContext(root=str(tmp_path), workspace_dir=str(tmp_path), bridge=local_bridge(tmp_path)),
    ):
        errors: list[Any] = []
        tools = registry.resolve_all(context, lambda meta, error, reported=errors: reported.append((meta.id, error)))
        assert [] == errors
        for tool in tools:
            assert tool.name in IDS and tool.description and "object" == tool.parameters["type"]
        assert {*IDS} >= {skipped.id for skipped in registry.skipped} | {tool.name for tool in tools}
        assert len(registry) == len(tools) + len(registry.skipped)
        coding = [tool.name for tool in registry.resolve_by_profile("coding", context)]
        assert [tool.name for tool in tools if tool.name in coding] == coding
    assert {*GROUPS["fs"]} & {meta.id for meta in registry} <= {tool.name for tool in tools}


def test_core_tools_say_which_field_they_miss(registry: ToolRegistry) -> None:
    """Without files, a place to work, notes or a model; the web needs nothing."""
    discover_core_tools(registry, on_load_warning=str)
    registry.resolve_all()
    missing = {skipped.id: skipped.missing for skipped in registry.skipped}
    expected = {
        **dict.fromkeys(GROUPS["fs"], ("root", "bridge")),
        **dict.fromkeys(GROUPS["runtime"], ("root",)),
        **dict.fromkeys(GROUPS["memory"], ("agent_dir", "workspace_dir")),
        "image": ("complete",),
        "canvas": ("canvas",),
        **dict.fromkeys(GROUPS["sessions"], ("sessions", "session_key")),
        "message": ("channel",),
    }
    there = {meta.id for meta in registry}
    assert {id: fields for id, fields in expected.items() if id in there} == missing


def test_the_schemas_of_core_tools_are_schemas_that_every_provider_takes(
    registry: ToolRegistry, tmp_path: Path
) -> None:
    """They compile, are of objects, and all that Gemini is not told is that a bound is excluded."""

    async def complete(*_: Any, **__: Any) -> None: ...

    discover_core_tools(registry, on_load_warning=str)
    place = str(tmp_path)
    tools = registry.resolve_all(
        ToolContext(
            root=place,
            workspace_dir=place,
            bridge=local_bridge(place),
            complete=complete,
            sessions=object(),
            session_key="main",
            channel=TerminalSink(),
            canvas=object(),
        )
    )
    assert len(registry) == len(tools)
    for tool in tools:
        assert "object" == tool.parameters["type"]
        validated(tool.parameters, {})
    specs, losses = extract_tool_schemas(tools, "google")
    assert [tool.name for tool in tools] == [spec.name for spec in specs]
    assert [] == [loss.path for loss in losses if not loss.path.endswith(".exclusiveMinimum")]


def test_a_known_group_without_a_tool_is_reported(registry: ToolRegistry) -> None:
    """As is a name that is no core tool's."""
    reported: list[str] = []
    discover_core_tools(
        registry, include=["group:nodes", "raed"], exclude=["group:web"], on_load_warning=reported.append
    )
    assert (
        0,
        ["group 'group:nodes' selects no registered tool", "unknown tool 'raed'; did you mean 'read'?"],
    ) == (
        len(registry),
        reported,
    )
