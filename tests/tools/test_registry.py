"""The registry of tools."""

import asyncio
from typing import Any

import pytest

from interlingua.tools.calling import call_tool
from interlingua.tools.decorator import tool as made
from interlingua.tools.registry import Resolution, Skipped, ToolRegistry
from interlingua.tools.tool import (
    MissingContext,
    Tool,
    ToolContext,
    ToolMeta,
    ToolResult,
    ToolSection,
    needed,
    text_result,
)
from interlingua.values.errors import FormatError
from interlingua.values.interop import describe


def tool(name: str, text: str = "ok", **fields: Any) -> Tool:
    async def execute(*_: Any) -> ToolResult:
        return text_result(text)

    fields = {"description": f"does {name}", **fields}
    return Tool(name=name, parameters={"type": "object", "properties": {}}, execute=execute, **fields)


def meta(id: str, **fields: Any) -> ToolMeta:
    fields = {"label": id, "description": id, "section_id": "custom", "profiles": ("full",), "source": "core", **fields}
    return ToolMeta(id=id, **fields)


def names(tools: list[Tool] | tuple[Tool, ...]) -> list[str]:
    return [tool.name for tool in tools]


@pytest.fixture
def warnings() -> list[str]:
    return []


@pytest.fixture
def registry(warnings: list[str]) -> ToolRegistry:
    return ToolRegistry(on_warning=warnings.append)


# --- what is registered ----------------------------------------------------------------------------------------------


def test_tools_are_registered_under_their_names(registry: ToolRegistry) -> None:
    """One, and several, and counted."""
    for name in ("b", "a", "c"):
        registry.register(tool(name))
    assert (3, True, False, True) == (len(registry), registry.has("a"), registry.has("z"), "b" in registry)
    assert ["b", "a", "c"] == [entry.id for entry in registry] == [entry.id for entry in registry.list()]


def test_what_is_known_of_a_tool_comes_from_it(registry: ToolRegistry) -> None:
    """Its label if it has one, its words, and for the rest the defaults of a custom tool."""
    registry.register(tool("a"))
    registry.register(tool("b", label="Bee"))
    assert [meta("a", description="does a"), meta("b", label="Bee", description="does b")] == registry.list()


def test_what_is_known_of_a_tool_can_be_changed(registry: ToolRegistry) -> None:
    """As a whole, or field by field; the id it is registered under too."""
    registry.register(tool("a"), profiles=("coding",), section_id="fs", source="plugin", plugin_id="p")
    registry.register(tool("b"), meta("other", include_in_open_claw_group=True), label="Other")
    first, second = registry.list()
    assert (("coding",), "fs", "plugin", "p") == (first.profiles, first.section_id, first.source, first.plugin_id)
    assert ("other", "Other", True) == (second.id, second.label, second.include_in_open_claw_group)


def test_the_same_id_again_replaces_the_tool_in_its_place(registry: ToolRegistry, warnings: list[str]) -> None:
    """The last registration counts, and the change is told."""
    registry.register(tool("a"))
    registry.register(tool("b"))
    registry.register(tool("a", description="new"), source="plugin", plugin_id="p")
    assert (2, ["new", "does b"]) == (len(registry), [entry.description for entry in registry])
    assert ["the tool a was registered twice: plugin tool a of the plugin p replaces core tool a"] == warnings


def test_the_same_tool_again_is_nothing_to_tell(registry: ToolRegistry, warnings: list[str]) -> None:
    """Discovery may run twice."""
    same = tool("a")
    registry.register(same)
    registry.register(same)
    assert (1, []) == (len(registry), warnings)


def test_tools_are_listed_by_section(registry: ToolRegistry) -> None:
    """In the order of the first tool of each; only sections with tools; the raw id where there is no label."""
    registry.register_section(ToolSection(id="web", label="old"))
    registry.register_section(ToolSection(id="web", label="Web"))
    registry.register_section(ToolSection(id="empty", label="Empty"))
    for name, section in (("a", "web"), ("b", "mine"), ("c", "web")):
        registry.register(tool(name), section_id=section)
    listed = [
        (section.id, section.label, [entry.id for entry in section.tools]) for section in registry.list_by_section()
    ]
    assert [("web", "Web", ["a", "c"]), ("mine", "mine", ["b"])] == listed


def test_tools_are_taken_out(registry: ToolRegistry) -> None:
    """One, if it was there, or all; labels of sections stay."""
    registry.register_section(ToolSection(id="web", label="Web"))
    registry.register(tool("a"), section_id="web")
    assert (True, False, None, 0) == (
        registry.unregister("a"),
        registry.unregister("a"),
        registry.resolve("a"),
        len(registry),
    )
    registry.register(tool("b"), section_id="web")
    registry.clear()
    assert ([], []) == (registry.list(), registry.resolve_all())
    registry.register(tool("b"), section_id="web")
    assert "Web" == registry.list_by_section()[0].label


def test_listing_calls_no_factory(registry: ToolRegistry) -> None:
    """What is said of a tool is known before it is made."""
    calls: list[ToolContext] = []
    registry.register_factory(lambda context: calls.append(context), meta("a"))
    registry.list()
    registry.list_by_section()
    assert ([], 1) == (calls, len(registry))


def test_tools_and_factories_are_not_mistaken_for_each_other(registry: ToolRegistry) -> None:
    """A tool that can be called is a tool; what is neither is refused."""

    @made
    def hello() -> str:
        """Say hello."""
        return "hi"

    registry.register(hello)
    assert [hello] == registry.resolve_all()
    for wrong in (lambda: registry.register(lambda context: None), lambda: registry.register(tool(""))):  # type: ignore[arg-type]
        with pytest.raises(FormatError):
            wrong()
    for wrong_factory in (hello, None):
        with pytest.raises(FormatError, match="not a factory for x"):
            registry.register_factory(wrong_factory, meta("x"))  # type: ignore[arg-type]


# --- what a context gives --------------------------------------------------------------------------------------------


async def test_tools_and_what_factories_make_are_resolved_in_order(registry: ToolRegistry) -> None:
    """Lists are flattened, nothing is left out, and the tools run."""
    registry.register(tool("a", "from a"))
    registry.register_factory(lambda context: [tool("b"), tool("c")], meta("many"))
    registry.register_factory(lambda context: None, meta("none"))
    registry.register_factory(lambda context: [], meta("empty"))
    registry.register_factory(lambda context: tool("d"), meta("one"))
    tools = registry.resolve_all()
    assert ["a", "b", "c", "d"] == names(tools)
    assert "from a" == (await tools[0].execute("c1", {})).text
    assert ["none", "empty"] == [skipped.id for skipped in registry.skipped]
    assert 5 == len(registry.list())


async def test_errors_of_a_tool_are_its_callers_affair(registry: ToolRegistry) -> None:
    """The registry hands the tool out as it is; the way to call it turns errors into results."""

    async def execute(*_: Any) -> ToolResult:
        raise RuntimeError("boom")

    registry.register(Tool(name="bad", description="", parameters={}, execute=execute))
    (bad,) = registry.resolve_all()
    with pytest.raises(RuntimeError, match="boom"):
        await bad.execute("c1", {})
    assert (await call_tool(bad, "c1", {})).is_error


def test_factories_get_the_context(registry: ToolRegistry) -> None:
    """An empty one if there is none."""
    seen: list[ToolContext] = []
    registry.register_factory(lambda context: seen.append(context), meta("a"))
    registry.resolve_all(ToolContext(workspace_dir="/w"))
    registry.resolve_all()
    registry.resolve("a", ToolContext(agent_id="x"))
    assert [ToolContext(workspace_dir="/w"), ToolContext(), ToolContext(agent_id="x")] == seen


def test_a_factory_that_raises_is_skipped_and_reported(registry: ToolRegistry) -> None:
    """Once, with its meta and the error itself; the others stay."""
    error = RuntimeError("boom")

    def fail(context: ToolContext) -> Tool:
        raise error

    registry.register(tool("a"))
    registry.register_factory(fail, meta("bad"))
    registry.register(tool("b"))
    reported: list[Any] = []
    assert ["a", "b"] == names(registry.resolve_all(on_error=lambda *what: reported.append(what)))
    assert [(meta("bad"), error)] == reported
    assert (Skipped(id="bad", reason="RuntimeError: boom"),) == registry.skipped
    assert ["a", "b"] == names(registry.resolve_all())


def test_a_tool_that_misses_its_context_is_reported_with_the_field(registry: ToolRegistry) -> None:
    """Whether the catalogue knows what it needs or the factory finds out; no error is told."""
    reported: list[Any] = []

    def make(context: ToolContext) -> Tool:
        needed(context, "root", "agent_dir")
        return tool("made")

    registry.register_factory(make, meta("found"))
    registry.register_factory(make, meta("known", needs=("bridge",)))
    assert [] == registry.resolve_all(ToolContext(root="/r"), lambda *what: reported.append(what))
    assert (
        Skipped(id="found", reason="the context has no agent_dir", missing=("agent_dir",)),
        Skipped(id="known", reason="the context has no bridge", missing=("bridge",)),
    ) == registry.skipped
    assert (str(MissingContext("a", "b")), []) == ("the context has no a and no b", reported)
    report = registry.report(ToolContext(root="/r", agent_dir="/a"))
    assert (["made"], ["known"]) == (names(report.tools), [skipped.id for skipped in report.skipped])


def test_what_a_factory_makes_must_be_a_tool(registry: ToolRegistry) -> None:
    """Anything else is skipped with the reason."""
    registry.register_factory(lambda context: "tool", meta("odd"))  # type: ignore[arg-type,return-value]
    assert [] == registry.resolve_all()
    assert "which is not a tool" in registry.skipped[0].reason


def test_one_tool_is_resolved_by_id_or_by_name(registry: ToolRegistry) -> None:
    """Of several that a factory makes the one that is meant, else the first; nothing for an unknown name."""
    registry.register(tool("a"), id="id-of-a")
    registry.register_factory(lambda context: [tool("b"), tool("c")], meta("many"), names=("b", "c"))
    registry.register_factory(lambda context: [], meta("empty"))
    found = [registry.resolve(name) for name in ("id-of-a", "a", "many", "c", "empty", "unknown")]
    assert ["a", "a", "b", "c", None, None] == [one and one.name for one in found]


def test_profiles_select_tools(registry: ToolRegistry) -> None:
    """`full` is all; a tool without a named profile appears only there; an unknown profile is nothing."""
    registry.register(tool("a"), profiles=("coding",))
    registry.register(tool("b"), profiles=("coding", "messaging"))
    registry.register(tool("c"))
    registry.register(tool("d"), profiles=())
    expected = {"full": "abcd", "coding": "ab", "messaging": "b", "minimal": "", "unknown": ""}
    assert expected == {profile: "".join(names(registry.resolve_by_profile(profile))) for profile in expected}
    assert "abcd" == "".join(names(registry.resolve_by_profile("minimal", include_all=True)))


def test_an_unknown_profile_or_group_or_tool_is_reported(registry: ToolRegistry, warnings: list[str]) -> None:
    """It selects nothing, and is told once."""
    registry.register(tool("read"), section_id="fs")
    for _ in range(2):
        assert [] == registry.resolve_by_profile("codeing")
        assert [] == registry.resolve_all(include=["group:fz", "reed"])
        assert ["read"] == names(registry.resolve_all(exclude=["group:fz"]))
    assert [
        "unknown profile 'codeing'; valid profiles: minimal, coding, messaging, full",
        "unknown group 'group:fz'; valid groups: group:fs, group:openclaw",
        "unknown tool 'reed'; did you mean 'read'?",
    ] == warnings


def test_a_group_or_profile_that_selects_nothing_is_reported(registry: ToolRegistry, warnings: list[str]) -> None:
    """Also one that is known: there may be no tool in it. A name that is to be left out counts too."""
    registry.register_section(ToolSection(id="ui", label="UI"))
    registry.register(tool("read"), section_id="fs", profiles=("coding",))
    assert [] == registry.resolve_by_profile("messaging")
    assert [] == registry.resolve_all(include=["group:ui"])
    assert ["read"] == names(registry.resolve_all(exclude=["reed"]))
    assert ["read"] == names(registry.resolve_by_profile("coding", include=["group:fs"]))
    assert [] == registry.resolve_all(include=[])
    assert [
        "profile 'messaging' selects no registered tool",
        "group 'group:ui' selects no registered tool",
        "unknown tool 'reed'; did you mean 'read'?",
    ] == warnings


@pytest.mark.parametrize("error", [SystemExit(2), asyncio.CancelledError(), BaseException("odd")])
@pytest.mark.parametrize("asynchronous", [True, False])
async def test_a_factory_cannot_end_the_host(registry: ToolRegistry, error: BaseException, asynchronous: bool) -> None:
    """It is skipped with its reason, the others are made, and a callback that fails as well is logged."""

    def fail(*_: Any) -> Any:
        raise error

    async def fail_later(context: Any) -> Any:
        fail()

    registry.register_factory(fail_later if asynchronous else fail, meta("bad"))
    registry.register(tool("good"))
    registry.on_warning = fail
    assert ["good"] == names(await registry.aresolve_all(on_error=fail, include=["bad", "good", "none"]))
    assert [("bad", describe(error))] == [(one.id, one.reason) for one in registry.skipped]


def test_lists_and_groups_select_tools(registry: ToolRegistry) -> None:
    """Ids, names and groups; nothing included is nothing; what is in both lists is out."""
    registry.register(tool("a"), section_id="fs")
    registry.register(tool("b"), section_id="fs", include_in_open_claw_group=True)
    registry.register(tool("c"), section_id="web", include_in_open_claw_group=True)
    registry.register(tool("d"), id="id-of-d")

    def selected(**lists: Any) -> str:
        return "".join(names(registry.resolve_all(**lists)))

    assert "ab" == selected(include=["group:fs"])
    assert "bc" == selected(include=["group:openclaw"])
    assert "cd" == selected(include=["d", "c"])
    assert "d" == selected(include=["id-of-d"])
    assert "" == selected(include=[])
    assert "abcd" == selected(exclude=[])
    assert "acd" == selected(exclude=["b"])
    assert "a" == selected(include=["group:fs"], exclude=["group:openclaw"])
    assert "b" == "".join(names(registry.resolve_by_profile("full", include=["group:fs"], exclude=["a"])))
    assert ["b"] == [entry.id for entry in registry.select("full", include=["group:fs"], exclude=["a"])]


def test_an_optional_tool_must_be_named(registry: ToolRegistry) -> None:
    """By its id, its name or its group."""
    registry.register(tool("a"), optional=True, section_id="fs")
    registry.register_factory(lambda context: tool("b"), meta("fb"), names=["b"], optional=True)
    assert [] == registry.resolve_all()
    assert "optional; name it in include" == registry.skipped[0].reason
    assert (["a"], ["a"], ["b"]) == tuple(
        names(registry.resolve_all(include=include)) for include in (["a"], ["group:fs"], ["b"])
    )


def test_case_33_two_tools_never_share_a_name(registry: ToolRegistry, warnings: list[str]) -> None:
    """The one that was registered last is taken; the other is reported, and told."""
    first, second = tool("a", "first"), tool("a", "second")
    registry.register(first, id="one")
    registry.register(tool("b"))
    registry.register_factory(lambda context: [second, tool("c")], meta("two", source="plugin", plugin_id="p"))
    for _ in range(2):
        assert [registry.resolve("b"), second] == registry.resolve_all()[:2]
    assert (
        Skipped(
            id="one",
            reason="plugin tool two of the plugin p has a tool with the same name, a, and was registered later",
        ),
    ) == registry.skipped
    assert 1 == len(warnings) and "same name, a" in warnings[0]


def test_case_33_one_factory_cannot_make_two_tools_with_one_name(registry: ToolRegistry) -> None:
    """Of equal ones the last is taken."""
    first, second = tool("a", "first"), tool("a", "second")
    registry.register_factory(lambda context: [first, second], meta("two"))
    assert [second] == registry.resolve_all()


def test_case_90_the_order_survives_reconnects(registry: ToolRegistry) -> None:
    """A tool that goes and comes back, or is replaced, is in its old place: the same tools are the same bytes."""
    for name in "abc":
        registry.register(tool(name))
    registry.unregister("a")
    registry.unregister("b")
    assert ["c"] == names(registry.resolve_all())
    registry.register(tool("b"))
    registry.register(tool("a"))
    registry.register(tool("c"))
    registry.register(tool("d"))
    assert ["a", "b", "c", "d"] == names(registry.resolve_all())


# --- asynchronous factories ------------------------------------------------------------------------------------------


async def test_asynchronous_factories_are_awaited(registry: ToolRegistry) -> None:
    """One after the other, so that the order does not depend on who is faster."""

    async def slow(context: ToolContext) -> Tool:
        await asyncio.sleep(0.01)
        return tool(context.agent_id or "nobody")

    async def failing(context: ToolContext) -> Tool:
        raise RuntimeError("boom")

    async def missing(context: ToolContext) -> Tool:
        raise MissingContext("root")

    registry.register_factory(slow, meta("slow", profiles=("coding",)))
    registry.register_factory(failing, meta("bad"))
    registry.register_factory(missing, meta("missing"))
    registry.register(tool("a"))
    reported: list[Any] = []
    tools = await registry.aresolve_all(ToolContext(agent_id="x"), lambda meta, error: reported.append(meta.id))
    assert (["x", "a"], ["bad"]) == (names(tools), reported)
    assert [("bad", ()), ("missing", ("root",))] == [(one.id, one.missing) for one in registry.skipped]
    assert ["nobody"] == names(await registry.aresolve_all(profile="coding"))
    one = await registry.aresolve("slow", ToolContext(agent_id="y"))
    assert one is not None and "y" == one.name
    assert await registry.aresolve("unknown") is None


def test_an_asynchronous_factory_is_a_reported_skip_where_nothing_can_be_awaited(registry: ToolRegistry) -> None:
    """Nothing is left unawaited, and the others stay."""

    async def make(context: ToolContext) -> Tool:
        return tool("later")

    registry.register_factory(make, meta("later"))
    registry.register(tool("a"))
    assert ["a"] == names(registry.resolve_all())
    assert (Skipped(id="later", reason="its factory is asynchronous; use aresolve_all"),) == registry.skipped
    assert registry.resolve("later") is None


def test_an_empty_registry_gives_nothing(registry: ToolRegistry) -> None:
    """No tools, nothing skipped."""
    assert ([], Resolution(), ()) == (registry.resolve_all(), registry.report(), registry.skipped)
