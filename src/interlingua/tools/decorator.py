"""The `tool` decorator: a typed function's signature becomes the schema, its docstring the description."""

import asyncio
import inspect
import types
import typing
from collections.abc import Callable
from typing import Any, NamedTuple, overload

import msgspec

from ..values.abort import Abort
from ..values.errors import FormatError, ToolInputError
from ..values.interop import call_contained
from ..values.python_types import Mismatch, Schemas, convert, parse_docstring
from .tool import Execute, Tool, ToolResult, ToolUpdateCallback, as_result

Function: typing.TypeAlias = Callable[..., Any]


class FunctionTool(Tool, frozen=True, kw_only=True):
    """A tool made from a function; calling it calls the function."""

    function: Function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


@overload
def tool(function: Function, /) -> FunctionTool: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    label: str | None = None,
    owner_only: bool = False,
    sequential: bool = False,
) -> Callable[[Function], FunctionTool]: ...
def tool(
    function: Function | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    label: str | None = None,
    owner_only: bool = False,
    sequential: bool = False,
) -> FunctionTool | Callable[[Function], FunctionTool]:
    """Makes a tool from a sync or async function: `@tool`, or `@tool(name=…, owner_only=True)`.

    Type hints make the schema, defaults make parameters optional, the docstring describes the tool and its parameters
    (Google, NumPy and Sphinx styles, or `Annotated[int, msgspec.Meta(description=…)]`). A parameter of type `Abort`
    receives the signal, one of type `ToolUpdateCallback` the progress callback; the model sees neither. A sync function
    runs in a thread, so it may block.
    """

    def made(function: Function) -> FunctionTool:
        if not callable(function):
            raise FormatError(f"a tool must be made from a function, not {type(function).__name__}", "tool")
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise FormatError(
                "a tool must return its result, not yield it; report progress to a ToolUpdateCallback", "tool"
            )
        named = name or str(getattr(function, "__name__", type(function).__name__))
        documented, described = parse_docstring(inspect.getdoc(function) or "")
        parameters = _parameters(function, named)
        return FunctionTool(
            name=named,
            description=description or documented or named.replace("_", " "),
            parameters=_schema(parameters, described, named),
            execute=_execute(function, parameters),
            label=label,
            owner_only=owner_only,
            sequential=sequential,
            function=function,
        )

    return made if function is None else made(function)


class _Parameter(NamedTuple):
    name: str
    hint: Any
    default: Any
    positional: bool
    special: typing.Literal["signal", "on_update"] | None

    @property
    def required(self) -> bool:
        return self.default is inspect.Parameter.empty


def _parameters(function: Function, named: str) -> list[_Parameter]:
    try:
        hints = typing.get_type_hints(_hinted(function), include_extras=True)
    except NameError as error:
        raise FormatError(f"the tool {named} has a type hint that cannot be read: {error}", named) from error
    try:
        signature = inspect.signature(function)
    except ValueError as error:  # built-in types and functions, for example `int`
        raise FormatError(f"the tool {named} has no signature: {error}; wrap it in a function", named) from None
    return [_parameter(given, hints, named) for given in signature.parameters.values()]


def _hinted(function: Function) -> Any:
    """The object with the type hints: the function, or `__call__` of a callable object."""
    return function if inspect.isroutine(function) else type(function).__call__


def _parameter(given: inspect.Parameter, hints: dict[str, Any], named: str) -> _Parameter:
    if given.kind in (given.VAR_POSITIONAL, given.VAR_KEYWORD):
        raise FormatError(f"the tool {named} takes {given}; name each parameter, so that a model can pass it", named)
    hint = hints.get(given.name, Any)
    return _Parameter(given.name, hint, given.default, given.kind is given.POSITIONAL_ONLY, _special(hint))


def _special(hint: Any) -> typing.Literal["signal", "on_update"] | None:
    alone = _without_none(hint)
    if alone is Abort:
        return "signal"
    return "on_update" if alone == ToolUpdateCallback else None


def _without_none(hint: Any) -> Any:
    if typing.get_origin(hint) not in (typing.Union, types.UnionType):
        return hint
    rest = [item for item in typing.get_args(hint) if item is not type(None)]
    return rest[0] if len(rest) == 1 else hint


# --- schema ---------------------------------------------------------------------------------------------------------


def _schema(parameters: list[_Parameter], described: dict[str, str], named: str) -> dict[str, Any]:
    shown = [parameter for parameter in parameters if parameter.special is None]
    schemas = Schemas(named)
    properties = {
        parameter.name: _property(parameter, schemas.of(parameter.hint), described.get(parameter.name))
        for parameter in shown
    }
    out: dict[str, Any] = {"type": "object", "properties": properties}
    if required := [parameter.name for parameter in shown if parameter.required]:
        out["required"] = required
    out["additionalProperties"] = False
    return out | ({"$defs": schemas.shared} if schemas.shared else {})


def _property(parameter: _Parameter, schema: dict[str, Any], description: str | None) -> dict[str, Any]:
    if description and "description" not in schema:
        schema = {**schema, "description": description}
    if parameter.required or parameter.default is None:
        return schema
    try:
        default = msgspec.json.decode(msgspec.json.encode(parameter.default, enc_hook=_plain))
    except (TypeError, ValueError):
        return schema  # a default without a JSON form is not in the schema
    return {**schema, "default": default}


def _plain(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    raise TypeError


# --- running --------------------------------------------------------------------------------------------------------


def _execute(function: Function, parameters: list[_Parameter]) -> Execute:
    runs_itself = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004
    )

    async def execute(
        tool_call_id: str,
        params: dict[str, Any],
        signal: Abort | None = None,
        on_update: ToolUpdateCallback | None = None,
    ) -> ToolResult:
        given = _converted(parameters, params)
        for parameter in parameters:
            if parameter.special is not None:
                value = signal if parameter.special == "signal" else on_update
                given[parameter.name] = _placeholder(parameter) if value is None else value
        args = [
            given.pop(parameter.name) for parameter in parameters if parameter.positional and parameter.name in given
        ]
        if runs_itself:
            value = function(*args, **given)
        else:
            value = await asyncio.to_thread(call_contained, function, *args, **given)
        return as_result(await value if inspect.isawaitable(value) else value)

    return execute


def _placeholder(parameter: _Parameter) -> Any:
    """The value for a signal or callback parameter if the caller passes none."""
    if _without_none(parameter.hint) is not parameter.hint:
        return None
    return Abort() if parameter.special == "signal" else lambda partial: None


def _converted(parameters: list[_Parameter], params: dict[str, Any]) -> dict[str, Any]:
    shown = {parameter.name: parameter for parameter in parameters if parameter.special is None}
    if unknown := params.keys() - shown.keys():
        raise ToolInputError(f"unknown argument: {', '.join(sorted(unknown))}; known: {', '.join(shown) or 'none'}")
    if missing := [name for name, parameter in shown.items() if parameter.required and name not in params]:
        raise ToolInputError(f"missing argument: {', '.join(missing)}")
    return {name: _argument(shown[name], value) for name, value in params.items()}


def _argument(parameter: _Parameter, value: Any) -> Any:
    try:
        return convert(value, parameter.hint, parameter.name)
    except Mismatch as error:
        raise ToolInputError(str(error)) from error
