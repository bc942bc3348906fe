"""Adapters for values and functions of other programs.

Names may be in snake_case or camelCase, a value may be a mapping or an object, and a function may take only the
arguments that it uses.
"""

import inspect
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from types import FunctionType, MethodType
from typing import Any, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from msgspec import Struct
from msgspec.structs import fields

from .errors import FormatError, InterlinguaError

# Foreign code (tools, hooks, listeners, factories, connectors): its exceptions are contained.
#
#     try:
#         hook(event)
#     except BaseException as error:
#         if must_propagate(error):
#             raise
#         report(describe(error))
#
# `SystemExit` is an ordinary failure: asyncio would end the event loop with it, and so the host.


P = ParamSpec("P")
T = TypeVar("T")


class ForeignExit(InterlinguaError):
    """An exception of foreign code in a thread that an event loop cannot propagate: `SystemExit`, `StopIteration`, …"""


def call_contained(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Calls foreign code in a worker thread. Ctrl-C is not delivered there, so every exception is wrapped as
    `Exception`.
    """
    try:
        return call(*args, **kwargs)
    except StopIteration as error:  # a future refuses it, and the caller would wait forever
        raise ForeignExit(describe(error)) from error
    except Exception:
        raise
    except BaseException as error:
        raise ForeignExit(describe(error)) from error


def must_propagate(error: BaseException) -> bool:
    """Whether an exception is not the foreign code's own: Ctrl-C, a closing generator, a cancelled task.

    A `CancelledError` in a task that was not cancelled is the foreign code's own.
    """
    import asyncio  # only on failures: importing asyncio takes as long as the rest of the package

    if not isinstance(error, asyncio.CancelledError):
        return isinstance(error, KeyboardInterrupt | GeneratorExit)
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no event loop here, so nothing can have been cancelled
        return False
    return task is None or task.cancelling() > 0


def describe(error: BaseException) -> str:
    """Returns the type and text of an exception; only the text for our own errors. Never raises."""
    if isinstance(error, FormatError):
        return error.message
    try:
        text = str(error)
    except Exception:  # its `__str__` is foreign code too
        text = ""
    if isinstance(error, ForeignExit):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


S = TypeVar("S", bound=Struct)

_BEFORE_A_WORD = re.compile(r"([A-Z]+)([A-Z][a-z])")
_AFTER_A_WORD = re.compile(r"([a-z0-9])([A-Z])")


def snake_case(name: str) -> str:
    """`baseURL` → `base_url`, `HTMLParser` → `html_parser`."""
    return _AFTER_A_WORD.sub(r"\1_\2", _BEFORE_A_WORD.sub(r"\1_\2", name)).lower()


def camel_case(name: str) -> str:
    """`work_dir` → `workDir`."""
    first, *rest = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in rest)


def attribute(value: Any, name: str, default: Any = None) -> Any:
    """Returns an item of a mapping or an attribute of an object, by its snake_case `name` or the camelCase form.

    None counts as absent.
    """
    for spelling in dict.fromkeys((name, camel_case(name))):
        found = value.get(spelling) if isinstance(value, Mapping) else getattr(value, spelling, None)
        if found is not None:
            return found
    return default


def attributes(value: Any, names: Iterable[str]) -> dict[str, Any]:
    """Returns those of `names` that a mapping or an object has, in either spelling."""
    found = ((name, attribute(value, name)) for name in names)
    return {name: item for name, item in found if item is not None}


def several(value: Any, what: str, path: str) -> tuple[Any, ...]:
    """The items of a list or any other iterable; raises `FormatError` for what is none. `what` describes the items."""
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise FormatError(f"{path} must be a list of {what}, not {type(value).__name__}", path)
    return tuple(value)


def struct_of(value: Any, kind: type[S], what: str) -> S:
    """Returns a `kind` as it is, or builds it from a mapping with its fields in either spelling.

    Raises `FormatError` with the valid fields for anything else. `what` names the value in that error.
    """
    if isinstance(value, kind):
        return value
    known = [field.name for field in fields(kind)]
    if not isinstance(value, Mapping):
        raise FormatError(f"{what} must be a {kind.__name__} or a mapping, not {type(value).__name__}", what)
    unknown = [name for name in value if name not in known and snake_case(str(name)) not in known]
    if unknown:
        from .errors import nearest  # only for errors

        names = ", ".join(repr(name) for name in unknown)
        near = nearest(snake_case(str(unknown[0])), known, 1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise FormatError(f"{what} has unknown fields {names}; {hint}valid fields: {', '.join(known)}", what)
    try:
        return kind(**attributes(value, known))
    except TypeError:
        missing = [field.name for field in fields(kind) if field.required and attribute(value, field.name) is None]
        raise FormatError(f"{what} lacks {', '.join(missing)}", what) from None


_PARAMETERS: "WeakKeyDictionary[FunctionType, tuple[inspect.Parameter, ...]]" = WeakKeyDictionary()


def _parameters(function: Any) -> tuple[inspect.Parameter, ...]:
    """Returns the parameters of a callable; cached, because inspection is slower than a call."""
    plain = function.__func__ if isinstance(function, MethodType) else function
    if not isinstance(plain, FunctionType):
        return tuple(inspect.signature(function).parameters.values())
    found = _PARAMETERS.get(plain)
    if found is None:
        found = _PARAMETERS[plain] = tuple(inspect.signature(plain).parameters.values())
    if plain is function or not found or found[0].kind is inspect.Parameter.VAR_POSITIONAL:
        return found
    return found[1:]


def with_arguments(
    function: Any, names: tuple[str, ...], *, least: int = 0, what: str = "function"
) -> Callable[..., Any]:
    """Wraps `function` so that it accepts all of `names` and receives only the arguments that it takes.

    Positional parameters are filled in order; keyword-only parameters by name, in either spelling. Raises `FormatError`
    if it takes fewer than the first `least`, or requires more than there are.
    """
    try:
        parameters = _parameters(function)
    except (TypeError, ValueError):  # a builtin without a signature: the call will fail if it does not match
        return function  # type: ignore[no-any-return]
    if any(one.kind is one.VAR_POSITIONAL for one in parameters):
        return function  # type: ignore[no-any-return]
    places = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    required = [one for one in places if one.default is one.empty]
    if len(places) < least or len(required) > len(names):
        optional = f"; all after the first {least} may be left out" if least < len(names) else ""
        raise FormatError(f"{what} takes {len(places)} arguments, but is given ({', '.join(names)}){optional}")
    if len(places) >= len(names):
        return function  # type: ignore[no-any-return]
    by_name = {
        one.name: names.index(name)
        for one in parameters
        if one.kind is one.KEYWORD_ONLY and (name := snake_case(one.name)) in names
    }

    def call(*args: Any) -> Any:
        every = (*args, *[None] * (len(names) - len(args)))
        keywords = {name: every[at] for name, at in by_name.items() if at >= len(places)}
        return function(*every[: len(places)], **keywords)

    return call


def drop(waiting: Awaitable[Any]) -> None:
    """Closes an awaitable that is not awaited, to avoid the 'never awaited' warning."""
    for name in ("close", "cancel"):
        if end := getattr(waiting, name, None):
            end()
            return
