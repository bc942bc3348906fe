"""Token counts: by tiktoken's encodings and by files, of the texts that a model reads."""

import base64
import json
from pathlib import Path

import pytest

import interlingua as il
from cli.running import run
from interlingua.conversion.tokenizing import counter, tokens

CALL = il.ToolCall(id="c", name="read", arguments={"path": "a"})
CONVERSATION = il.Conversation(
    system="Be brief.",
    entries=tuple(
        il.Entry(message=message)
        for message in (
            il.UserMessage("one two"),
            il.AssistantMessage([il.ThinkingBlock(thinking="three"), il.TextBlock(text="four"), CALL]),
            il.ToolResultMessage("five six", tool_call_id="c"),
        )
    ),
)


@pytest.fixture
def ranks(tmp_path: Path) -> Path:
    """A file of ranks in which every byte is a token."""
    pytest.importorskip("tiktoken", reason="NOT TESTED: tiktoken is not installed")
    path = tmp_path / "bytes.tiktoken"
    path.write_bytes(b"".join(base64.b64encode(bytes([n])) + f" {n}\n".encode() for n in range(256)))
    return path


@pytest.fixture
def tokenizer_file(tmp_path: Path) -> Path:
    """A `tokenizer.json` in which every word is a token."""
    tokenizers = pytest.importorskip("tokenizers", reason="NOT TESTED: tokenizers is not installed")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    tokenizer.enable_truncation(2)
    path = tmp_path / "tokenizer.json"
    tokenizer.save(str(path))
    return path


def test_texts_thinking_calls_results_and_the_system_text_are_counted(ranks: Path) -> None:
    """Each text by itself, a call as its name and its arguments."""
    texts = ("Be brief.", "one two", "three", "four", 'read{"path":"a"}', "five six")
    assert sum(map(len, texts)) == tokens(CONVERSATION, counter(str(ranks)))


def test_a_tokenizer_of_hugging_face_counts_whole_texts(tokenizer_file: Path) -> None:
    """Whatever the file says about cutting them."""
    assert 4 == counter(str(tokenizer_file))("one two three four")


@pytest.mark.parametrize("name", ["missing.json", "missing.tiktoken", "no-such-encoding"])
def test_an_unknown_tokenizer_is_refused_with_what_is_valid(name: str) -> None:
    """As one typed error, and nothing is counted."""
    with pytest.raises(il.InterlinguaError, match=name):
        counter(name)


def test_a_file_that_is_no_tokenizer_is_refused(tmp_path: Path) -> None:
    """Of either kind."""
    for name, data in (("tokenizer.json", b"[]"), ("ranks.tiktoken", b"nothing\nhere")):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(il.InterlinguaError, match="tokenizer"):
            counter(str(tmp_path / name))


def test_stats_say_how_many_tokens_conversations_have(ranks: Path, tmp_path: Path) -> None:
    """In all, and how they are spread."""
    path = tmp_path / "rows.jsonl"
    rows = [{"messages": [{"role": "user", "content": "x" * n}]} for n in (1, 5, 3)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = run("stats", path, "--tokenizer", ranks, "--json")
    assert {"name": str(ranks), "total": 9, "min": 1, "median": 3, "p95": 5, "max": 5} == done.json["tokenizer"]
    assert "9 tokens; a conversation has 1 to 5, median 3" in run("stats", path, "--tokenizer", ranks).out
