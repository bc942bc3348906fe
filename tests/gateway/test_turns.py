"""Streams that have begun share the passes of the event loop."""

import asyncio

from interlingua.gateway.turns import Turns


async def test_a_pass_of_the_loop_takes_a_few_large_chunks() -> None:
    """
    However much has come, a new request waits for one chunk at a time, and all chunks get their turn in order.
    """
    turns, done = Turns(), list[int]()

    async def translate(number: int) -> None:
        await turns.take(10_000)
        done.append(number)

    tasks = [asyncio.ensure_future(translate(number)) for number in range(5)]
    most = 0
    while len(done) < 5:
        before = len(done)
        await asyncio.sleep(0)
        most = max(most, len(done) - before)
    assert (list(range(5)), 1) == (done, most)
    await asyncio.gather(*tasks)


async def test_small_chunks_do_not_wait() -> None:
    """
    Events that come one by one are translated at once.
    """
    turns = Turns()
    for _ in range(20):
        waiting = turns.take(100)
        try:
            waiting.send(None)
        except StopIteration:
            continue
        raise AssertionError("it waited")


async def test_an_exchange_that_ends_while_it_waits_holds_up_nobody() -> None:
    """
    A client that leaves gives its turn to the next.
    """
    turns = Turns()
    first, gone, following = (asyncio.ensure_future(turns.take(10_000)) for _ in range(3))
    await asyncio.sleep(0)
    assert (True, False) == (first.done(), gone.done())
    gone.cancel()
    await asyncio.wait_for(following, 10)
    assert gone.cancelled()


async def test_a_busy_moment_leaves_nothing_behind() -> None:
    """
    When all have had their turn, the next chunk does not wait.
    """
    turns = Turns()
    await asyncio.gather(*(turns.take(10_000) for _ in range(5)))
    for _ in range(3):
        await asyncio.sleep(0)
    following = asyncio.ensure_future(turns.take(10_000))
    await asyncio.sleep(0)
    assert following.done()
