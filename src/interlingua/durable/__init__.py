"""Durable runs: agents at work where a machine may die. Workers share a queue; what one leaves, another takes up.

DBOS keeps the queue and says who runs what; the session keeps what was said and done. Needs the extra `durable`.
"""

from .orders import Outcome, Run, RunError, RunFailed, agent
from .runs import Runs
from .worker import Worker, run_worker

__all__ = ["Outcome", "Run", "RunError", "RunFailed", "Runs", "Worker", "agent", "run_worker"]
