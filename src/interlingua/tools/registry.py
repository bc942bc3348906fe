"""Tools by name: registered whole or as factories, made for a context, in an order that does not change.

Two tools never share a name in a resolved list: the one that was registered last is taken, and the other reported. Each
tool that is left out is reported with its reason, and with the context fields that it misses.
"""

import difflib
import inspect
import logging
from collections.abc import Awaitable, Callable, Collection, Generator, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from msgspec import Struct, structs

from ..values.errors import FormatError
from ..values.interop import attribute, describe, must_propagate, snake_case, struct_of, with_arguments
from .tool import MissingContext, Tool, ToolContext, ToolFactory, ToolMeta, ToolProfile, ToolSection, as_tool

_log = logging.getLogger(__name__)

OnError: TypeAlias = Callable[[ToolMeta, BaseException], object]
OnWarning: TypeAlias = Callable[[str], object]

_Metas: TypeAlias = list[ToolMeta]  # inside the class, `list` is a method
_Names: TypeAlias = Collection[str] | None
_Context: TypeAlias = ToolContext | Mapping[str, Any] | None


class Skipped(Struct, frozen=True, kw_only=True):
    """A tool that could not be had: why, and which context fields it misses."""

    id: str
    reason: str
    missing: tuple[str, ...] = ()


class Resolution(Struct, frozen=True, kw_only=True):
    """The tools that a context gives, and those that it does not."""

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


class _Wanted(Struct, frozen=True, kw_only=True):
    """Which entries are asked for."""

    profile: str = "full"
    include_all: bool = False
    include: _Names = None
    exclude: _Names = None


class _Asynchronous(Exception):
    """A factory returned something to await, where nothing can be awaited."""


_Steps: TypeAlias = Generator[Awaitable[Any], Any, Resolution]


class ToolRegistry:
    """Tools and factories of tools. `on_warning` hears of what is odd but not wrong; by default it is logged."""

    def __init__(self, *, on_warning: OnWarning | None = None) -> None:
        self.on_warning: OnWarning = on_warning or _log.warning
        self.search_roots: tuple[str, ...] = ()
        self._entries: dict[str, _Entry] = {}
        self._ranks: dict[str, int] = {}
        self._labels: dict[str, str] = {}
        self._given: set[str] = set()
        self._last = Resolution()

    # --- what is registered ---

    def register(
        self,
        tool: Tool | Mapping[str, Any] | Any,
        meta: ToolMeta | Mapping[str, Any] | None = None,
        *,
        optional: bool = False,
        **fields: Any,
    ) -> None:
        """Adds a tool, under `meta.id` or its name: a `Tool`, or a mapping or object with a tool's fields.

        `meta` and `fields` change what is said of it: `profiles=("coding",)`. The same id again replaces the tool in
        its place. An optional tool is resolved only where `include` names it.
        """
        found = as_tool(tool)
        if found is None or not isinstance(found.name, str) or not found.name:
            raise FormatError(f"a tool with a name is needed, not {tool!r}: use register_factory for a factory")
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
        """Adds what makes one tool, or several, for a context. `names` are the tools that it may make, if known."""
        if not isinstance(meta, ToolMeta):
            meta = _meta(meta, description="", label=str(attribute(meta, "id", "")))
        if as_tool(factory) is not None or not callable(factory):
            raise FormatError(f"a factory is needed for {meta.id}, not {factory!r}: use register for a tool")
        self._add(_Entry(meta, factory, optional, tuple(names)))

    def register_section(self, section: ToolSection | Mapping[str, Any]) -> None:
        """Gives a section its label; the last one counts."""
        given = struct_of(section, ToolSection, "section")
        self._labels[given.id] = given.label

    def unregister(self, id: str) -> bool:
        """Takes a tool out. Should it come back, it comes back to its old place."""
        return self._entries.pop(id, None) is not None

    def clear(self) -> None:
        """Takes out all tools; the labels of sections stay."""
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
        """What is known of the tools of a profile, of those that are included and not excluded."""
        return [entry.meta for entry in self._wanted(_Wanted(profile=profile, include=include, exclude=exclude))]

    def list_by_section(self) -> "list[Section]":
        """The sections that have tools, in the order of their first one."""
        found: dict[str, _Metas] = {}
        for meta in self:
            found.setdefault(meta.section_id, []).append(meta)
        return [Section(id=id, label=self._labels.get(id, id), tools=tuple(metas)) for id, metas in found.items()]

    # --- what a context gives ---

    def resolve(self, name: str, context: _Context = None, on_error: OnError | None = None) -> Tool | None:
        """The tool with this id or name. Of a factory that makes several, the one with the name, else the first."""
        entry = self.find(name)
        if entry is None:
            return None
        tools = _driven(self._steps([entry], context, on_error, _Wanted())).tools
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

        `include` and `exclude` take ids, names and groups (`group:fs`); what is in both is out. A factory that raises
        is skipped and told to `on_error`; `skipped` says of every tool that is missing why it is.
        """
        return self._resolved(context, on_error, _Wanted(include=include, exclude=exclude))

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
        """The tools of a profile; `full` is all of them, and so is any profile with `include_all`."""
        wanted = _Wanted(profile=profile, include_all=include_all, include=include, exclude=exclude)
        return self._resolved(context, on_error, wanted)

    async def aresolve_all(
        self,
        context: _Context = None,
        on_error: OnError | None = None,
        *,
        profile: ToolProfile | str = "full",
        include: _Names = None,
        exclude: _Names = None,
    ) -> "list[Tool]":
        """As `resolve_all`, or with a profile as `resolve_by_profile`, with factories that are asynchronous as well."""
        wanted = _Wanted(profile=profile, include=include, exclude=exclude)
        self._last = await _adriven(self._steps(self._wanted(wanted), context, on_error, wanted))
        return [*self._last.tools]

    async def aresolve(self, name: str, context: _Context = None, on_error: OnError | None = None) -> Tool | None:
        """As `resolve`, with factories that are asynchronous as well."""
        entry = self.find(name)
        if entry is None:
            return None
        tools = (await _adriven(self._steps([entry], context, on_error, _Wanted()))).tools
        return next((tool for tool in tools if tool.name == name), tools[0] if tools else None)

    def report(self, context: _Context = None) -> Resolution:
        """The tools that the context gives, and of each other one why it does not."""
        wanted = _Wanted()
        return _driven(self._steps(self._wanted(wanted), context, None, wanted))

    @property
    def skipped(self) -> tuple[Skipped, ...]:
        """What the last `resolve_all`, `aresolve_all` or `resolve_by_profile` left out, and why."""
        return self._last.skipped

    def entry(self, id: str) -> _Entry | None:
        """What is registered under an id."""
        return self._entries.get(id)

    def put(self, entry: _Entry) -> None:
        """Registers an entry in the place of whatever has its id, without a warning."""
        self._entries[entry.meta.id] = entry
        self._ranks.setdefault(entry.meta.id, len(self._ranks))

    def find(self, name: str) -> _Entry | None:
        """The entry that makes a tool, by its id or by one of its names; the last registered wins."""
        if name in self._entries:
            return self._entries[name]
        return next((entry for entry in reversed(self._ordered()) if name in entry.names), None)

    # --- how ---

    def _add(self, entry: _Entry) -> None:
        id = entry.meta.id
        before = self._entries.get(id)
        if before is not None and (before.meta != entry.meta or before.source != entry.source):
            self._warn(f"the tool {id} was registered twice: {_origin(entry)} replaces {_origin(before)}")
        self.put(entry)

    def _ordered(self) -> "list[_Entry]":
        return sorted(self._entries.values(), key=lambda entry: self._ranks[entry.meta.id])

    def _resolved(self, context: _Context, on_error: OnError | None, wanted: _Wanted) -> "list[Tool]":
        self._last = _driven(self._steps(self._wanted(wanted), context, on_error, wanted))
        return [*self._last.tools]

    def _wanted(self, wanted: _Wanted) -> "list[_Entry]":
        self._check(wanted)
        return [
            entry
            for entry in self._ordered()
            if (wanted.include_all or wanted.profile in ("full", *entry.meta.profiles))
            and (wanted.include is None or _named(entry, wanted.include))
            and not (wanted.exclude and _named(entry, wanted.exclude))
        ]

    def _check(self, wanted: _Wanted) -> None:
        """Warns of each profile, group and name that selects nothing."""
        profile = wanted.profile
        if profile not in PROFILES and not any(profile in meta.profiles for meta in self):
            self._warn(f"there is no profile {profile}: known are {', '.join(PROFILES)}")
        elif profile != "full" and not wanted.include_all and not any(profile in meta.profiles for meta in self):
            self._warn(f"the profile {profile} selects no tool: none that is registered is in it")
        groups = dict.fromkeys((*self._labels, *(meta.section_id for meta in self), OPENCLAW))
        for name in dict.fromkeys((*(wanted.include or ()), *(wanted.exclude or ()))):
            if problem := unknown_group(name, groups):
                self._warn(problem)
            elif not any(_named(entry, (name,)) for entry in self._entries.values()):
                self._warn(no_match(name, self._entries))

    def _steps(self, entries: Iterable[_Entry], context: _Context, on_error: OnError | None, wanted: _Wanted) -> _Steps:
        """Makes the tools, one entry after the other. Yields what must be awaited, and takes what came of it."""
        given = ToolContext.of(context)
        made: list[tuple[_Entry, Tool]] = []
        skipped: list[Skipped] = []
        for entry in entries:
            reason = _unfit(entry, given, wanted)
            if reason is not None:
                skipped.append(reason)
                continue
            try:
                found = entry.source if isinstance(entry.source, Tool) else _call(entry, given)
                if inspect.isawaitable(found):
                    found = yield found
                made += [(entry, tool) for tool in _tools(entry, found)]
                if found is None or found == []:
                    skipped.append(Skipped(id=entry.meta.id, reason="its factory made nothing for this context"))
            except MissingContext as missing:
                skipped.append(_missing(entry, missing))
            except _Asynchronous:
                skipped.append(Skipped(id=entry.meta.id, reason="its factory is asynchronous: use aresolve_all"))
            except BaseException as error:  # a factory is foreign code: one that fails does not stop the others
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
        """Tells a warning, each only once."""
        if message not in self._given:
            self._given.add(message)
            _notify(self.on_warning, message)

    def list(self) -> _Metas:
        """What is known of the tools, in order; no factory is called."""
        return [entry.meta for entry in self._ordered()]


# --- groups ---

PROFILES: tuple[ToolProfile, ...] = ("minimal", "coding", "messaging", "full")
GROUP = "group:"
OPENCLAW = "openclaw"


def in_group(meta: ToolMeta, group: str) -> bool:
    """Whether a tool belongs to a group: those flagged for `openclaw`, else those of the section with that name."""
    return meta.include_in_open_claw_group if group == OPENCLAW else meta.section_id == group


def unknown_group(name: str, known: Collection[str]) -> str | None:
    """What is wrong with the name of a group that does not exist; None for anything else."""
    if not name.startswith(GROUP) or name.removeprefix(GROUP) in known:
        return None
    return f"there is no {name}: known are {', '.join(GROUP + group for group in known)}"


def no_match(name: str, known: Iterable[str]) -> str:
    """What to say of a group or a name that selects none of the tools that there are."""
    if name.startswith(GROUP):
        return f"{name} selects no tool: none that is registered is in it"
    near = difflib.get_close_matches(name, known, n=1)
    return f"there is no tool {name}" + (f": did you mean {near[0]}?" if near else "")


def named(meta: ToolMeta, names: Iterable[str], others: tuple[str, ...] = ()) -> bool:
    """Whether one of `names` is this tool's id, a group that it is in, or one of its `others`."""
    return any(
        in_group(meta, name.removeprefix(GROUP)) if name.startswith(GROUP) else name in (meta.id, *others)
        for name in names
    )


def _named(entry: _Entry, names: Iterable[str]) -> bool:
    return named(entry.meta, names, entry.names)


# --- making ---


_CUSTOM = {"section_id": "custom", "profiles": ("full",), "source": "core"}


def _meta(given: Mapping[str, Any], **known: str) -> ToolMeta:
    """What is said of a tool; what is not given is `known`, or that of a tool of the caller's own."""
    own = {snake_case(name): value for name, value in given.items() if value is not None}
    meta = struct_of({**_CUSTOM, **known, **own}, ToolMeta, "meta")
    return structs.replace(meta, profiles=tuple(meta.profiles), needs=tuple(meta.needs))


def _notify(callback: Callable[..., object] | None, *args: object) -> None:
    """Calls a host's callback. What it raises is logged: the tools that were made are not lost by it."""
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


def _unfit(entry: _Entry, context: ToolContext, wanted: _Wanted) -> Skipped | None:
    """Why an entry is not even tried."""
    if entry.optional and not (wanted.include and _named(entry, wanted.include)):
        return Skipped(id=entry.meta.id, reason="it is optional: name it in include")
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
            raise FormatError(f"the factory of {entry.meta.id} made {given!r}, which is no tool")
    return [tool for tool in tools if tool is not None]


def _driven(steps: _Steps) -> Resolution:
    """Runs the steps where nothing can be awaited."""
    try:
        waiting = next(steps)
        while True:
            _drop(waiting)
            waiting = steps.throw(_Asynchronous())
    except StopIteration as end:
        resolution: Resolution = end.value
        return resolution


async def _adriven(steps: _Steps) -> Resolution:
    """Runs the steps, and awaits what they ask for."""
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


def _drop(waiting: Awaitable[Any]) -> None:
    """Ends what will not be awaited, so that nobody complains that it never was."""
    for name in ("close", "cancel"):
        if end := getattr(waiting, name, None):
            end()
            return
