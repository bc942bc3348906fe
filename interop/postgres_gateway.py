"""Two gateways on a real PostgreSQL server, started here: the budget is met exactly, the ledger has each call once, a
conversation has every turn.

Run by `make interop`. Skipped where no server is installed.
"""

import asyncio
import sys
from pathlib import Path

from postgres_sessions import programs, server

import interlingua as il
from interlingua.gateway.accounts import NANO, Accounts
from interlingua.gateway.exchange import ClientKey, Exchange
from interlingua.gateway.gate import KeyGate
from interlingua.gateway.keys import ClientKeys
from interlingua.gateway.ledger import Ledger
from interlingua.gateway.recall import Recall
from interlingua.gateway.recall_store import open_recall
from interlingua.gateway.state import open_state
from interlingua.values.errors import RateLimited
from interlingua.values.messages import Usage

CALLS, BUDGET, COST = 1000, 10.0, 0.1
TURNS = 100
KEY = ClientKey(name="shared", budget=BUDGET)


def exchange(number: int) -> Exchange:
    return Exchange(
        id=f"x{number}",
        key=KEY,
        wire=il.wire("anthropic-messages"),
        asked_model="m",
        is_stream=False,
        started=0.0,
        finished=1.0,
        attempts=1,
        status=200,
        usage=Usage.of(10, 5),
        cost=COST,
    )


async def act(address: str) -> None:
    stores = [open_state(address) for _ in range(2)]
    ledgers = [Ledger(address) for _ in range(2)]
    gates = [
        KeyGate(ClientKeys(Path("/nonexistent/keys.json")), Accounts(store, seed=ledger.spent), ledger)
        for store, ledger in zip(stores, ledgers, strict=True)
    ]
    admitted = 0

    async def call(number: int) -> None:
        nonlocal admitted
        one = exchange(number)
        try:
            reservation = await gates[number % 2].admit(one, input_tokens=1, highest_cost=COST)
        except RateLimited:
            return
        admitted += 1
        await reservation.settle(one)
        for ledger in ledgers:  # both: an entry is written once
            await ledger.observe(one)

    await asyncio.gather(*(call(number) for number in range(CALLS)))
    (row,) = await ledgers[0].usage(("key",))
    assert admitted == round(BUDGET / COST) == row.calls, (admitted, row)
    assert row.cost == BUDGET == (await gates[1].accounts.spent(KEY.name)).total / NANO
    for gate in gates:
        await gate.accounts.close()
    for opened in (*stores, *ledgers):
        await opened.close()
    print(f"two gateways, {CALLS} calls at once: {admitted} let in, ${row.cost:.2f} spent, {row.calls} entries")


async def converse(address: str) -> None:
    """Turns of one conversation at once; then one that ends after the conversation was deleted."""
    recalls = [Recall(1 << 20, open_recall(address, 1 << 20)) for _ in range(2)]
    recalls[0].create("key", "conv", ())
    await recalls[0].save()

    async def turn(number: int) -> None:
        recall, asked = recalls[number % 2], il.UserMessage(content=f"Turn {number}?")
        recall.extend("key", "conv", f"req_{number}", (asked, il.AssistantMessage(content=f"Answer {number}.")))
        await recall.save()

    await asyncio.gather(*map(turn, range(TURNS)))
    await recalls[1].fetch_ids("key", ("conversation", "conv"))
    messages = recalls[1].conversation("key", "conv") or ()
    texts = [getattr(message, "text", "") for message in messages]
    pairs = {(texts[at], texts[at + 1]) for at in range(0, len(texts), 2)}
    assert len(texts) == 2 * TURNS and pairs == {(f"Turn {n}?", f"Answer {n}.") for n in range(TURNS)}, texts
    recalls[0].delete_conversation("key", "conv")
    await recalls[0].save()
    await turn(TURNS + 1)
    await recalls[0].fetch_ids("key", ("conversation", "conv"))
    assert recalls[0].conversation("key", "conv") is None
    for recall in recalls:
        assert recall.shared is not None
        await recall.shared.close()
    print(f"two gateways, {TURNS} turns of one conversation at once: {len(texts) // 2} kept, none after its deletion")


def main() -> None:
    place = programs()
    if place is None:
        print("!!!! PostgreSQL is NOT INSTALLED: gateways that share it are not tested")
        sys.exit(0)
    with server(place) as address:
        asyncio.run(act(address))
        asyncio.run(converse(address))


if __name__ == "__main__":
    main()
