"""The tools that the canvas lends to its runs: none, unless it was started with some."""

from pathlib import Path

from msgspec.structs import replace

from ..serving.problems import HttpProblem
from ..tools.catalog import discover_core_tools
from ..tools.fs import local_bridge
from ..tools.policy import ASK, Permissions, Policy
from ..tools.registry import PROFILES, ToolRegistry
from ..tools.tool import Tool, ToolContext
from .shapes import ToolList, ToolView


class Toolbox:
    """Tools of a profile that work below one folder; what changes something is asked for first."""

    def __init__(self, profile: str = "none", root: Path | None = None, policy: Policy | None = None) -> None:
        self.permissions = Permissions(policy or ASK)
        self.context: ToolContext | None = None
        self._tools: dict[str, Tool] = {}
        self._sections: dict[str, str] = {}
        if profile == "none":
            return
        where = str((root or Path.cwd()).resolve())
        self.permissions = Permissions(replace(policy or ASK, root=where))
        self.context = ToolContext(root=where, workspace_dir=where, bridge=local_bridge(where))
        registry = ToolRegistry(on_warning=lambda text: None)
        discover_core_tools(registry, on_load_warning=lambda text: None)
        self._tools = {tool.name: tool for tool in registry.resolve_by_profile(profile, self.context)}
        self._sections = {meta.id: meta.section_id for meta in registry.list()}

    def chosen(self, names: tuple[str, ...]) -> list[Tool]:
        """The tools of these names; 422 for one that is not lent."""
        for at, name in enumerate(names):
            if name not in self._tools:
                raise HttpProblem(
                    422,
                    f"no tool {name!r} is lent here",
                    path=f"$.tools[{at}]",
                    remedy="start the canvas with --tools, or choose one of /api/tools",
                )
        return [self._tools[name] for name in names]

    def listed(self) -> ToolList:
        return ToolList(
            tools=tuple(
                ToolView(
                    name=tool.name,
                    label=tool.label or tool.name,
                    section=self._sections.get(tool.name, ""),
                    asks=self.permissions.decide(tool.name, {}).action == "ask",
                )
                for tool in self._tools.values()
            ),
            profiles=tuple(PROFILES) if self._tools else (),
        )
