"""The session files of coding agents: what each format's sample holds, by the rules that its module tells."""

import copy
import json
import pickle
import sqlite3
from pathlib import Path
from typing import Any

import msgspec
import pytest

import interlingua as il
from dialects.files.samples import outline
from interlingua.conversion.detection import holds
from interlingua.dialects import FORMATS
from interlingua.values.canonical import plain
from interlingua.values.errors import BadWire, Unsupported
from interlingua.values.messages import text_of

WIRE = Path(__file__).parents[2] / "wire"

# format/file -> the messages on the path, one letter for each block:
# u a person, p the program, s system, r a result (R: an error), and in an answer t text, h thinking, c a call.
PATHS = {
    "swe-agent/calls.json": "u tc r",
    "swe-agent/mini.json": "u t u",
    "swe-agent/responses.json": "u htc R u",
    "atif/trajectory.json": "ui htcc r r p s t",
    "atif/sub_agent.json": "u c r t",
    "continue/session.json": "p u htc r t",
    "kimi/wire.jsonl": "u p htc r u",
    "kimi/older.jsonl": "u tc r",
    "cline/api_conversation_history.json": "uu tc r u",
    "cline/ui_messages.json": "ui htc r t u",
    "cline/sdk.messages.json": "u hc r t",
    "opencode/session.json": "ui p htccc r R t",
    "antigravity/transcript.jsonl": "u p hc r t",
    "aider/history.md": "u u t u",
    "openhands/trajectory.json": "ui p tc r tc r t",
    "openhands/newer.json": "u htcc r R",
    "kiro/journal.jsonl": "u htcc r R",
    "kiro/editor.json": "u t",
    "droid/session.jsonl": "p u htc r",
    "amp/T-1.json": "u htc r",
    "qwen-code/session.jsonl": "u htc r t",
    "grok/updates.jsonl": "u htc r t",
    "goose/session.jsonl": "u tc r",
    "goose/export.json": "p",
}
LETTERS: dict[Any, str] = {il.TextBlock: "t", il.ThinkingBlock: "h", il.ToolCall: "c", il.ImageBlock: "i"}


def read(name: str) -> il.Conversation:
    (conversation,) = il.read(WIRE / name)
    return conversation


def letters(message: Any) -> str:
    blocks = [LETTERS[type(block)] for block in message.content] if isinstance(message.content, tuple) else ["t"]
    match message:
        case il.AssistantMessage():
            return "".join(blocks)
        case il.ToolResultMessage():
            return "R" if message.is_error else "r"
        case il.UserMessage():
            return "".join(blocks).replace("t", "u" if message.origin is None else "p")
    return "s"


@pytest.mark.parametrize("name", PATHS)
def test_a_session_has_the_messages_that_its_program_shows(name: str) -> None:
    """One answer per response of the model, results behind their calls, what the program put in marked as its own."""
    assert PATHS[name] == " ".join(map(letters, read(name).messages))


@pytest.mark.parametrize("name", PATHS)
@pytest.mark.parametrize("wire", ["anthropic-messages", "openai-completions"])
def test_every_answered_call_keeps_its_result_on_a_wire(name: str, wire: str) -> None:
    """A session can go on with another provider."""
    conversation = read(name)
    answered = sum(isinstance(message, il.ToolResultMessage) for message in conversation.messages)
    again = il.decode(il.encode(conversation, wire).body, wire)
    results = [message for message in again.messages if isinstance(message, il.ToolResultMessage)]
    assert answered == sum("No result was recorded" not in result.text for result in results)


@pytest.mark.parametrize(
    "value", [{"history": [{"role": "user"}], "sessionId": "s"}, {"steps": []}, [{"say": "text"}], {"messages": []}]
)
def test_a_look_alike_is_no_session(value: Any) -> None:
    """Each format is told from its own marks; what has none of them is not read as an empty session."""
    assert not [name for name in sorted({name.split("/")[0] for name in PATHS}) if holds(FORMATS[name].detect, value)]


@pytest.mark.parametrize("name", sorted({name.split("/")[0] for name in PATHS}))
def test_a_broken_file_is_refused_with_its_place(name: str) -> None:
    """One typed error."""
    with pytest.raises(BadWire) as refused:
        il.decode(17, name)
    assert refused.value.path.startswith("$")


# Usage is in disjoint buckets, and the output includes the reasoning.
TOTALS = {
    "swe-agent/calls.json": (120, 9, 0, 0),
    "atif/trajectory.json": (260, 40, 40, 0),
    "kimi/wire.jsonl": (10, 5, 3, 1),
    "opencode/session.json": (30, 10, 4, 1),
    "openhands/trajectory.json": (15, 3, 5, 0),
    "goose/session.jsonl": (60, 9, 0, 0),
}
ANSWERS = {
    "swe-agent/mini.json": (50, 7, 0, 0),
    "swe-agent/responses.json": (40, 12, 60, 0),
    "atif/trajectory.json": (60, 20, 40, 0),
    "continue/session.json": (60, 8, 30, 0),
    "kimi/older.jsonl": (4, 2, 0, 0),
    "cline/ui_messages.json": (20, 5, 7, 0),
    "openhands/trajectory.json": (15, 3, 5, 0),
    "amp/T-1.json": (4, 5, 6, 7),
    "qwen-code/session.jsonl": (450, 23, 50, 0),
}


def buckets(usage: il.Usage | None) -> tuple[int, ...]:
    assert usage is not None
    return usage.input, usage.output, usage.cache_read, usage.cache_write


@pytest.mark.parametrize("name", TOTALS)
def test_the_total_that_a_file_states_is_the_usage_of_the_conversation(name: str) -> None:
    """Whatever the answers say one by one."""
    assert TOTALS[name] == buckets(read(name).usage)


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_has_its_own_usage(name: str) -> None:
    """Cached parts are taken out of an input that includes them."""
    answer = next(message for message in read(name).messages if isinstance(message, il.AssistantMessage))
    assert ANSWERS[name] == buckets(answer.usage)


@pytest.mark.parametrize(
    "name",
    ["continue/session.json", "opencode/session.json", "droid/session.jsonl", "amp/T-1.json", "goose/session.jsonl"],
)
def test_a_session_has_its_title(name: str) -> None:
    """As the program lists it."""
    assert read(name).title == "Counting"


def test_what_was_taken_back_is_off_the_path_and_in_the_tree() -> None:
    """Kimi's undo takes back the last prompt and all after it."""
    conversation = read("kimi/wire.jsonl")
    texts = [getattr(entry.message, "text", "") for entry in conversation.entries]
    assert "Wrong!" in texts
    assert "Wrong!" not in [message.text for message in conversation.messages if isinstance(message, il.UserMessage)]


def test_a_sub_agent_is_a_thread_beside_the_path_that_names_its_call() -> None:
    """Of ATIF, where it stands in the same file."""
    entries = read("atif/sub_agent.json").entries
    (first,) = [entry for entry in entries if "~spawnedBy" in entry.extra.get("atif", {})]
    assert (first.parent_id, first.message.text) == (None, "Count them.")
    assert first.extra["atif"]["~spawnedBy"] == {"entry": "m1", "callId": "c1"}


def test_calls_that_share_an_id_stay_apart() -> None:
    """OpenHands uses ids again; each result answers its own call."""
    calls = [
        call.id
        for m in read("openhands/trajectory.json").messages
        if isinstance(m, il.AssistantMessage)
        for call in m.tool_calls
    ]
    assert calls == ["toolu_01", "toolu_01_2"]


CALL = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": '{"path":"main.ts"}'}}
HERMES = [
    {"role": "session_meta", "model": "m", "platform": "cli", "tools": []},
    {"role": "user", "content": "What is in the file?"},
    {"role": "assistant", "content": "", "tool_calls": [CALL]},
]


def test_the_template_of_a_session_is_made_when_it_is_looked_at() -> None:
    def fresh() -> il.Conversation:
        return il.decode("\n".join(map(json.dumps, HERMES)), "hermes")

    made = json.loads(il.dump(fresh()))["extra"]["hermes"]["~file"]
    assert made[0][1] == {"role": "user", "content": {"~": [0, 0, "text"]}}
    looks: list[Any] = [copy.copy, copy.deepcopy, lambda kept: pickle.loads(pickle.dumps(kept)), list, plain]
    assert all(look(fresh().extra["hermes"]["~file"]) == made for look in looks)
    kept = fresh().extra["hermes"]["~file"]
    assert (kept != made) is False and repr(kept) == repr(made)
    assert fresh() == fresh() == il.load(il.dump(fresh()))
    assert plain(fresh())["extra"]["hermes"]["~file"][0] == made[0]
    # An encoder that knows nothing of it writes the file, which is a template without holes.
    raw = il.load(msgspec.json.encode(fresh()))
    assert il.encode(raw, "hermes").body == HERMES


def test_what_was_changed_in_place_before_a_session_is_returned_is_in_it() -> None:
    conversation = il.decode("\n".join(map(json.dumps, HERMES)), "hermes")
    conversation.messages[1].tool_calls[0].arguments["path"] = "secret.ts"  # type: ignore[union-attr]
    function = il.encode(conversation, "hermes").body[2]["tool_calls"][0]["function"]
    assert function["arguments"] == '{"path":"secret.ts"}'


def test_a_message_that_was_added_is_refused() -> None:
    """Nothing says how the program would have written it."""
    conversation = read("amp/T-1.json")
    more = (*conversation.entries, il.Entry(message=il.UserMessage(content="More.")))
    with pytest.raises(Unsupported, match="read and returned"):
        il.encode(il.Conversation(entries=more, extra=conversation.extra), "amp")


# --- databases -------------------------------------------------------------------------------------------------------


def database(path: Path, *statements: str) -> Path:
    with sqlite3.connect(path) as connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()
    return path


def test_sessions_are_read_from_the_database_of_opencode(tmp_path: Path) -> None:
    """Its rows have the objects of an exported session."""
    path = database(
        tmp_path / "opencode.db",
        "CREATE TABLE session (id TEXT, project_id TEXT, parent_id TEXT, title TEXT, version TEXT, revert TEXT,"
        " time_created INTEGER, time_updated INTEGER)",
        "CREATE TABLE message (id TEXT, session_id TEXT, time_created INTEGER, data TEXT)",
        "CREATE TABLE part (id TEXT, message_id TEXT, session_id TEXT, time_created INTEGER, data TEXT)",
        "INSERT INTO session VALUES ('ses_1', 'p', NULL, 'Counting', '1', NULL, 1, 2),"
        " ('ses_2', 'p', 'ses_1', 'Sub', '1', NULL, 3, 4)",
        """INSERT INTO message VALUES ('m1', 'ses_1', 1, '{"role":"user","time":{"created":1784254006803}}'),
           ('m2', 'ses_1', 2, '{"role":"assistant","modelID":"glm-5","tokens":{"input":3,"output":2}}')""",
        """INSERT INTO part VALUES ('p1', 'm1', 'ses_1', 1, '{"type":"text","text":"How many?"}'),
           ('p2', 'm2', 'ses_1', 1, '{"type":"tool","tool":"bash","callID":"c1",
             "state":{"status":"completed","input":{},"output":"Twelve."}}')""",
    )
    first, second = il.read(path)
    assert (first.title, second.title) == ("Counting", "Sub")
    assert " ".join(map(letters, first.messages)) == "u c r"
    assert list(second.messages) == []


def test_sessions_of_version_2_are_read_from_the_database_of_opencode(tmp_path: Path) -> None:
    """They have messages in a table of their own, and the session counts its tokens."""
    answer = {
        "model": {"id": "glm-5", "providerID": "zai"},
        "tokens": {"input": 3, "output": 2, "reasoning": 1, "cache": {"read": 4, "write": 0}},
        "content": [
            {"type": "reasoning", "id": "r", "text": "Count."},
            {
                "type": "tool",
                "id": "c1",
                "name": "bash",
                "time": {"created": 1, "completed": 2},
                "state": {
                    "status": "completed",
                    "input": {"command": "ls"},
                    "structured": {},
                    "content": [{"type": "text", "text": "Twelve."}],
                },
            },
        ],
    }
    rows = {
        "user": {"text": "Old", "time": {"created": 1784254006803}},
        "compaction": {
            "reason": "auto",
            "summary": "Eggs were bought.\n\nRecent context:\nMilk too.",
            "kilo_summary": "Eggs were bought.",  # Kilo Code: the summary without what is in `recent`
            "recent": "Milk too.",
        },
        "shell": {"command": "pwd", "output": "/tmp", "callID": "s"},
        "model-switched": {"model": {"id": "glm-5", "providerID": "zai"}},
        "assistant": answer,
    }
    values = ", ".join(
        f"('{at}', 'ses_1', '{kind}', {at}, '{json.dumps(data)}')" for at, (kind, data) in enumerate(rows.items())
    )
    path = database(
        tmp_path / "opencode.db",
        "CREATE TABLE session (id TEXT, title TEXT, tokens_input INTEGER, tokens_output INTEGER,"
        " tokens_reasoning INTEGER, tokens_cache_read INTEGER, tokens_cache_write INTEGER, time_created INTEGER)",
        "CREATE TABLE message (id TEXT, session_id TEXT, time_created INTEGER, data TEXT)",
        "CREATE TABLE part (id TEXT, message_id TEXT, session_id TEXT, time_created INTEGER, data TEXT)",
        "CREATE TABLE session_message (id TEXT, session_id TEXT, type TEXT, seq INTEGER, data TEXT)",
        "INSERT INTO session VALUES ('ses_1', 'Counting', 30, 5, 2, 9, 1, 1)",
        f"INSERT INTO session_message VALUES {values}",
    )
    (conversation,) = il.read(path)
    assert outline(conversation) == [
        "program: Eggs were bought.\n\nMilk too.",
        "program: $ pwd\n/tmp",
        "assistant:  bash()",
        "bash -> Twelve.",
    ]
    usage = conversation.usage
    assert usage is not None and (usage.input, usage.output, usage.cache_read, usage.cache_write) == (30, 7, 9, 1)


def test_sessions_are_read_from_the_database_of_crush(tmp_path: Path) -> None:
    """The older program of the same name keeps results in messages of their own."""
    path = database(
        tmp_path / "crush.db",
        "CREATE TABLE sessions (id TEXT, parent_session_id TEXT, title TEXT, prompt_tokens INTEGER,"
        " completion_tokens INTEGER, created_at INTEGER)",
        "CREATE TABLE messages (id TEXT, session_id TEXT, role TEXT, parts TEXT, model TEXT, created_at INTEGER)",
        "INSERT INTO sessions VALUES ('s', NULL, 'Counting', 30, 5, 1)",
        """INSERT INTO messages VALUES
           ('1', 's', 'user', '[{"type":"text","data":{"text":"How many?"}}]', NULL, 1),
           ('2', 's', 'assistant', '[{"type":"reasoning","data":{"thinking":"Count."}},
             {"type":"tool_call","data":{"id":"c1","name":"ls","input":"{}"}}]', 'gpt-5', 2),
           ('3', 's', 'tool', '[{"type":"tool_result","data":{"tool_call_id":"c1","content":"Twelve."}}]', NULL, 3)""",
    )
    (conversation,) = il.read(path)
    assert " ".join(map(letters, conversation.messages)) == "u hc r"
    assert (conversation.title, conversation.usage) == ("Counting", None)  # the counters are of the last response
    assert buckets(conversation.messages[1].usage)[:2] == (30, 5)  # type: ignore[union-attr]


CRUSH = (
    "CREATE TABLE sessions (id TEXT PRIMARY KEY, parent_session_id TEXT, title TEXT, prompt_tokens INTEGER,"
    " completion_tokens INTEGER, created_at INTEGER, summary_message_id TEXT)",
    "CREATE TABLE messages (id TEXT PRIMARY KEY, session_id TEXT, role TEXT, parts TEXT, model TEXT, provider TEXT,"
    " created_at INTEGER)",
)


def test_messages_of_crush_in_one_second_keep_the_order_of_their_rows(tmp_path: Path) -> None:
    """Their times are whole seconds and their ids are random."""
    path = database(
        tmp_path / "crush.db",
        *CRUSH,
        "INSERT INTO sessions VALUES ('s', NULL, 'Sums', 0, 0, 1754104814, NULL)",
        """INSERT INTO messages VALUES
           ('9', 's', 'user', '[{"type":"text","data":{"text":"8 + 8"}}]', '', NULL, 1754104814),
           ('5', 's', 'assistant', '[{"type":"text","data":{"text":"16"}},{"type":"finish","data":{"reason":"error",
             "message":"Provider Error","details":"cut off"}}]', 'm-1', 'acme', 1754104814),
           ('7', 's', 'user', '[{"type":"shell_command","data":{"command":"date","output":"Monday","exit_code":0}}]',
             '', NULL, 1754104814),
           ('1', 's', 'assistant', '[{"type":"reasoning","data":{"thinking":"","signature":""}},
             {"type":"reasoning","data":{"thinking":"Look.","signature":"x=="}},
             {"type":"tool_call","data":{"id":"c","name":"view","input":"{}","finished":true}},
             {"type":"finish","data":{"reason":"canceled"}}]', 'm-1', 'acme', 1754104814),
           ('3', 's', 'tool', '[{"type":"tool_result","data":{"tool_call_id":"c","content":"Seen.","data":"AAAA",
             "mime_type":"image/png"}}]', '', 'acme', 1754104814)""",
    )
    (conversation,) = il.read(path)
    asked, failed, command, stopped, result = conversation.messages
    texts = [text_of(one.content) for one in (asked, failed, command)]
    assert texts == ["8 + 8", "16", "$ date\nMonday\n(exit code 0)"]
    assert (asked.origin, command.origin, asked.timestamp) == (None, "program", 1754104814000)
    assert (failed.provider, failed.model, failed.stop_reason) == ("acme", "m-1", "error")
    assert failed.error_message == "Provider Error: cut off"
    assert stopped.stop_reason == "aborted"
    assert [(b.thinking, b.thinking_signature) for b in stopped.content if b.type == "thinking"] == [("Look.", "x==")]
    assert [block.type for block in result.content] == ["text", "image"]


def test_a_session_of_crush_continues_from_its_summary(tmp_path: Path) -> None:
    """The model reads the summary as the user's; what it replaced stays in the tree."""
    path = database(
        tmp_path / "crush.db",
        *CRUSH,
        "INSERT INTO sessions VALUES ('s', NULL, 'Sums', 9, 2, 1754104814, 'c')",
        """INSERT INTO messages VALUES
           ('a', 's', 'user', '[{"type":"text","data":{"text":"8 + 8"}}]', '', NULL, 1754104814),
           ('b', 's', 'assistant', '[{"type":"text","data":{"text":"16"}}]', 'm-1', 'acme', 1754104815),
           ('c', 's', 'assistant', '[{"type":"text","data":{"text":"We added."}}]', 'm-1', 'acme', 1754104816),
           ('d', 's', 'user', '[{"type":"text","data":{"text":"And 9?"}}]', '', NULL, 1754104817),
           ('e', 's', 'assistant', '[{"type":"text","data":{"text":"25"}}]', 'm-1', 'acme', 1754104818)""",
    )
    (conversation,) = il.read(path)
    assert [text_of(message.content) for message in conversation.messages] == ["We added.", "And 9?", "25"]
    assert [getattr(message, "origin", None) for message in conversation.messages] == ["program", None, None]
    assert len(conversation.entries) == 5


def test_sessions_are_read_from_the_database_of_goose(tmp_path: Path) -> None:
    """Each as the program exports it."""
    path = database(
        tmp_path / "sessions.db",
        "CREATE TABLE sessions (id TEXT, description TEXT, working_dir TEXT, created_at TEXT, model_config_json TEXT,"
        " accumulated_input_tokens INTEGER, accumulated_output_tokens INTEGER)",
        "CREATE TABLE messages (id INTEGER, session_id TEXT, role TEXT, content_json TEXT, created_timestamp INTEGER,"
        " metadata_json TEXT)",
        """INSERT INTO sessions VALUES ('1', 'Counting', '/w', '2025', '{"model_name":"gpt-5"}', 60, 9)""",
        """INSERT INTO messages VALUES (1, '1', 'user', '[{"type":"text","text":"How many?"}]', 1740000000, '{}'),
           (2, '1', 'assistant', '[{"type":"text","text":"Twelve."}]', 1740000001, NULL)""",
    )
    (conversation,) = il.read(path)
    assert " ".join(map(letters, conversation.messages)) == "u t"
    assert (conversation.title, conversation.model.id) == ("Counting", "gpt-5")  # type: ignore[union-attr]


def test_a_history_of_aider_holds_a_conversation_for_each_start() -> None:
    """And each returns to its own text."""
    text = (WIRE / "aider/history.md").read_text()
    both = text + text.replace("19:33", "20:44")
    first, second = il.read(both.encode())
    assert il.encode(first, "aider").body + il.encode(second, "aider").body == both


def test_an_empty_line_of_the_user_is_no_message_in_a_history_of_aider() -> None:
    """The program notes it, and sends nothing."""
    text = "# aider chat started at 2025-01-01 10:00:00\n\n#### <blank>  \n\n#### Count  \n\nTwelve.\n"
    (conversation,) = il.read(text.encode())
    assert ["Count", "Twelve."] == [message.text for message in conversation.messages]
    assert conversation.messages[0].timestamp == 1735725600000
    assert il.encode(conversation, "aider").body == text


def test_an_edit_is_part_of_the_answer_in_a_history_of_aider() -> None:
    """It ends in `>>>>>>> REPLACE`, which is no line of the program's; nor is a small heading the user's."""
    answer = "a.py\n```\n<<<<<<< SEARCH\n1\n=======\n2\n>>>>>>> REPLACE\n```\n##### Done\n\nThat is all."
    text = f"# aider chat started at 2025-01-01 10:00:00\n\n#### Edit\n####\n\n{answer}\n\n> Applied edit to a.py\n>\n"
    (conversation,) = il.read(text.encode())
    assert [text_of(message.content) for message in conversation.messages] == ["Edit\n", answer]
    assert il.encode(conversation, "aider").body == text


def test_every_agent_format_is_registered() -> None:
    """Under the name that its samples have."""
    assert {name.split("/")[0] for name in PATHS} <= FORMATS.keys()


def test_cached_tokens_of_mini_swe_agent_are_no_input_and_calls_have_their_cost() -> None:
    """The provider's own response is beside an answer; its prompt includes what was cached."""
    counted = {"prompt_tokens": 50, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 30}}
    about = {"response": {"model": "m", "usage": counted}, "cost": 0.5}
    messages = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Yes", "reasoning": "Hm", "extra": about},
    ]
    found = il.decode({"trajectory_format": "mini-swe-agent-1.1", "messages": messages}, "swe-agent")
    answer = found.messages[1]
    assert buckets(answer.usage) == (20, 7, 30, 0)
    assert (answer.usage.cost.total, answer.thinking, answer.text) == (0.5, "Hm", "Yes")


def test_a_run_of_swe_agent_names_its_model_in_text_and_the_chosen_attempt_has_its_own_total() -> None:
    """The statistics outside are those of all attempts."""
    history = [{"role": "user", "content": "Hi", "agent": "main"}]
    stats = {"tokens_sent": 10, "tokens_received": 2, "instance_cost": 0.5}
    attempts = [{"info": {"model_stats": {**stats, "tokens_sent": 90}}}, {"info": {"model_stats": stats}}]
    document = {
        "attempts": attempts,
        "trajectory": [],
        "history": history,
        "info": {"best_attempt_idx": 1, "model_stats": {**stats, "tokens_sent": 100}},
        "replay_config": json.dumps({"agent": {"model": {"name": "gpt-5"}}}),
    }
    found = il.decode(document)
    assert (buckets(found.usage), found.usage.cost.total, found.model.id) == ((10, 2, 0, 0), 0.5, "gpt-5")


def test_the_model_of_aider_changes_within_a_session() -> None:
    """It is announced again."""
    announced = "#### /model gpt-5  \n> Aider v0.86.0  \n> Main model: gpt-5 with diff edit format  \n"
    text = f"{(WIRE / 'aider/history.md').read_text()}\n{announced}\n#### Go on  \n\nI do.\n\n"
    answers = [one for one in il.decode(text, "aider").messages if isinstance(one, il.AssistantMessage)]
    assert answers[-1].model == "gpt-5" != answers[0].model
