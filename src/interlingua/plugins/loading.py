"""Loads plugins: folders with a manifest, and installed packages. A broken one is reported, and affects no other.

A plugin's code runs in this process with our rights: load only what you trust. The loader guarantees that a manifest
cannot point outside its folder, that a failure stays with the plugin, and that unloading leaves nothing behind.
"""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

from msgspec import Struct, structs

from ..connect.registry import ConnectorRegistry
from ..tools.registry import ToolRegistry
from ..tools.tool import Tool
from ..values.errors import FormatError, nearest
from ..values.interop import describe, drop, must_propagate, several, struct_of, with_arguments
from ..values.places import PLUGIN_GROUP
from .api import Logger, PluginApi, PluginDefinition, PluginFactory, PluginLog, Registration
from .manifest import Manifest, check_id, find_entry, folders, manifest_path, read_manifest
from .running import (
    Additions,
    Failed,
    PluginWork,
    Stage,
    contained,
    definition_of,
    forget,
    free_name,
    imported,
    registered,
    settings_of,
)

GROUP = PLUGIN_GROUP
TIMEOUT = 30.0  # seconds for a plugin's import, register and unregister, each

SearchPath: TypeAlias = str | os.PathLike[str]


class PluginProblem(Struct, frozen=True, kw_only=True, rename="camel"):
    """An error of a plugin: its path, its id if it has one, the stage, and the message."""

    path: str
    plugin_id: str | None
    stage: Stage
    message: str

    def __str__(self) -> str:
        return f"{self.plugin_id or self.path}: {self.message}"


class LoadedPlugin:
    """A loaded plugin and its registrations; `unload` removes all of them."""

    def __init__(
        self, api: PluginApi, manifest: Manifest, module: ModuleType | None, end: Callable[[], Any], timeout: float
    ) -> None:
        self.id = api.id
        self.name = api.name
        self.description = api.description
        self.version = api.version
        self.source = api.source
        self.kind = manifest.kind
        self.skills = manifest.skills
        self.channels = manifest.channels
        self.providers = manifest.providers
        self.tools: tuple[Tool, ...] = tuple(one.tool for one in api._tools)
        self.tool_factories: tuple[PluginFactory, ...] = tuple(api._factories)
        self.connectors = tuple(api._connectors)
        self.dialects: Mapping[str, Any] = dict(api._dialects)
        self.registrations: tuple[Registration, ...] = tuple(api._registrations)
        self.problems: tuple[PluginProblem, ...] = ()
        self.loaded = True
        self._module = module
        self._end = end
        self._timeout = timeout
        self._log = api.logger
        self._additions = Additions()

    def unload(self) -> None:
        """Removes everything that the plugin added. Its own `unregister` is called first; it may fail."""
        if not self.loaded:
            return
        self.loaded = False
        try:
            ended = _in_time(PluginWork("unload", self._end), self._timeout)
            if isinstance(ended, Awaitable):
                drop(ended)
                self._report("its unregister is asynchronous, and was not waited for")
        except Failed as failed:  # a plugin's own code: whatever it raises, unloading continues
            self._report(str(failed))
        self._additions.take_back()
        self.registrations = ()
        if self._module is not None:
            forget(self._module.__name__)

    def _report(self, message: str) -> None:
        problem = PluginProblem(path=self.source, plugin_id=self.id, stage="unload", message=message)
        self.problems = (*self.problems, problem)
        self._log.error(f"unload: {message}")

    def __repr__(self) -> str:
        return f"LoadedPlugin({self.id!r}, tools={[tool.name for tool in self.tools]})"


class Plugins(list[LoadedPlugin]):
    """The loaded plugins, in order; `problems` includes those of plugins that were not loaded."""

    def __init__(self) -> None:
        super().__init__()
        self.problems: list[PluginProblem] = []

    def unload(self) -> None:
        """Unloads all, the last one first."""
        for plugin in reversed(self):
            plugin.unload()


class PluginLoaderOptions(Struct, frozen=True, kw_only=True, rename="camel"):
    """Where plugins are, which of them to load, and the callbacks."""

    search_paths: SearchPath | Iterable[SearchPath] = ()
    enabled_plugins: Collection[str] | None = None
    disabled_plugins: Collection[str] | None = None
    logger: Logger | Mapping[str, Any] | None = None


SearchPaths: TypeAlias = SearchPath | Iterable[SearchPath] | PluginLoaderOptions | Mapping[str, Any]


def load_plugins(
    search_paths: SearchPaths = (),
    *,
    enabled_plugins: Collection[str] | None = None,
    disabled_plugins: Collection[str] | None = None,
    logger: Logger | Mapping[str, Any] | None = None,
    config: Mapping[str, Any] | None = None,
    tools: ToolRegistry | None = None,
    connectors: ConnectorRegistry | None = None,
    entry_points: bool | Iterable[EntryPoint] = False,
    replace: Collection[str] = (),
    timeout: float = TIMEOUT,
) -> Plugins:
    """Loads the plugins in the search paths, and with `entry_points` those of installed packages.

    A search path is a directory of plugin folders, or a single plugin's folder; `PluginLoaderOptions`, or a mapping
    with its fields, may replace the paths. `config` holds each plugin's part under its id. Registrations go to the
    given registries; `replace` names the tools and connectors that plugins may replace. A plugin whose import or
    registration takes longer than `timeout` seconds is abandoned and reported. One with an asynchronous `register`
    needs `aload_plugins`.
    """
    options = _options(search_paths, enabled_plugins, disabled_plugins, logger)

    async def wait(waiting: Any, timeout: float) -> Any:
        return _in_time(waiting, timeout)

    loader = _Loader(wait, options, config, tools, connectors, replace, timeout)
    try:
        loader.load(entry_points).send(None)  # it never suspends: `wait` blocks
    except StopIteration:
        return loader.plugins
    raise AssertionError


def _in_time(waiting: PluginWork | Awaitable[Any], timeout: float) -> Any:
    """Returns the result of the work, in callers that cannot await."""
    if not isinstance(waiting, PluginWork):
        drop(waiting)
        raise Failed("register", "its register function is asynchronous; use aload_plugins")
    future = waiting.start()
    try:
        return future.result(timeout)
    except TimeoutError:
        if future.done():
            raise
        raise waiting.overdue(timeout) from None


async def aload_plugins(
    search_paths: SearchPaths = (),
    *,
    enabled_plugins: Collection[str] | None = None,
    disabled_plugins: Collection[str] | None = None,
    logger: Logger | Mapping[str, Any] | None = None,
    config: Mapping[str, Any] | None = None,
    tools: ToolRegistry | None = None,
    connectors: ConnectorRegistry | None = None,
    entry_points: bool | Iterable[EntryPoint] = False,
    replace: Collection[str] = (),
    timeout: float = TIMEOUT,
) -> Plugins:
    """Like `load_plugins`, also for plugins with an asynchronous `register`."""
    options = _options(search_paths, enabled_plugins, disabled_plugins, logger)
    loader = _Loader(awaited_in_time, options, config, tools, connectors, replace, timeout)
    await loader.load(entry_points)
    return loader.plugins


async def awaited_in_time(waiting: PluginWork | Awaitable[Any], timeout: float, stage: Stage = "register") -> Any:
    """Returns the result of work in a thread, or of an awaitable of this `stage`."""
    work = waiting if isinstance(waiting, PluginWork) else PluginWork(stage, lambda: None)
    running = asyncio.wrap_future(work.start()) if waiting is work else asyncio.ensure_future(_outcome(waiting, stage))
    try:
        done, _ = await asyncio.wait({running}, timeout=timeout)
    finally:
        running.cancel()  # a thread cannot be cancelled; it is only no longer awaited
    if not done:
        raise work.overdue(timeout)
    return running.result()


async def _outcome(waiting: Any, stage: Stage) -> Any:
    """The result of a plugin's asynchronous code; in its own task, so that its cancellation is not the loader's."""
    try:
        return await waiting
    except BaseException as error:
        if must_propagate(error):
            raise
        raise Failed(stage, describe(error)) from error


class _Found(Struct, frozen=True, kw_only=True):
    """A plugin whose code has not run yet."""

    manifest: Manifest
    path: str
    source: str
    folder: Path | None
    bring: Callable[[], tuple[Any, ModuleType | None]]
    forget: Callable[[], object] = lambda: None


class _Code:
    """The module of a plugin's folder. It may be dropped while another thread is still importing it."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self._folder = folder
        self._manifest = manifest
        self._name = ""
        self._forgotten = False

    def bring(self) -> tuple[Any, ModuleType]:
        try:
            entry = find_entry(self._folder, self._manifest)
        except FormatError as error:
            raise Failed("entry", error.message) from None
        self._name = free_name(self._manifest.id)
        module = imported(self._name, entry, self._folder)
        if self._forgotten:  # it came too late: the modules that it imported meanwhile are dropped too
            forget(self._name)
        return module, module

    def forget(self) -> None:
        self._forgotten = True
        if self._name:
            forget(self._name)


class _Loader:
    """One load operation. `wait` returns the result of work in a thread, or of an awaitable, within the timeout."""

    def __init__(
        self,
        wait: Callable[[Any, float], Awaitable[Any]],
        options: PluginLoaderOptions,
        config: Mapping[str, Any] | None,
        tools: ToolRegistry | None,
        connectors: ConnectorRegistry | None,
        replace: Collection[str],
        timeout: float,
    ) -> None:
        self.plugins = Plugins()
        self._wait_for = wait
        self._timeout = timeout
        self._paths = _paths(options.search_paths)
        self._enabled = options.enabled_plugins
        self._disabled = options.disabled_plugins or ()
        self._log = PluginLog(options.logger if options.logger is not None else logging.getLogger(__name__))
        self._config = config or {}
        self._tools = tools
        self._connectors = connectors
        self._replace = frozenset(replace)
        self._seen: dict[str, str] = {}

    async def load(self, points: bool | Iterable[EntryPoint]) -> None:
        """Loads the plugins one after another."""
        ids: set[str] = set()
        for found in (*self._in_folders(self._paths), *self._installed(points)):
            ids.add(found.manifest.id)
            if not self._is_enabled(found):
                continue
            try:
                await self._load(found)
            except Failed as failed:
                self._report(found.path, found.manifest.id, failed.stage, str(failed))
            except BaseException:  # Ctrl-C, or the caller was cancelled
                self.plugins.unload()
                raise
        for name in sorted(self._config.keys() - ids):  # others may belong to the host
            if near := nearest(name, ids - self._config.keys(), 1):
                message = f"configuration of unknown plugin {name!r}; did you mean {near[0]!r}?"
                self._report(name, None, "config", message)

    def _wait(self, waiting: PluginWork | Awaitable[Any]) -> Awaitable[Any]:
        return self._wait_for(waiting, self._timeout)

    # --- finding ---

    def _in_folders(self, paths: Iterable[Path]) -> Iterable[_Found]:
        for root in paths:
            for folder in folders(root):
                try:
                    found = self._in_folder(folder)
                except Failed as failed:
                    self._report(str(folder), None, failed.stage, str(failed))
                else:
                    yield found
            for link in _links(root):
                self._report(str(link), None, "discover", "a link is not followed: name the folder as a search path")

    def _in_folder(self, folder: Path) -> _Found:
        path = manifest_path(folder)
        assert path is not None
        try:
            manifest = read_manifest(path)
        except FormatError as error:
            raise Failed("manifest", str(error)) from None

        code = _Code(folder, manifest)
        return _Found(
            manifest=manifest,
            path=str(folder),
            source=_source(folder, manifest),
            folder=folder,
            bring=code.bring,
            forget=code.forget,
        )

    def _installed(self, points: bool | Iterable[EntryPoint]) -> Iterable[_Found]:
        if points is False:
            return
        found = entry_points(group=GROUP) if points is True else points
        for point in sorted(found, key=lambda point: point.name):
            try:
                yield _of_package(point)
            except FormatError as error:
                self._report(point.value, None, "manifest", str(error))

    def _is_enabled(self, found: _Found) -> bool:
        id = found.manifest.id
        if id in self._disabled:
            self._log.info(f"{id}: disabled")
            return False
        if self._enabled is not None and id not in self._enabled:
            return False
        first = self._seen.get(id)
        if first is not None and first != found.path:
            self._report(found.path, id, "discover", f"another plugin has this id, in {first}; this one is not loaded")
        self._seen.setdefault(id, found.path)
        return first is None

    # --- one plugin ---

    async def _load(self, found: _Found) -> None:
        manifest = found.manifest
        settings = settings_of(manifest.id, manifest.config_schema, self._config)
        try:
            definition, module = await self._wait(PluginWork("import", lambda: _defined(found)))
            if manifest.config_schema is None and definition.config_schema is not None:
                settings = settings_of(manifest.id, definition.config_schema, self._config)
            api = self._api(found, definition, settings)
            await registered(definition, api, self._wait)
            unregister = definition.unregister or (lambda: None)
            end = await self._wait(
                PluginWork("register", lambda: with_arguments(unregister, ("api",), what="unregister"))
            )
        except BaseException:
            found.forget()
            raise
        plugin = LoadedPlugin(api, manifest, module, lambda: end(api), self._timeout)
        self._add(plugin, api)
        self.plugins.append(plugin)
        self._log.info(
            f"{plugin.id}: loaded with {len(plugin.tools)} tools, {len(plugin.tool_factories)} factories, "
            f"{len(plugin.connectors)} connectors, {len(plugin.dialects)} dialects"
        )

    def _api(self, found: _Found, definition: PluginDefinition, settings: dict[str, Any]) -> PluginApi:
        manifest = found.manifest
        if definition.id is not None and definition.id != manifest.id:
            self._log.warning(f"{manifest.id}: calls itself {definition.id}; the manifest's id counts")
        return PluginApi(
            id=manifest.id,
            name=manifest.name or definition.name or manifest.id,
            version=manifest.version or definition.version,
            description=manifest.description or definition.description,
            source=found.source,
            folder=found.folder,
            config=self._config,
            plugin_config=settings,
            logger=self._log.of(manifest.id),
        )

    def _add(self, plugin: LoadedPlugin, api: PluginApi) -> None:
        refused = plugin._additions.add(api, self._tools, self._connectors, self._replace)
        plugin.problems = tuple(self._report(plugin.source, plugin.id, "add", message) for message in refused)

    def _report(self, path: str, id: str | None, stage: Stage, message: str) -> PluginProblem:
        problem = PluginProblem(path=path, plugin_id=id, stage=stage, message=message)
        self.plugins.problems.append(problem)
        self._log.error(f"{id or path}: {stage}: {message}")
        return problem


def _defined(found: _Found) -> tuple[PluginDefinition, ModuleType | None]:
    """Returns the plugin's definition. Its module runs here."""
    value, module = found.bring()
    return contained("entry", lambda: definition_of(value)), module


# --- finding ----------------------------------------------------------------------------------------------------------


def _options(
    given: SearchPaths, enabled: Collection[str] | None, disabled: Collection[str] | None, logger: Any
) -> PluginLoaderOptions:
    """Returns the options; keyword arguments take precedence over a mapping of options."""
    if isinstance(given, Mapping):
        given = struct_of(given, PluginLoaderOptions, "options")
    base = given if isinstance(given, PluginLoaderOptions) else PluginLoaderOptions(search_paths=given)
    own = {"enabled_plugins": enabled, "disabled_plugins": disabled, "logger": logger}
    return structs.replace(base, **{name: value for name, value in own.items() if value is not None})


def _paths(given: SearchPath | Iterable[SearchPath]) -> list[Path]:
    many = [given] if isinstance(given, str | os.PathLike) else several(given, "folders", "search_paths")
    for at, path in enumerate(many):
        if not isinstance(path, str | os.PathLike):
            raise FormatError(f"a search path must be a folder, not {type(path).__name__}", f"search_paths[{at}]")
    return [Path(path).expanduser().absolute() for path in many]


def _links(root: Path) -> list[Path]:
    if not root.is_dir() or manifest_path(root) is not None:
        return []
    return sorted(path for path in root.iterdir() if path.is_symlink() and manifest_path(path) is not None)


def _source(folder: Path, manifest: Manifest) -> str:
    try:
        return str(find_entry(folder, manifest))
    except FormatError:
        return str(folder)


def _of_package(point: EntryPoint) -> _Found:
    given = point.dist.metadata if point.dist is not None else None
    manifest = Manifest(
        id=check_id(point.name),
        description=given["Summary"] if given is not None and "Summary" in given else None,
        version=point.dist.version if point.dist is not None else None,
    )
    return _Found(
        manifest=manifest,
        path=point.value,
        source=point.value,
        folder=None,
        bring=lambda: (point.load(), None),
    )
