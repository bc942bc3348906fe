"""The plugin API: the object passed to a plugin's `register`, and the values that describe it."""

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any, Protocol, TypeAlias

from msgspec import Struct

from ..connect.connector import Connector
from ..connect.registry import as_connector
from ..dialects.wire import FileFormat, Wire
from ..tools.tool import Tool, ToolFactory, as_tool
from ..values.errors import FormatError
from ..values.interop import snake_case
from .manifest import inside

RECORDED = (
    "register_hook",
    "register_http_handler",
    "register_http_route",
    "register_channel",
    "register_gateway_method",
    "register_cli",
    "register_service",
    "register_provider",
    "register_command",
    "on",
)
"""Registrations that are recorded: hooks run (see `hooks`), the others have an effect only in OpenClaw."""


class Logger(Protocol):
    """A host's logger: a `logging.Logger`, or an object or mapping with `warn` for `warning`."""

    def info(self, message: str, /) -> object: ...
    def error(self, message: str, /) -> object: ...


class PluginLog:
    """The host's logger with the plugin's name before each line. Supports both `warn` and `warning`."""

    def __init__(self, logger: Logger | Mapping[str, Any], prefix: str = "") -> None:
        self._logger: Any = SimpleNamespace(**logger) if isinstance(logger, Mapping) else logger
        self._prefix = prefix

    def debug(self, message: object) -> None:
        debug = getattr(self._logger, "debug", None)
        if debug is not None:
            debug(self._line(message))

    def info(self, message: object) -> None:
        self._logger.info(self._line(message))

    def warning(self, message: object) -> None:
        warn = getattr(self._logger, "warning", None) or getattr(self._logger, "warn", None) or self._logger.error
        warn(self._line(message))

    warn = warning

    def error(self, message: object) -> None:
        self._logger.error(self._line(message))

    def of(self, plugin: str) -> "PluginLog":
        return PluginLog(self._logger, f"{plugin}: ")

    def _line(self, message: object) -> str:
        return f"{self._prefix}{message}"


class PluginFactory(Struct, frozen=True, kw_only=True):
    """A factory that a plugin registered: the tools it may create, and whether they are optional."""

    factory: ToolFactory
    names: tuple[str, ...] = ()
    optional: bool = False


class PluginTool(Struct, frozen=True, kw_only=True):
    """A tool that a plugin registered, under its name or another id."""

    tool: Tool
    id: str
    optional: bool = False


class Registration(Struct, frozen=True, kw_only=True):
    """A registration that is only recorded: `kind` is the method in snake_case."""

    kind: str
    args: tuple[Any, ...] = ()
    options: Mapping[str, Any] = MappingProxyType({})


Register: TypeAlias = Callable[["PluginApi"], Any]


class PluginDefinition(Struct, frozen=True, kw_only=True):
    """A plugin as a value: a module may have it as `plugin` instead of a function `register`."""

    id: str | None = None
    name: str | None = None
    description: str | None = None
    version: str | None = None
    config_schema: dict[str, Any] | None = None
    register: Register | None = None
    activate: Register | None = None
    unregister: Register | None = None


class PluginApi:
    """Passed to `register`. Registrations take effect when `register` returns; a failure discards them all.

    Every name exists in camelCase as well (`registerTool`, `pluginConfig`).
    """

    def __init__(
        self,
        *,
        id: str,
        name: str,
        source: str,
        folder: Path | None = None,
        version: str | None = None,
        description: str | None = None,
        config: Mapping[str, Any] | None = None,
        plugin_config: dict[str, Any] | None = None,
        logger: PluginLog,
    ) -> None:
        self.id = id
        self.name = name
        self.version = version
        self.description = description
        self.source = source
        self.config = MappingProxyType(dict(config or {}))
        self.plugin_config = plugin_config or {}
        self.logger = logger
        self._folder = folder
        self._over = False
        self._tools: list[PluginTool] = []
        self._factories: list[PluginFactory] = []
        self._connectors: list[Connector] = []
        self._dialects: dict[str, Any] = {}
        self._registrations: list[Registration] = []

    def register_tool(
        self,
        tool: Tool | ToolFactory | Mapping[str, Any] | Iterable[Any] | Any,
        options: Mapping[str, Any] | None = None,
        /,
        *,
        name: str | None = None,
        names: Iterable[str] | None = None,
        optional: bool = False,
    ) -> None:
        """Adds a tool, a list of tools, or a function that creates tools for a `ToolContext`.

        A tool may be a mapping or any object with a tool's fields (`name`, `description`, `parameters`, `execute`;
        optionally `label` and `ownerOnly`).

        `name` is the id of a tool; `name` or `names` are what a factory may create. An optional tool is used only if it
        is requested by name.
        """
        self._refuse_late()
        options = options or {}
        name, optional = name or options.get("name"), bool(optional or options.get("optional"))
        names = tuple(names or options.get("names") or ((name,) if name else ()))
        if isinstance(tool, list | tuple):
            for one in tool:
                self.register_tool(one, optional=optional)
            return
        made = as_tool(tool)
        if made is not None:
            self._tools.append(PluginTool(tool=made, id=name or made.name, optional=optional))
        elif callable(tool):
            self._factories.append(PluginFactory(factory=tool, names=names, optional=optional))
        else:
            raise FormatError(f"{tool!r} is neither a tool nor a tool factory; decorate a function with @tool")

    def register_connector(self, connector: Connector | Mapping[str, Any] | Any) -> None:
        """Adds a connector: an object or a mapping with the names of `interlingua.Connector`.

        `label`, `models` and `env_vars` are optional.
        """
        self._refuse_late()
        self._connectors.append(as_connector(connector))

    def register_dialect(self, name: str, dialect: Any) -> None:
        """Adds a wire or a file format: a `Wire` or `FileFormat`, or a module or object with `decode` and `encode`.

        A `Wire` works wherever a built-in one does: calls, conversion, detection, the test server, the lists.
        """
        self._refuse_late()
        if isinstance(dialect, Wire | FileFormat):
            if dialect.name != name:
                raise FormatError(f"the dialect {dialect.name!r} cannot be registered as {name!r}; use its own name")
            codec = dialect.codec
        else:
            codec = dialect
        missing = [wanted for wanted in ("decode", "encode") if not callable(getattr(codec, wanted, None))]
        if not isinstance(name, str) or not re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,63}", name):
            raise FormatError(f"{name!r} cannot be a dialect's name; use lower-case letters, digits, `.`, `_` and `-`")
        if missing:
            raise FormatError(f"{name} is not a dialect; it lacks {', '.join(missing)}")
        self._dialects[name] = dialect

    def resolve_path(self, path: str) -> str:
        """Returns the path of a file of the plugin. Raises if it is outside its folder."""
        if self._folder is None:
            raise FormatError(f"the plugin {self.id} has no folder to find {path!r} in")
        return str(inside(self._folder, path, "resolve_path"))

    def __getattr__(self, name: str) -> Any:
        snake = snake_case(name)
        if snake in RECORDED:
            return lambda *args, **options: self._record(snake, args, options)
        if snake != name and snake in _ALIASED:
            return getattr(self, snake)
        raise AttributeError(f"a plugin's api has no {name}; it has {', '.join((*_ALIASED, *RECORDED))}")

    def _record(self, kind: str, args: tuple[Any, ...], options: dict[str, Any]) -> None:
        self._refuse_late()
        self._registrations.append(Registration(kind=kind, args=args, options=options))

    def _refuse_late(self) -> None:
        if self._over:
            raise FormatError(
                f"the plugin {self.id} is already registered; register everything before register returns"
            )


_ALIASED = ("plugin_config", "register_tool", "register_connector", "register_dialect", "resolve_path")
