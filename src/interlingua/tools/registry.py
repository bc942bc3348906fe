"""The tool registry: tools and tool factories, resolved for a context in a stable order.

Names in a resolved list are unique: the tool registered last wins, and the other is reported. Each skipped tool is
reported with the reason and the context fields that it misses.
"""

import difflib
import inspect
import logging
from collections.abc import Awaitable, Callable, Collection, Generator, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from msgspec import Struct, structs

from ..values.errors import FormatError
from ..values.interop import attribute, describe, drop, must_propagate, snake_case, struct_of, with_arguments
from .tool import (
    MissingContext,
    Tool,
    ToolContext,
    ToolFactory,
    ToolMeta,
    ToolProfile,
    ToolSection,
    as_tool,
    check_settings,
)

_log = logging.getLogger(__name__)

OnError: TypeAlias = Callable[[ToolMeta, BaseException], object]
OnWarning: TypeAlias = Callable[[str], object]

_Metas: TypeAlias = list[ToolMeta]  # inside the class, `list` is a method
_Names: TypeAlias = Collection[str] | None
_Context: TypeAlias = ToolContext | Mapping[str, Any] | None


class Skipped(Struct, frozen=True, kw_only=True):
    """A skipped tool: the reason, and the missing context fields."""

    id: str
    reason: str
    missing: tuple[str, ...] = ()


class Resolution(Struct, frozen=True, kw_only=True):
    """The resolved and the skipped tools of a context."""

    tools: tuple[Tool, ...] = ()
    skipped: tuple[Skipped, ...] = ()


class Section(Struct, frozen=True, kw_only=True):
    """The tools of one section."""

    id: str
    label: str
    tools: tuple[ToolMeta, ...]


class _Entry(Struct, frozen=True):
    meta: ToolMeta
    source: Tool | ToolFactory
    optional: bool
    names: tuple[str, ...]


class _Selection(Struct, frozen=True, kw_only=True):
    """Which entries to resolve."""

    profile: str = "full"
    include_all: bool = False
    include: _Names = None
    exclude: _Names = None


class _Asynchronous(Exception):
    """A factory returned an awaitable to a synchronous resolution."""


_Steps: TypeAlias = Generator[Awaitable[Any], Any, Resolution]


class ToolRegistry:
    """Tools and tool factories. `on_warning` receives warnings; default: the log."""

    def __init__(self, *, on_warning: OnWarning | None = None) -> None:
        self.on_warning: OnWarning = on_warning or _log.warning
        self.search_roots: tuple[str, ...] = ()
        self._entries: dict[str, _Entry] = {}
        self._ranks: dict[str, int] = {}
        self._labels: dict[str, str] = {}
        self._warned: set[str] = set()
        self._last = Resolution()

    def __repr__(self) -> str:
        return f"ToolRegistry({len(self)} tools)"

    # --- registration ---

    def register(
        self,
        tool: Tool | Mapping[str, Any] | Any,
        meta: ToolMeta | Mapping[str, Any] | None = None,
        *,
        optional: bool = False,
        **fields: Any,
    ) -> None:
        """Adds a tool, under `meta.id` or its name: a `Tool`, or a mapping or object with a tool's fields.

        `meta` and `fields` override its metadata: `profiles=("coding",)`. Registering an id again replaces the tool in
        place. An optional tool is resolved only if `include` names it.
        """
        found = as_tool(tool)
        if found is None or not isinstance(found.name, str) or not found.name:
            raise FormatError(f"not a tool with a name: {tool!r}; use register_factory for a factory")
        if not isinstance(meta, ToolMeta):
            meta = _meta(meta or {}, id=found.name, label=found.label or found.name, description=found.description)
        self._add(_Entry(structs.replace(meta, **fields), found, optional, (found.name,)))

    def register_factory(
        self,
        factory: ToolFactory,
        meta: ToolMeta | Mapping[str, Any],
        *,
        names: Iterable[str] = (),
        optional: bool = False,
    ) -> None:
        """Adds a factory of one or several tools. `names` are the tools that it may create, if known."""
        if not isinstance(meta, ToolMeta):
            meta = _meta(meta, description="", label=str(attribute(meta, "id", "")))
        if as_tool(factory) is not None or not callable(factory):
            raise FormatError(f"not a factory for {meta.id}: {factory!r}; use register for a tool")
        self._add(_Entry(meta, factory, optional, tuple(names)))

    def register_section(self, section: ToolSection | Mapping[str, Any]) -> None:
        """Sets the label of a section."""
        given = struct_of(section, ToolSection, "section")
        self._labels[given.id] = given.label

    def unregister(self, id: str) -> bool:
        """Removes a tool. If it is registered again, it returns to its old position."""
        return self._entries.pop(id, None) is not None

    def clear(self) -> None:
        """Removes all tools; section labels stay."""
        self._entries.clear()
        self._ranks.clear()

    def has(self, id: str) -> bool:
        return id in self._entries

    def __contains__(self, id: object) -> bool:
        return id in self._entries

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[ToolMeta]:
        return iter(self.list())

    def select(self, profile: ToolProfile | str = "full", *, include: _Names = None, exclude: _Names = None) -> _Metas:
        """The metadata of the tools of a profile that are included and not excluded."""
        return [entry.meta for entry in self._selected(_Selection(profile=profile, include=include, exclude=exclude))]

    def list_by_section(self) -> "list[Section]":
        """The sections that have tools, in the order of their first tool."""
        found: dict[str, _Metas] = {}
        for meta in self:
            found.setdefault(meta.section_id, []).append(meta)
        return [Section(id=id, label=self._labels.get(id, id), tools=tuple(metas)) for id, metas in found.items()]

    # --- resolution ---

    def resolve(self, name: str, context: _Context = None, on_error: OnError | None = None) -> Tool | None:
        """The tool with this id or name. If its factory creates several, the one with the name, else the first."""
        entry = self.find(name)
        if entry is None:
            return None
        tools = _driven(self._steps([entry], context, on_error, _Selection())).tools
        return next((tool for tool in tools if tool.name == name), tools[0] if tools else None)

    def resolve_all(
        self,
        context: _Context = None,
        on_error: OnError | None = None,
        *,
        include: _Names = None,
        exclude: _Names = None,
    ) -> "list[Tool]":
        """All tools that the context allows, in the order of registration.

        `include` and `exclude` take ids, names and groups (`group:fs`); `exclude` wins. If a factory raises, it is
        skipped and `on_error` called; `skipped` has the reason for every missing tool.
        """
        return self._resolved(context, on_error, _Selection(include=include, exclude=exclude))

    def resolve_by_profile(
        self,
        profile: ToolProfile | str,
        context: _Context = None,
        include_all: bool = False,
        on_error: OnError | None = None,
        *,
        include: _Names = None,
        exclude: _Names = None,
    ) -> "list[Tool]":
        """The tools of a profile; all of them for `full`, or with `include_all`."""
        selection = _Selection(profile=profile, include_all=include_all, include=include, exclude=exclude)
        return self._resolved(context, on_error, selection)

    async def aresolve_all(
        self,
        context: _Context = None,
        on_error: OnError | None = None,
        *,
        profile: ToolProfile | str = "full",
        include: _Names = None,
        exclude: _Names = None,
    ) -> "list[Tool]":
        """`resolve_all`, or with a profile `resolve_by_profile`, that also awaits asynchronous factories."""
        selection = _Selection(profile=profile, include=include, exclude=exclude)
        self._last = await _driven_async(self._steps(self._selected(selection), context, on_error, selection))
        return [*self._last.tools]

    async def aresolve(self, name: str, context: _Context = None, on_error: OnError | None = None) -> Tool | None:
        """`resolve` that also awaits asynchronous factories."""
        entry = self.find(name)
        if entry is None:
            return None
        tools = (await _driven_async(self._steps([entry], context, on_error, _Selection()))).tools
        return next((tool for tool in tools if tool.name == name), tools[0] if tools else None)

    def report(self, context: _Context = None) -> Resolution:
        """The tools for a context, and the reason for each skipped one."""
        selection = _Selection()
        return _driven(self._steps(self._selected(selection), context, None, selection))

    async def areport(self, context: _Context = None) -> Resolution:
        """`report` that also awaits asynchronous factories."""
        selection = _Selection()
        return await _driven_async(self._steps(self._selected(selection), context, None, selection))

    @property
    def skipped(self) -> tuple[Skipped, ...]:
        """The tools that the last `resolve_all`, `aresolve_all` or `resolve_by_profile` skipped, with reasons."""
        return self._last.skipped

    def entry(self, id: str) -> _Entry | None:
        """Returns the entry registered under an id."""
        return self._entries.get(id)

    def put(self, entry: _Entry) -> None:
        """Registers an entry, replacing the one with its id without a warning."""
        self._entries[entry.meta.id] = entry
        self._ranks.setdefault(entry.meta.id, len(self._ranks))

    def find(self, name: str) -> _Entry | None:
        """The entry that makes a tool, by its id or by one of its names; the last registered wins."""
        if name in self._entries:
            return self._entries[name]
        return next((entry for entry in reversed(self._ordered()) if name in entry.names), None)

    # --- internals ---

    def _add(self, entry: _Entry) -> None:
        id = entry.meta.id
        before = self._entries.get(id)
        if before is not None and (before.meta != entry.meta or before.source != entry.source):
            self._warn(f"the tool {id} was registered twice: {_origin(entry)} replaces {_origin(before)}")
        self.put(entry)

    def _ordered(self) -> "list[_Entry]":
        return sorted(self._entries.values(), key=lambda entry: self._ranks[entry.meta.id])

    def _resolved(self, context: _Context, on_error: OnError | None, selection: _Selection) -> "list[Tool]":
        self._last = _driven(self._steps(self._selected(selection), context, on_error, selection))
        return [*self._last.tools]

    def _selected(self, selection: _Selection) -> "list[_Entry]":
        self._check(selection)
        return [
            entry
            for entry in self._ordered()
            if (selection.include_all or selection.profile in ("full", *entry.meta.profiles))
            and (selection.include is None or _named(entry, selection.include))
            and not (selection.exclude and _named(entry, selection.exclude))
        ]

    def _check(self, selection: _Selection) -> None:
        """Warns about each profile, group and name that selects nothing."""
        profile = selection.profile
        if profile not in PROFILES and not any(profile in meta.profiles for meta in self):
            self._warn(f"unknown profile {profile!r}; valid profiles: {', '.join(PROFILES)}")
        elif profile != "full" and not selection.include_all and not any(profile in meta.profiles for meta in self):
            self._warn(f"profile {profile!r} selects no registered tool")
        groups = dict.fromkeys((*self._labels, *(meta.section_id for meta in self), OPENCLAW))
        for name in dict.fromkeys((*(selection.include or ()), *(selection.exclude or ()))):
            if problem := unknown_group(name, groups):
                self._warn(problem)
            elif not any(_named(entry, (name,)) for entry in self._entries.values()):
                self._warn(no_match(name, self._entries))

    def _steps(
        self, entries: Iterable[_Entry], context: _Context, on_error: OnError | None, selection: _Selection
    ) -> _Steps:
        """Creates the tools in order. Yields awaitables, and receives their results."""
        given = ToolContext.of(context)
        check_settings(given.config, self._entries)  # the caller's own mistake: raised, not a reason to skip a tool
        made: list[tuple[_Entry, Tool]] = []
        skipped: list[Skipped] = []
        for entry in entries:
            reason = _skip_reason(entry, given, selection)
            if reason is not None:
                skipped.append(reason)
                continue
            try:
                found = entry.source if isinstance(entry.source, Tool) else _call(entry, given)
                if inspect.isawaitable(found):
                    found = yield found
                made += [(entry, tool) for tool in _tools(entry, found)]
                if found is None or found == []:
                    skipped.append(Skipped(id=entry.meta.id, reason="its factory returned nothing for this context"))
            except MissingContext as missing:
                skipped.append(_missing(entry, missing))
            except _Asynchronous:
                skipped.append(Skipped(id=entry.meta.id, reason="its factory is asynchronous; use aresolve_all"))
            except BaseException as error:  # a factory is foreign code: its failure does not stop the others
                if must_propagate(error):
                    raise
                skipped.append(Skipped(id=entry.meta.id, reason=describe(error)))
                _notify(on_error, entry.meta, error)
        return self._distinct(made, skipped)

    def _distinct(self, made: "list[tuple[_Entry, Tool]]", skipped: "list[Skipped]") -> Resolution:
        """One tool per name: the one whose entry was registered last."""
        last = {tool.name: (entry, tool) for entry, tool in made}
        tools: list[Tool] = []
        for entry, tool in made:
            winner, taken = last[tool.name]
            if tool is taken:
                tools.append(tool)
            else:
                reason = f"{_origin(winner)} has a tool with the same name, {tool.name}, and was registered later"
                self._warn(f"{_origin(entry)}: {reason}")
                skipped.append(Skipped(id=entry.meta.id, reason=reason))
        return Resolution(tools=tuple(tools), skipped=tuple(skipped))

    def _warn(self, message: str) -> None:
        """Emits each warning once."""
        if message not in self._warned:
            self._warned.add(message)
            _notify(self.on_warning, message)

    def list(self) -> _Metas:
        """The metadata of the tools, in order; calls no factory."""
        return [entry.meta for entry in self._ordered()]


# --- groups ---

PROFILES: tuple[ToolProfile, ...] = ("minimal", "coding", "messaging", "full")
GROUP = "group:"
OPENCLAW = "openclaw"


def in_group(meta: ToolMeta, group: str) -> bool:
    """Whether a tool belongs to a group: by its flag for `openclaw`, else by its section."""
    return meta.include_in_open_claw_group if group == OPENCLAW else meta.section_id == group


def unknown_group(name: str, known: Collection[str]) -> str | None:
    """The warning for the name of an unknown group; None for anything else."""
    if not name.startswith(GROUP) or name.removeprefix(GROUP) in known:
        return None
    return f"unknown group {name!r}; valid groups: {', '.join(GROUP + group for group in known)}"


def no_match(name: str, known: Iterable[str]) -> str:
    """The warning for a group or name that selects no tool."""
    if name.startswith(GROUP):
        return f"group {name!r} selects no registered tool"
    near = difflib.get_close_matches(name, known, n=1)
    return f"unknown tool {name!r}" + (f"; did you mean {near[0]!r}?" if near else "")


def named(meta: ToolMeta, names: Iterable[str], others: tuple[str, ...] = ()) -> bool:
    """Whether one of `names` is this tool's id, one of its groups, or one of its `others`."""
    return any(
        in_group(meta, name.removeprefix(GROUP)) if name.startswith(GROUP) else name in (meta.id, *others)
        for name in names
    )


def _named(entry: _Entry, names: Iterable[str]) -> bool:
    return named(entry.meta, names, entry.names)


# --- making ---


_CUSTOM = {"section_id": "custom", "profiles": ("full",), "source": "core"}


def _meta(given: Mapping[str, Any], **known: str) -> ToolMeta:
    """The metadata of a tool; defaults are `known`, then those of a custom tool."""
    own = {snake_case(name): value for name, value in given.items() if value is not None}
    meta = struct_of({**_CUSTOM, **known, **own}, ToolMeta, "meta")
    return structs.replace(meta, profiles=tuple(meta.profiles), needs=tuple(meta.needs))


def _notify(callback: Callable[..., object] | None, *args: object) -> None:
    """Calls a host's callback; logs what it raises, so that resolved tools are not lost."""
    if callback is None:
        return
    try:
        callback(*args)
    except BaseException as error:
        if must_propagate(error):
            raise
        _log.error("a callback of the tool registry failed", exc_info=error)


def _origin(entry: _Entry) -> str:
    owner = f" of the plugin {entry.meta.plugin_id}" if entry.meta.plugin_id else ""
    return f"{entry.meta.source} tool {entry.meta.id}{owner}"


def _skip_reason(entry: _Entry, context: ToolContext, selection: _Selection) -> Skipped | None:
    """The reason why an entry is not tried, if any."""
    if entry.optional and not (selection.include and _named(entry, selection.include)):
        return Skipped(id=entry.meta.id, reason="optional; name it in include")
    missing = tuple(name for name in entry.meta.needs if getattr(context, name, None) is None)
    return _missing(entry, MissingContext(*missing)) if missing else None


def _missing(entry: _Entry, missing: MissingContext) -> Skipped:
    return Skipped(id=entry.meta.id, reason=str(missing), missing=missing.fields)


def _call(entry: _Entry, context: ToolContext) -> Any:
    return with_arguments(entry.source, ("context",), what=f"the factory of {entry.meta.id}")(context)


def _tools(entry: _Entry, found: Any) -> list[Tool]:
    many = found if isinstance(found, list | tuple) else [] if found is None else [found]
    tools = [as_tool(tool) for tool in many]
    for tool, given in zip(tools, many, strict=True):
        if tool is None:
            raise FormatError(f"the factory of {entry.meta.id} returned {given!r}, which is not a tool")
    return [tool for tool in tools if tool is not None]


def _driven(steps: _Steps) -> Resolution:
    """Runs the steps synchronously."""
    try:
        waiting = next(steps)
        while True:
            drop(waiting)
            waiting = steps.throw(_Asynchronous())
    except StopIteration as end:
        resolution: Resolution = end.value
        return resolution


async def _driven_async(steps: _Steps) -> Resolution:
    """Runs the steps and awaits what they yield."""
    try:
        waiting = next(steps)
        while True:
            try:
                value = await waiting
            except BaseException as error:
                if must_propagate(error):
                    raise
                waiting = steps.throw(error)
            else:
                waiting = steps.send(value)
    except StopIteration as end:
        resolution: Resolution = end.value
        return resolution
