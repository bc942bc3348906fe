"""What foreign code raises stays with it; Ctrl-C and cancellation do not."""

import asyncio
from collections.abc import Callable

import pytest

from interlingua.values.interop import ForeignExit, call_contained, describe, must_propagate


class Odd(BaseException):
    """Neither an Exception nor one of Python's own."""


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (ValueError("x"), False),
        (SystemExit(3), False),
        (Odd(), False),
        (KeyboardInterrupt(), True),
        (GeneratorExit(), True),
        (asyncio.CancelledError(), False),
    ],
)
async def test_only_what_is_not_the_codes_own_passes(error: BaseException, passes: bool) -> None:
    """A cancellation that nobody asked for is the code's own."""
    assert passes == must_propagate(error)


async def test_a_cancellation_of_the_task_passes() -> None:
    """It is the caller's."""
    seen: list[bool] = []

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError as error:
            seen.append(must_propagate(error))
            raise

    task = asyncio.ensure_future(work())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [True] == seen


def test_without_an_event_loop_nothing_was_cancelled() -> None:
    """A CancelledError is then a failure like any other."""
    assert not must_propagate(asyncio.CancelledError())


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), Odd("x"), StopIteration()])
async def test_in_a_thread_whatever_ends_the_code_is_an_exception(error: BaseException) -> None:
    """An event loop would end with some of these, and wait for ever for one of them."""

    def fail() -> None:
        raise error

    with pytest.raises(ForeignExit, match=type(error).__name__):
        await asyncio.wait_for(asyncio.to_thread(call_contained, fail), 5)


def test_an_error_without_text_is_described_by_its_type() -> None:
    """Also one that fails at being shown."""

    class Broken(Exception):
        def __str__(self) -> str:
            raise self

    shown: list[tuple[BaseException, str]] = [
        (ValueError("no"), "ValueError: no"),
        (ValueError(), "ValueError"),
        (Broken(), "Broken"),
        (ForeignExit("SystemExit: 3"), "SystemExit: 3"),
    ]
    assert [text for _, text in shown] == [describe(error) for error, _ in shown]


def test_what_the_code_returns_is_returned() -> None:
    """With its arguments."""
    add: Callable[..., int] = lambda a, b: a + b  # noqa: E731
    assert 3 == call_contained(add, 1, b=2)
