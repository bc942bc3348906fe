"""What an agent's own work costs per turn, and whether that grows with the turns before it.

Run with `.venv/bin/python bench/agent.py [TURNS] [ROUNDS]`. Every participant runs in a process of its own, peers in
environments of their own made from `bench/envs/`; round after round they take turns, so that all meet the same weather.
What is shown is CPU time of a turn (question, answer, one tool call, next question), the median around the turn that
the column names; the last column compares the last turns with the tenth.
"""

import statistics
import sys
from contextlib import ExitStack

import participants
from participants import HERE, OURS, Participant, Worker

PYDANTIC = next(peer for peer in participants.PEERS if peer.name == "pydantic-ai")
LANGCHAIN = Participant("langchain", "", "import langchain.agents")
ROWS = {
    "interlingua": (OURS, "interlingua"),
    "interlingua, with a session on disk": (OURS, "interlingua_session"),
    "pydantic-ai": (PYDANTIC, "pydantic_ai"),
    "pydantic-ai, with events": (PYDANTIC, "pydantic_ai_events"),
    "LangChain (LangGraph)": (LANGCHAIN, "langchain"),
    "LangChain, with events": (LANGCHAIN, "langchain_events"),
}
RESULTS = HERE / "results" / "agent.md"


def around(taken: list[float], turn: int) -> float:
    """The median of the turns near one, in microseconds."""
    wide = max(5, turn // 20)
    return statistics.median(taken[max(0, turn - 1 - wide) : turn + wide]) * 1e6


def measure(turns: int, rounds: int, columns: list[int]) -> dict[str, list[float]]:
    found: dict[str, list[list[float]]] = {name: [] for name in ROWS}
    for peer in (PYDANTIC, LANGCHAIN):
        participants.prepare(peer)
    with ExitStack() as stack:
        workers: dict[str, Worker] = {}
        for one in (OURS, PYDANTIC, LANGCHAIN):
            workers[one.name] = Worker(one.python, "agent_turns.py")
            stack.callback(workers[one.name].close)
        for one, row in ROWS.values():
            workers[one.name].do(row=row, turns=20)
        for turn in range(rounds):
            order = list(ROWS.items())
            for name, (one, row) in order[turn % len(order) :] + order[: turn % len(order)]:
                print(f"round {turn + 1} of {rounds}: {name}", file=sys.stderr, flush=True)
                taken = workers[one.name].do(row=row, turns=turns)
                found[name].append([around(taken, at) for at in columns])
    return {name: [statistics.median(column) for column in zip(*got, strict=True)] for name, got in found.items()}


def table(found: dict[str, list[float]], columns: list[int]) -> list[str]:
    ours = found["interlingua"]
    heads = " | ".join(f"turn {at:,}: µs | × ours" for at in columns)
    lines = [f"| | {heads} | last : tenth |", "|---|" + "--:|" * (2 * len(columns) + 1)]
    for name, times in found.items():
        cells = " | ".join(f"{time:,.0f} | {time / own:.1f}" for time, own in zip(times, ours, strict=True))
        lines.append(f"| {name} | {cells} | {times[-1] / times[0]:.1f} |")
    return lines


def main() -> None:
    turns, rounds = (int(sys.argv[at]) if len(sys.argv) > at else default for at, default in ((1, 1000), (2, 5)))
    columns = [at for at in (10, 100, 1000) if at < turns] + [turns]
    lines = [
        f"Median of {rounds} runs of {turns:,} turns each, CPU time per turn, one tool call in every turn.",
        "",
        *table(measure(turns, rounds, columns), columns),
    ]
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
