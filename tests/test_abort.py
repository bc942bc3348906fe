"""The signal that stops what it was given to."""

import asyncio
import gc
import threading
import weakref

import pytest

import interlingua as il


def test_a_signal_fires_once_and_keeps_its_first_reason() -> None:
    """Later calls change nothing."""
    signal = il.Abort()
    assert (False, None, "Abort()") == (signal.aborted, signal.reason, repr(signal))
    signal.abort("enough")
    signal.abort("too late")
    assert (True, "enough", "Abort(aborted, reason='enough')") == (signal.aborted, signal.reason, repr(signal))


def test_callbacks_are_called_once_in_order_and_can_be_taken_back() -> None:
    """One that was taken back is not called; one that comes too late is called at once."""
    signal, received = il.Abort(), []
    signal.on_abort(lambda: received.append(1))
    forget = signal.on_abort(lambda: received.append(2))
    signal.on_abort(lambda: received.append(3))
    forget()
    forget()
    signal.abort()
    signal.abort()
    signal.on_abort(lambda: received.append(4))()
    assert [1, 3, 4] == received


def test_a_callback_that_fails_keeps_no_other_from_being_called() -> None:
    """All are called, children included; then its exception is raised."""
    signal, received = il.Abort(), []
    child = signal.child()

    def fail() -> None:
        raise LookupError("mine")

    signal.on_abort(fail)
    signal.on_abort(lambda: received.append(1))
    with pytest.raises(LookupError, match="mine"):
        signal.abort()
    assert [1] == received
    assert child.aborted


def test_a_child_fires_with_its_parent_and_alone() -> None:
    """Down the tree, not up; a child of a fired signal has fired."""
    signal = il.Abort()
    one, two = signal.child(), signal.child()
    grandchild = one.child()
    two.abort("alone")
    assert [False, False, False, True] == [a.aborted for a in (signal, one, grandchild, two)]
    signal.abort("all")
    assert ["all", "all", "all", "alone"] == [a.reason for a in (signal, one, grandchild, two)]
    assert "all" == signal.child().reason


def test_a_child_nobody_holds_is_forgotten() -> None:
    """A signal that lives as long as the program does not collect its children."""
    signal = il.Abort()
    gone = weakref.ref(signal.child())
    gc.collect()
    assert gone() is None
    signal.abort()


async def test_waiting_ends_with_the_reason_from_any_thread() -> None:
    """Several may wait; who waits too late does not wait."""
    signal = il.Abort()
    waiting = [asyncio.create_task(signal.wait()) for _ in range(3)]
    await asyncio.sleep(0)
    thread = threading.Thread(target=signal.abort, args=("from afar",))
    thread.start()
    async with asyncio.timeout(60):
        assert ["from afar"] * 3 == await asyncio.gather(*waiting)
        assert "from afar" == await signal.wait()
    thread.join()


async def test_a_wait_that_is_cancelled_leaves_nothing_behind() -> None:
    """The signal keeps no callback for it."""
    signal = il.Abort()
    for _ in range(100):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(signal.wait(), 0.0001)
    assert {} == signal._callbacks


def test_a_signal_may_fire_when_the_loop_that_waited_is_gone() -> None:
    """Nobody is told, and nothing is raised."""
    signal = il.Abort()

    async def begin() -> None:
        asyncio.get_running_loop().call_soon(lambda: None)
        task = asyncio.ensure_future(signal.wait())
        await asyncio.sleep(0)
        task.cancel()

    asyncio.run(begin())
    loop = asyncio.new_event_loop()
    waiting = loop.create_task(signal.wait())
    loop.run_until_complete(asyncio.sleep(0))
    signal_before = signal.aborted
    loop.run_until_complete(_cancelled(waiting))
    loop.close()
    signal.abort()
    assert (False, True) == (signal_before, signal.aborted)


async def _cancelled(task: "asyncio.Task[object]") -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def test_many_threads_may_fire_and_register_at_once() -> None:
    """Every callback is called exactly once, whichever side of the firing it falls on."""
    for _ in range(20):
        signal, received, go = il.Abort(), [], threading.Barrier(9)

        def register(signal: il.Abort = signal, received: list[int] = received, go: threading.Barrier = go) -> None:
            go.wait()
            for _ in range(50):
                signal.on_abort(lambda: received.append(1))

        def fire(signal: il.Abort = signal, go: threading.Barrier = go) -> None:
            go.wait()
            signal.abort()

        threads = [threading.Thread(target=register) for _ in range(8)] + [threading.Thread(target=fire)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert 400 == len(received)
