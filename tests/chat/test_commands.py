"""The commands, on a chat with a real agent and a real session."""

import asyncio
import base64
import io
import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from rich.console import Console
from rich.text import Text

import interlingua as il
from chat.talking import talking
from connect.asking import PNG
from interlingua.chat import tree
from interlingua.chat.command import attach, images_mentioned, nearest, parse
from interlingua.chat.commands import COMMANDS, tree_lines
from interlingua.chat.opening import last_exchange
from interlingua.chat.screen import ChatCompleter, drawn, notification
from interlingua.values.messages import AgentMessage, CustomMessage, UserMessage, text_of

CALL = {"text": "I look.", "calls": [{"name": "ls", "arguments": {"path": "."}, "id": "c1"}]}


def text(messages: Sequence[AgentMessage]) -> list[str]:
    return ["" if isinstance(message, CustomMessage) else text_of(message.content) for message in messages]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTERLINGUA_HOME", str(tmp_path / "home"))


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("/help", ("help", "")),
        ("/Model  openai/x ", ("model", "openai/x")),
        ("/export a b", ("export", "a b")),
        ("/usr/bin/python is where?", None),
        ("/etc", ("etc", "")),
        ("half a/b", None),
        ("/", None),
    ],
)
def test_a_command_is_distinguished_from_a_path_and_from_words(line: str, found: tuple[str, str] | None) -> None:
    """A slash and a word; with another slash it is a path."""
    assert found == parse(line)


def test_an_unknown_command_names_the_nearest() -> None:
    """And the list, where none is near."""
    assert "unknown command /modle; did you mean /model?" == nearest("modle", COMMANDS)
    assert "unknown command /xyzzy; /help lists the commands" == nearest("xyzzy", COMMANDS)


async def test_help_lists_every_command(tmp_path: Path) -> None:
    """With what it takes."""
    async with talking(tmp_path) as talk:
        shown = await talk.say("/help")
        assert all(f"/{name}" in shown for name in COMMANDS)
        assert "unknown command /hepl; did you mean /help?" in await talk.say("/hepl")


async def test_undo_takes_back_a_turn_and_gives_its_words_back(tmp_path: Path) -> None:
    """With the calls and the answers in it; the tree keeps them."""
    async with talking(tmp_path, [CALL, "Nothing there.", "Bye."]) as talk:
        await talk.say("look around")
        await talk.say("goodbye")
        assert 6 == len(talk.chat.agent.messages)
        await talk.say("/undo")
        await talk.say("/undo")
        assert ["goodbye", "look around"] == talk.screen.offered
        assert [] == list(talk.chat.agent.messages)
        assert "nothing to undo" in await talk.say("/undo")
        assert 6 == len(list(talk.chat.session.entries()))


async def test_a_branch_is_named_left_and_found_again(tmp_path: Path) -> None:
    """By its label; what is said from there is another branch."""
    async with talking(tmp_path) as talk:
        await talk.say("first")
        assert "labelled start" in await talk.say("/branch start")
        await talk.say("on the one hand")
        await talk.say("/tree start")
        await talk.say("on the other hand")
        assert ["first", "first", "on the other hand", "on the other hand"] == text(talk.chat.session.messages)
        shown = await talk.say("/tree")
        assert "   2 │ model: first  [start]" in shown
        assert "   3   · you: on the one hand" in shown
        assert "   6   ● model: on the other hand  ← here" in shown
        await talk.say("3")
        assert ["on the one hand"] == talk.screen.offered
        assert 2 == len(talk.chat.session.messages)


async def test_a_label_is_no_number_and_says_which_one_it_replaces(tmp_path: Path) -> None:
    """/tree takes a number for that of an entry; an entry has one label."""
    async with talking(tmp_path) as talk:
        await talk.say("first")
        assert "1 is the number of an entry in /tree" in await talk.say("/branch 1")
        assert "labelled one; `/tree one` returns to it" in await talk.say("/branch one")
        assert "labelled two instead of one; `/tree two` returns to it" in await talk.say("/branch two")


async def test_the_tree_leads_behind_the_results_of_an_answer(tmp_path: Path) -> None:
    """A conversation that ended between a call and its result would owe one."""
    async with talking(tmp_path, [CALL, "Nothing there."]) as talk:
        await talk.say("look around")
        shown = await talk.say("/tree")
        assert 3 == len([line for line in shown.splitlines() if "you:" in line or "model:" in line])
        await talk.say("2")
        last = talk.chat.session.messages[-1]
        assert isinstance(last, il.ToolResultMessage)
        assert () == talk.chat.session.unfinished_calls()
        assert "no entry 'nowhere'" in await talk.say("/tree nowhere")


async def test_a_question_of_a_command_ends_when_other_input_comes(tmp_path: Path) -> None:
    """Enter stays where one is; a command is no answer."""
    async with talking(tmp_path) as talk:
        await talk.say("hello")
        await talk.say("/tree")
        await talk.say("")
        assert talk.chat.question is None
        await talk.say("/tree")
        assert "labelled branch-1" in await talk.say("/branch")
        assert 2 == len(talk.chat.session.messages)


async def test_another_model_takes_over_and_what_it_will_not_read_is_reported(tmp_path: Path) -> None:
    """From here on, also when the session is taken up again."""
    script = [{"thinking": "Let me see.", "text": "Seen."}]
    async with talking(tmp_path, script) as talk:
        await talk.say("look")
        shown = await talk.say("/model anthropic/claude-sonnet-4-5")
        assert "no key for anthropic" in shown
        assert "not readable for this model: 1 lost" in shown
        shown = await talk.say("/model debug/parrot-1")
        assert "the model is now debug/parrot-1" in shown
        assert "again" in await talk.say("again")
        id = talk.chat.session.id
        assert "did you mean 'debug'" in await talk.say("/model debgu/x")
    async with talking(tmp_path, session=id[:12]) as talk:
        assert "debug/parrot-1" == talk.chat.model
        assert "the model is debug/parrot-1" in await talk.say("/model")
        assert talk.chat.status().startswith("debug/parrot-1 · ")


async def test_the_session_is_exported_with_a_report_of_what_was_lost(tmp_path: Path) -> None:
    """In any format; an unknown one is an error in one line."""
    async with talking(tmp_path, [{"thinking": "Hm.", "text": "Yes."}]) as talk:
        await talk.say("is it?")
        shown = await talk.say("/export out.json openai-completions")
        assert "openai-completions: " in shown
        assert "lost" in shown
        body = json.loads((tmp_path / "root/out.json").read_text())
        assert "is it?" in json.dumps(body)
        await talk.say("/export whole.jsonl")
        assert 2 == len(il.decode((tmp_path / "root/whole.jsonl").read_bytes(), "transcript").messages)
        assert "✗" in await talk.say("/export out.json nonsense")


async def test_an_export_replaces_a_file_only_after_a_yes(tmp_path: Path) -> None:
    """And not at all without an answer; `-t` gives the format, before or after the file."""
    async with talking(tmp_path) as talk:
        await talk.say("hello")
        file = tmp_path / "root/my notes.json"
        file.write_text("mine")
        assert "exists; replace it?" in await talk.say("/export 'my notes.json' -t openai-completions")
        assert "not written" in await talk.say("n")
        assert "mine" == file.read_text()
        await talk.say("/export -t openai-completions 'my notes.json'")
        assert "written" in await talk.say("y")
        assert "hello" in file.read_text()
        before = file.read_bytes()
        talk.chat.end_of_input()
        assert "not written" in await talk.say("/export 'my notes.json'")
        assert before == file.read_bytes()


@pytest.mark.parametrize(
    ("argument", "error"),
    [
        ("", "expected a file and a format"),
        ("-t transcript", "expected a file and a format"),
        ("a.json -t", "expected a file and a format"),
        ("a b c", "expected a file and a format"),
        ("'a.json", "unreadable arguments"),
        ("a.json -t openai-completion", "did you mean"),
        (".", "is a folder"),
    ],
)
async def test_a_wrong_export_is_an_error_and_writes_nothing(tmp_path: Path, argument: str, error: str) -> None:
    """One line, and the folder stays as it was."""
    async with talking(tmp_path) as talk:
        await talk.say("hello")
        shown = await talk.say(f"/export {argument}")
        assert error in " ".join(shown.split())
        assert [] == list((tmp_path / "root").iterdir())


async def test_a_branch_is_compared_with_a_label_a_file_and_a_session(tmp_path: Path) -> None:
    """By what was added, removed and changed; nothing moves."""
    async with talking(tmp_path) as talk:
        await talk.say("first")
        await talk.say("/branch start")
        await talk.say("on the one hand")
        await talk.say("/branch one")
        await talk.say("/tree start")
        await talk.say("on the other hand")
        head = talk.chat.session.head
        shown = await talk.say("/diff one")
        assert "changed [2] ↔ [2]" in shown and "changed [3] ↔ [3]" in shown
        assert "  -on the one hand\n  +on the other hand" in shown and '"text"' not in shown
        assert "added – ↔ [2]" in await talk.say("/diff start")
        await talk.say("/model debug/parrot-1")
        head = talk.chat.session.head
        await talk.say("/export copy.jsonl")
        assert "no differences from copy.jsonl" in await talk.say("/diff copy.jsonl")
        id = talk.chat.session.id
        assert "no differences" in await talk.say(f"/diff {id[:13]}")
        assert "did you mean 'start'" in await talk.say("/diff stat")
        assert "unknown entry, session or file 'nowhere at all'" in await talk.say("/diff nowhere at all")
        assert "compare with what?" in await talk.say("/diff")
        assert "changed [2] ↔ [2]" in await talk.say("one")
        assert head == talk.chat.session.head
    async with talking(tmp_path) as talk:
        await talk.say("first")
        assert "removed [2] ↔ –" in await talk.say(f"/diff {id}")


async def test_a_session_that_is_open_elsewhere_is_compared(tmp_path: Path) -> None:
    """It is read, not opened for writing."""
    async with talking(tmp_path) as one, talking(tmp_path) as other:
        await one.say("first")
        await other.say("second")
        assert "changed [0] ↔ [0]" in await one.say(f"/diff {other.chat.session.id}")


async def test_a_comparison_includes_the_results_of_an_answer(tmp_path: Path) -> None:
    """An answer and the results of its calls are one place."""
    async with talking(tmp_path, [CALL, "Nothing there."]) as talk:
        await talk.say("look around")
        shown = await talk.say("/diff 2")
        assert "added – ↔ [3]" in shown and "[2]" not in shown


async def test_the_canvas_shows_this_session(tmp_path: Path) -> None:
    """At an address on this machine; there is nothing to show of an empty session."""
    from interlingua.canvas.opened import open_canvas

    async with talking(tmp_path) as talk:
        assert "the session is empty" in await talk.say("/canvas")
        await talk.say("hello")
        shown = "".join((await talk.say("/canvas")).split())
        try:
            assert "http://127.0.0.1:" in shown
            assert f"~{talk.chat.session.id}/canvas?token=" in shown
        finally:
            await asyncio.to_thread(open_canvas(store=talk.chat.session.store).close)


async def test_cost_tools_and_sessions_are_listed(tmp_path: Path) -> None:
    """By model; with what asks first; the latest first."""
    async with talking(tmp_path, ["Yes."]) as talk:
        await talk.say("is it?")
        assert "debug/script" in await talk.say("/cost")
        shown = await talk.say("/tools")
        assert [["read", "allowed"], ["exec", "asks"]] == [
            line.split()[:2] for line in shown.splitlines() if line.startswith(("read ", "exec "))
        ]
        shown = await talk.say("/sessions")
        assert f"{talk.chat.session.id[:12]} ●" in shown
        assert "is it?" in shown


async def test_another_session_is_taken_up(tmp_path: Path) -> None:
    """By its number, its id, or the beginning of it; the one before is let go."""
    async with talking(tmp_path) as talk:
        await talk.say("in the first one")
        first = talk.chat.session.id
    async with talking(tmp_path) as talk:
        await talk.say("in the second one")
        shown = await talk.say(f"/resume {first[:13]}")
        assert "in the first one" in shown
        assert first == talk.chat.session.id
        assert "this is the current session" in await talk.say(f"/resume {first}")
        shown = await talk.say("/resume")
        number = next(line.split()[0] for line in shown.splitlines() if "in the second one" in line)
        await talk.say(number)
        assert first != talk.chat.session.id
        assert "no session 'nothing'" in await talk.say("/resume nothing")


async def test_sessions_are_found_by_words_of_their_title(tmp_path: Path) -> None:
    """One that is found alone is taken up; of several, one is asked for; an answer may search on."""
    for line in ("plan the garden", "plan the kitchen", "a poem"):
        async with talking(tmp_path) as talk:
            await talk.say(line)
    async with talking(tmp_path) as talk:
        shown = await talk.say("/sessions PLAN the")
        assert "garden" in shown and "kitchen" in shown and "poem" not in shown
        assert "no session has 'cellar'" in await talk.say("/sessions cellar")
        assert "a poem" in await talk.say("/resume poem")
        shown = await talk.say("/resume plan")
        assert "which session?" in shown and "poem" not in shown
        assert "plan the garden" in await talk.say("garden")
        assert ["plan the garden"] == text(talk.chat.session.messages)[:1]
        await talk.say("/resume plan")
        await talk.say("")
        assert ["plan the garden"] == text(talk.chat.session.messages)[:1]


async def test_a_session_that_is_open_elsewhere_is_not_taken_up(tmp_path: Path) -> None:
    """It is an error with a remedy, and the current session stays."""
    async with talking(tmp_path) as one, talking(tmp_path) as other:
        await one.say("first")
        await other.say("second")
        before = one.chat.session.id
        assert "✗" in await one.say("/resume second")
        assert before == one.chat.session.id
        assert "still here" in await one.say("still here")


async def test_compaction_asks_for_a_summary_and_keeps_the_whole(tmp_path: Path) -> None:
    """Where nothing is old, it says so."""
    async with talking(tmp_path, ["A summary.", "Two.", "Three."]) as talk:
        await talk.say("first")
        assert "nothing to summarize yet" in await talk.say("/compact")
        await talk.say("much " * 30_000)
        await talk.say("last")
        assert "summarized; the session keeps everything" in await talk.say("/compact")
        assert "A summary." in text(talk.chat.agent.messages)[0]
        assert "first" == text(talk.chat.session.messages)[0]


async def test_thinking_is_unfolded_on_demand(tmp_path: Path) -> None:
    """The last one at once, those to come as they come."""
    async with talking(tmp_path, [{"thinking": "Let me see.", "text": "Yes."}]) as talk:
        assert "▸ thought for" in await talk.say("is it?")
        assert "Let me see." in await talk.say("/thinking")
        assert "thinking is folded" in await talk.say("/thinking")


async def test_a_refusal_reaches_the_model_and_its_reason_steers(tmp_path: Path) -> None:
    """The call does not run; the words are read with its result."""
    call = {"text": "I write.", "calls": [{"name": "write", "arguments": {"path": "a.txt", "content": "x"}}]}
    async with talking(tmp_path, [call, "Understood."]) as talk:
        shown = await talk.say("write it")
        assert "allow write? y yes · n no (and why) · a always write" in shown
        assert "queued" not in await talk.say("wait a moment")
        assert talk.chat.question is not None
        await talk.say("n not there, please")
        texts = [text_of(message.content) for message in talk.chat.session.messages if isinstance(message, UserMessage)]
        assert ["write it", "wait a moment", "not there, please"] == texts
        assert not (tmp_path / "root/a.txt").exists()


async def test_what_is_always_allowed_runs_without_a_question(tmp_path: Path) -> None:
    """In this chat; the first of two calls is asked for, the second is not."""
    calls = [{"name": "write", "arguments": {"path": f"{n}.txt", "content": "x"}, "id": f"c{n}"} for n in (1, 2)]
    async with talking(tmp_path, [{"calls": calls}, "Done."]) as talk:
        await talk.say("write them")
        assert "Done." in await talk.say("a")
        assert ["1.txt", "2.txt"] == sorted(path.name for path in (tmp_path / "root").iterdir())


async def test_an_interrupt_stops_a_question_as_well(tmp_path: Path) -> None:
    """The call is not allowed, and the run ends."""
    call = {"calls": [{"name": "exec", "arguments": {"command": "true"}}]}
    async with talking(tmp_path, [call, "Done."]) as talk:
        await talk.say("run it")
        assert talk.chat.interrupt()
        assert talk.chat.steering
        talk.chat.interrupt()
        while talk.chat.busy:
            await asyncio.sleep(0.01)
        assert "stopped" in talk.screen.take()
        assert not talk.chat.interrupt()


async def test_a_failure_is_one_line_with_a_remedy(tmp_path: Path) -> None:
    """And the chat goes on."""
    async with talking(tmp_path, [{"error": "no such key", "status": 401}, "Yes."]) as talk:
        (line,) = [line for line in (await talk.say("is it?")).splitlines() if line.startswith("✗")]
        assert "no such key" in line
        assert talk.chat.failed


def test_files_that_are_named_go_along(tmp_path: Path) -> None:
    """Images, documents; a name that is no file stays a word, and is reported where it looks like one."""
    (tmp_path / "notes.md").write_text("Remember.")
    (tmp_path / "my picture.png").write_bytes(base64.b64decode(PNG))
    found = attach('see @notes.md, @"my picture.png" and @nobody @missing.txt me@example.com', tmp_path)
    kinds = [type(block).__name__ for block in found.content]
    assert ["DocumentBlock", "ImageBlock", "TextBlock"] == kinds
    assert ("missing.txt",) == found.missing
    assert "plain @words" == attach("plain @words", tmp_path).content


@pytest.mark.parametrize(
    ("pasted", "inserted"),
    [
        ("cat.png", "@cat.png "),
        ("my cat.png\n", '@"my cat.png" '),
        ("my\\ cat.png cat.png", '@"my cat.png" @cat.png '),
        ("'my cat.png'", '@"my cat.png" '),
        ("file://{root}/my%20cat.png", '@"{root}/my cat.png" '),
        ("{root}/cat.png", "@{root}/cat.png "),
        ("see cat.png", None),
        ("missing.png", None),
        ("notes.md", None),
        ("it's cat.png", None),
        ("", None),
    ],
    ids=["plain", "space", "escaped", "quoted", "url", "absolute", "sentence", "missing", "text", "quote", "empty"],
)
def test_pasted_names_of_images_become_mentions(tmp_path: Path, pasted: str, inserted: str | None) -> None:
    """And what is mentioned so is attached; any other text stays as it was pasted."""
    (tmp_path / "notes.md").write_text("Remember.")
    for name in ("cat.png", "my cat.png"):
        (tmp_path / name).write_bytes(base64.b64decode(PNG))
    pasted = pasted.replace("{root}", str(tmp_path))
    found = images_mentioned(pasted, tmp_path)
    assert found == (pasted if inserted is None else inserted.replace("{root}", str(tmp_path)))
    images = [block for block in attach(found, tmp_path).content if isinstance(block, il.ImageBlock)]
    assert len(images) == found.count("@")


async def test_the_end_of_a_long_run_is_notified(tmp_path: Path) -> None:
    """And a question in it, and a failure; not a short run, not a command, and nothing without the setting."""
    call = {"calls": [{"name": "exec", "arguments": {"command": "true"}}]}
    script = [call, "Done.", {"error": "no such key", "status": 401}]
    async with talking(tmp_path, script, notify_after=0.0) as talk:
        await talk.say("/tree")
        assert [] == talk.screen.notified
        await talk.say("run it")
        assert ["a question waits"] == talk.screen.notified
        await talk.say("n")
        assert ["a question waits", "the answer is ready"] == talk.screen.notified
        await talk.say("again")
        assert "the run failed" == talk.screen.notified[-1]
        await talk.say("/tree")
        assert 3 == len(talk.screen.notified)
    for after in (None, 3600.0):
        async with talking(tmp_path, ["Done."], notify_after=after) as talk:
            await talk.say("run it")
            assert [] == talk.screen.notified


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"TERM": "xterm-256color"}, "\x1b]9;interlingua: ready\x1b\\\a"),
        ({"TERM": "foot"}, "\x1b]777;notify;interlingua;ready\x1b\\\a"),
        ({"TERM": "xterm-256color", "VTE_VERSION": "7600"}, "\x1b]777;notify;interlingua;ready\x1b\\\a"),
        ({"TERM": "linux"}, "\a"),
    ],
    ids=["osc-9", "foot", "vte", "console"],
)
def test_a_notification_is_what_the_terminal_knows(environment: dict[str, str], expected: str) -> None:
    """One sequence, so that no terminal shows two; the bell always."""
    assert expected == notification("ready", environment)


def test_commands_models_and_files_are_completed(tmp_path: Path) -> None:
    """Each in its place, hidden files only on demand."""
    (tmp_path / "sub").mkdir()
    for name in ("one.txt", ".hidden", "sub/two.txt", "bad\x1b[31m.txt"):
        (tmp_path / name).touch()
    completer = ChatCompleter(COMMANDS, tmp_path, {"model": lambda: ["debug/parrot-1", "openai/gpt-5"]})

    def offered(text: str) -> list[str]:
        return [one.text for one in completer.get_completions(Document(text), CompleteEvent())]

    assert ["/tree"] == offered("/tr")
    assert ["openai/gpt-5"] == offered("/model gpt")
    assert ["one.txt", "sub/"] == offered("look at @")
    assert ["two.txt"] == offered("@sub/t")
    assert [".hidden"] == offered("@.h")
    assert [] == offered("just words")


async def test_prompts_of_servers_are_listed_and_sent(tmp_path: Path) -> None:
    """`/prompt` lists them with their arguments; with a name it runs the agent with the prompt's messages."""

    class Offering:
        async def prompts(self) -> list[Any]:
            return [SimpleNamespace(name="greet", arguments={"name": True}, description="Greets.")]

        async def prompt(self, name: str, values: dict[str, str]) -> list[UserMessage]:
            return [UserMessage(content=f"{name} {values['name']} politely")]

    async with talking(tmp_path, ["Good day, Ada."], servers={"desk": Offering()}) as talk:
        assert "desk/greet" in await talk.say("/prompt")
        assert "no MCP server 'nobody'" in await talk.say("/prompt nobody/greet")
        assert "Good day, Ada." in await talk.say('/prompt desk/greet name="Ada L"')
        first = next(message for message in talk.chat.agent.messages if isinstance(message, UserMessage))
        assert "greet Ada L politely" == text_of(first.content)


async def test_a_servers_question_is_asked_field_by_field(tmp_path: Path) -> None:
    """Values are checked as the form wants them, empty input takes the default, and a no is a no."""
    form: Any = SimpleNamespace(
        server="desk",
        message="For whom?",
        url=None,
        schema={
            "properties": {
                "name": {"type": "string"},
                "people": {"type": "integer", "default": 2},
                "seat": {"type": "string", "enum": ["window", "aisle"]},
            },
            "required": ["name", "seat"],
        },
    )
    async with talking(tmp_path, ["-"]) as talk:
        for lines, expected in (
            (["y", "Ada", "", "door", "aisle"], {"name": "Ada", "seat": "aisle"}),
            (["y", "Ada", "many", "3", "window"], {"name": "Ada", "people": 3, "seat": "window"}),
            (["n"], None),
        ):
            asking = asyncio.ensure_future(talk.chat.elicit(form))
            for line in lines:
                await asyncio.wait_for(talk.screen.asked.wait(), 20)
                talk.screen.asked.clear()
                await talk.chat.take(line)
            assert expected == await asyncio.wait_for(asking, 20)


async def test_a_mention_of_a_missing_file_is_an_error_and_nothing_is_sent(tmp_path: Path) -> None:
    """The text is offered again; what only looks like a mention is sent."""
    async with talking(tmp_path) as talk:
        assert "no file missing.png; correct its name, or write it without @" in await talk.say("see @missing.png")
        assert [] == list(talk.chat.session.messages)
        await talk.say("use @app.route and @types/node")
        assert 2 == len(talk.chat.session.messages)


async def test_a_resumed_session_shows_its_totals(tmp_path: Path) -> None:
    """What was used before counts, and so does what comes after."""
    async with talking(tmp_path) as talk:
        await talk.say("hello")
        id, before = talk.chat.session.id, talk.chat.spent
    async with talking(tmp_path, session=id) as talk:
        assert (before.answers, before.input, before.context) == (
            talk.chat.spent.answers,
            talk.chat.spent.input,
            talk.chat.spent.context,
        )
        await talk.say("more")
        assert 2 == talk.chat.spent.answers


def test_the_last_exchange_is_a_question_and_its_own_answer() -> None:
    """Not the answer to an earlier question, and not what a program put in."""
    texts = [
        il.UserMessage(content="first"),
        il.AssistantMessage(content=(il.TextBlock(text="to the first"),)),
        il.UserMessage(content="second"),
        il.UserMessage(content="a reminder", origin="program"),
    ]
    console = Console(width=80, record=True, file=io.StringIO())
    for part in last_exchange(texts):
        console.print(part)
    shown = console.export_text()
    assert "second" in shown and "first" not in shown and "reminder" not in shown


@pytest.mark.parametrize("width", [40, 60, 80, 140])
def test_the_tree_fits_the_terminal(width: int) -> None:
    """A line is cut for its label and the mark of the head; nothing is wrapped."""
    long = "What is a monad, and " * 10
    rows = [
        tree.TreeLine(
            id=f"e{at}", depth=at, role="you", text=long, on_path=True, is_head=at == 2, label="first" * (at % 2)
        )
        for at in range(3)
    ]
    lines = drawn(tree_lines(rows), width).splitlines()
    plain = [Text.from_ansi(line).plain.rstrip() for line in lines]
    assert 3 == len(plain) and all(len(line) <= width for line in plain)
    assert plain[1].endswith("…  [first]") and plain[2].endswith("…  ← here")
