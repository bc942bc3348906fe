"""A process that opens one session, appends to it and closes it, as its commands say."""

import multiprocessing
from multiprocessing.connection import Connection
from typing import Any

import interlingua as il
from interlingua.sessions import Session, SessionBusy, SessionError

_FORKS = multiprocessing.get_context("fork")  # the others import everything anew for each process


class Worker:
    """A process of its own, started anew after each kill."""

    def __init__(self, target: str, store: str | None) -> None:
        self._given = (target, store)
        self._begin()

    def _begin(self) -> None:
        self._ours, theirs = _FORKS.Pipe()
        self._process = _FORKS.Process(target=obey, args=(theirs, *self._given), daemon=True)
        self._process.start()
        theirs.close()

    def ask(self, *command: Any) -> Any:
        """What the process answers: "ok", or the name of the error."""
        self.send(*command)
        assert self._ours.poll(60), "no answer within a minute"
        return self._ours.recv()

    def send(self, *command: Any) -> None:
        self._ours.send(command)

    def kill(self) -> bool:
        """Kills it, wherever it is, and starts another; whether a last answer had come before."""
        self._process.kill()
        self._process.join()
        try:
            answered = self._ours.poll(0) and self._ours.recv() == "ok"
        except (EOFError, OSError):
            answered = False
        self._ours.close()
        self._begin()
        return answered

    def end(self) -> None:
        self._process.kill()
        self._process.join()
        self._ours.close()


def obey(commands: Connection, target: str, store: str | None) -> None:
    """In the process: each command is answered once it is done."""
    session: Session | None = None
    while True:
        try:
            name, *arguments = commands.recv()
        except EOFError:
            return
        try:
            if name == "open":
                opened = Session.open(target, store=store)
                session = opened
            elif session is not None and name == "append":
                session.append(il.UserMessage(content=arguments[0]))
            elif session is not None:
                open_one, session = session, None
                open_one.close()
            else:
                commands.send("error")
                continue
            answer = "ok"
        except SessionBusy:
            answer = "busy"
        except SessionError:
            answer = "error"
        commands.send(answer)
