"""Code that is not ours (tools, hooks, listeners, factories, connectors): what it raises stays with it.

    try:
        hook(event)
    except BaseException as error:
        if must_propagate(error):
            raise
        report(describe(error))

`SystemExit` counts as a failure like any other: asyncio would end the event loop with it, and so the host.
"""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from .errors import FormatError, InterlinguaError

P = ParamSpec("P")
T = TypeVar("T")


class ForeignExit(InterlinguaError):
    """What foreign code raised in a thread and an event loop cannot carry: `SystemExit`, `StopIteration`, …"""


def call_contained(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Calls foreign code in a worker thread. No Ctrl-C arrives there: whatever ends it is an `Exception` of its own."""
    try:
        return call(*args, **kwargs)
    except StopIteration as error:  # a future refuses it, and whoever waits would wait for ever
        raise ForeignExit(describe(error)) from error
    except Exception:
        raise
    except BaseException as error:
        raise ForeignExit(describe(error)) from error


def must_propagate(error: BaseException) -> bool:
    """Whether an exception is not the foreign code's own: Ctrl-C, a closing generator, a cancelled task.

    A `CancelledError` in a task that nobody cancelled is the foreign code's own.
    """
    import asyncio  # on failures only: loading it takes as long as all the rest of the package

    if not isinstance(error, asyncio.CancelledError):
        return isinstance(error, KeyboardInterrupt | GeneratorExit)
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no event loop here, so nothing that could have been cancelled
        return False
    return task is None or task.cancelling() > 0


def describe(error: BaseException) -> str:
    """The type and text of an exception; of those that are plain texts of ours the text alone. Never raises."""
    if isinstance(error, FormatError):
        return error.message
    try:
        text = str(error)
    except Exception:  # its own `__str__` is foreign code too
        text = ""
    if isinstance(error, ForeignExit):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
