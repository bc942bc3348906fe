"""A stream between two processes, in every order that hypothesis finds: fed, read, aborted, left, cut, timed out."""

import asyncio
import json
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from connect.stream_server import StreamServer
from connect.talking import KEY
from interlingua.connect.client import Client
from interlingua.connect.retry import Retry
from interlingua.connect.transport import shared
from interlingua.values.abort import Abort
from interlingua.values.errors import TimedOut
from interlingua.values.events import Done, Error, Start
from interlingua.values.folding import fold

FAILURES = st.lists(st.sampled_from(["500", "429", "503", "reset", "nothing"]), max_size=2)
tried = 0


def frame(value: Any) -> bytes:
    return b"data: %b\n\n" % (value if isinstance(value, bytes) else json.dumps(value).encode())


def piece(text: str, **more: Any) -> bytes:
    return frame({"id": "x", "choices": [{"index": 0, "delta": {"content": text}, **more}]})


class OneStream(RuleBasedStateMachine):
    """The model: what the server sent, what was read, and what may end the stream."""

    @initialize(plan=FAILURES)
    def begin(self, plan: list[str]) -> None:
        """The first attempts fail as planned, before anything was shown; the next one is answered."""
        self.loop = asyncio.new_event_loop()
        self.server = StreamServer(plan)
        self.signal = Abort()
        self.sent = ""
        self.events: list[Any] = []
        self.ends: set[str] = set()  # the kinds of failure that may end it; "" is a good end
        self.plan = plan
        self.stream = Client(retry=Retry(attempts=3, base=0.001, cap=0.002)).stream(
            "groq/x", "hi",
            base_url=f"http://127.0.0.1:{self.server.port}", api_key=KEY, signal=self.signal, timeout=60,
        )  # fmt: skip
        self.server_accepts()

    def server_accepts(self) -> None:
        """The client asks as soon as it is read; the server answers meanwhile, in its own process."""
        self.server._ours.send(("accept",))
        self.server._ours.send(("send", piece("first ")))
        self.sent = "first "
        self.events.append(self.next())
        assert ["done", "done"] == [self.server._answer(), self.server._answer()]

    def teardown(self) -> None:
        if not hasattr(self, "stream"):
            return
        try:
            self.loop.run_until_complete(self.check_the_end())
        finally:
            self.server.end()
            self.loop.run_until_complete(shared().aclose())
            self.loop.run_until_complete(self.loop.shutdown_default_executor())
            self.loop.close()

    def next(self) -> Any:
        return self.loop.run_until_complete(asyncio.wait_for(self.stream.next(), 60))

    @property
    def shown(self) -> str:
        return "".join(event.delta for event in self.events if event.type == "text_delta")

    @property
    def over(self) -> bool:
        return self.stream.message is not None

    @precondition(lambda self: not self.ends)
    @rule(text=st.text(st.characters(codec="utf-8"), min_size=1, max_size=30), parts=st.integers(1, 3))
    def feed(self, text: str, parts: int) -> None:
        """A frame, in one piece or several."""
        data = piece(text)
        step = -(-len(data) // parts)
        for at in range(0, len(data), step):
            self.server.do("send", data[at : at + step])
        self.sent += text

    @precondition(lambda self: self.shown != self.sent and not self.over)
    @rule()
    def read(self) -> None:
        """Events come in order; what is shown is a part of what was sent."""
        self.take(self.next())

    def take(self, event: Any) -> None:
        global tried
        tried += 1
        if event is not None:
            self.events.append(event)
        assert self.sent.startswith(self.shown)

    @precondition(lambda self: not self.ends)
    @rule()
    def finish(self) -> None:
        """The answer is whole."""
        self.server.do("send", piece("", finish_reason="stop") + frame(b"[DONE]"))
        self.server.do("end")
        self.ends.add("")

    @precondition(lambda self: not self.ends)
    @rule(how=st.sampled_from(["end", "reset"]))
    def cut(self, how: str) -> None:
        """The connection ends before the answer does."""
        self.server.do(how)
        self.ends.add("TransportError")

    @precondition(lambda self: not self.ends)
    @rule()
    def garbage(self) -> None:
        """A frame that is no JSON."""
        self.server.do("send", frame(b'{"choices": [}'))
        self.ends.add("BadWire")

    @precondition(lambda self: not self.ends)
    @rule()
    def fail(self) -> None:
        """An error in the midst of the stream."""
        self.server.do("send", frame({"error": {"message": "no more", "type": "server_error"}}))
        self.ends.add("ProviderError")

    @rule()
    def abort(self) -> None:
        """The signal fires; twice is once."""
        self.signal.abort("enough")
        if not self.over:
            self.ends.add("Aborted")

    @rule()
    def leave(self) -> None:
        """The reader leaves; twice is once."""
        was_over = self.over
        self.loop.run_until_complete(self.stream.aclose())
        if not was_over:
            self.ends.add("Aborted")

    @precondition(lambda self: self.over)
    @rule()
    def feed_after_the_end(self) -> None:
        """Nobody hears it."""
        self.server.do("send", piece("too late"))

    async def check_the_end(self) -> None:
        """One terminal event, nothing after it; the message is what the events amount to, and says why it ended."""
        if not self.ends:
            self.signal.abort("the end")
            self.ends.add("Aborted")
        while (event := await asyncio.wait_for(self.stream.next(), 60)) is not None:
            self.take(event)
        message = await asyncio.wait_for(self.stream.result(), 60)
        assert await self.stream.next() is None
        terminal = [event for event in self.events if isinstance(event, Done | Error)]
        assert terminal == self.events[-1:]
        assert [True] == [isinstance(event, Start) for event in self.events if isinstance(event, Start)]
        assert isinstance(self.events[0], Start)
        assert message == fold(self.events)
        assert self.sent.startswith(message.text)
        failure = self.stream.failure
        kinds = {""} if failure is None else {kind.__name__ for kind in type(failure).__mro__}
        assert kinds & self.ends, (kinds, self.ends)
        if failure is None:
            assert self.sent == message.text
        assert (message.stop_reason in ("error", "aborted")) is (failure is not None)
        assert failure is None or failure.partial == message
        assert len(self.plan) + 1 == self.server.requests()
        await self.stream.aclose()
        assert message == self.stream.message


def test_a_stream_between_two_processes_keeps_its_grammar(record_property: Any) -> None:
    """Whatever both sides do in whatever order: one start, one end, nothing lost or invented, no request twice."""
    before = tried
    run_state_machine_as_test(
        OneStream,
        settings=settings(
            max_examples=40, stateful_step_count=15, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
    record_property("tried", tried - before)


async def test_a_silent_server_in_another_process_times_out_with_what_came() -> None:
    """At the first event and between events; the partial is kept."""
    for sent in ("", "some "):
        server = StreamServer([])
        try:
            stream = Client().stream(
                "groq/x", "hi", base_url=f"http://127.0.0.1:{server.port}", api_key=KEY, retry=0, timeout=0.3
            )
            server._ours.send(("accept",))
            if sent:
                server._ours.send(("send", piece(sent)))
            message = await stream.result()
            assert isinstance(stream.failure, TimedOut)
            assert message.text in (sent, "")
            assert "error" == message.stop_reason
        finally:
            server.end()
