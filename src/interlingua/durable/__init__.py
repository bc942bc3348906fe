"""Durable runs: agents that survive crashes. Workers share a queue; one resumes the runs of another that died.

DBOS manages the queue and assigns runs; the session records messages and calls. Needs the extra `durable`.
"""

from .orders import Outcome, Run, RunError, RunFailed, agent
from .runs import Runs
from .worker import Worker, run_worker

__all__ = ["Outcome", "Run", "RunError", "RunFailed", "Runs", "Worker", "agent", "run_worker"]
