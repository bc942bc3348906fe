"""Token counts: by tiktoken's encodings and by files, of the texts that a model reads."""

import base64
import hashlib
import itertools
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

import interlingua as il
from cli.running import run
from interlingua.cli.formats import stats_command as stats
from interlingua.conversion import large_sessions
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
    path.write_bytes(rank_lines(BYTES))
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


def rank_lines(ranks: Iterable[tuple[bytes, int]]) -> bytes:
    return b"".join(base64.b64encode(token) + f" {rank}\n".encode() for token, rank in ranks)


BYTES = [(bytes([n]), n) for n in range(256)]


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("tokenizer.json", b"[]", "not a tokenizer.json"),
        ("tokenizer.json", bytes(range(256)), "not a tokenizer.json"),
        ("ranks.tiktoken", b"nothing\nhere", "line 1 is not a token in base64 and its rank"),
        ("ranks.tiktoken", bytes(range(256)), "line 1 is not a token"),
        ("ranks.tiktoken", b"", "256 of the 256 bytes have no rank"),
        ("ranks.tiktoken", rank_lines(BYTES[:100]), "156 of the 256 bytes have no rank"),
        ("ranks.tiktoken", rank_lines([*BYTES, (b"ab", 5)]), "two tokens have the same rank"),
        ("ranks.tiktoken", rank_lines([*BYTES, (b"ab", 1 << 70)]), "OverflowError"),
    ],
)
def test_a_file_that_is_no_tokenizer_is_refused(tmp_path: Path, name: str, data: bytes, reason: str) -> None:
    """Of either kind, in one line; the libraries panic at some of them."""
    pytest.importorskip("tokenizers" if name.endswith(".json") else "tiktoken")
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(il.InterlinguaError, match=reason) as raised:
        counter(str(path))("héllo")
    assert repr(str(path)) in str(raised.value) and "\n" not in str(raised.value)


def test_stats_name_a_file_that_is_no_tokenizer(tmp_path: Path) -> None:
    """In one line, before anything is counted."""
    pytest.importorskip("tiktoken", reason="NOT TESTED: tiktoken is not installed")
    path = tmp_path / "part.tiktoken"
    path.write_bytes(rank_lines(BYTES[:100]))
    done = run("stats", path, "--tokenizer", path)
    assert (1, "") == (done.code, done.out)
    assert [f"interlingua: tokenizer {str(path)!r}: 156 of the 256 bytes have no rank; give a complete file"] == (
        done.err.splitlines()
    )


def test_a_file_of_ranks_is_read_anew(tmp_path: Path) -> None:
    """tiktoken remembers a file by its path."""
    pytest.importorskip("tiktoken", reason="NOT TESTED: tiktoken is not installed")
    path = tmp_path / "own.tiktoken"
    path.write_bytes(rank_lines(BYTES))
    assert 2 == counter(str(path))("ab")
    path.write_bytes(rank_lines([*BYTES, (b"ab", 256)]))
    assert 1 == counter(str(path))("ab")


def test_a_tokenizer_without_a_token_for_unknown_words_is_refused(tmp_path: Path) -> None:
    """When it meets one, as a problem of the file."""
    tokenizers = pytest.importorskip("tokenizers", reason="NOT TESTED: tokenizers is not installed")
    path = tmp_path / "tokenizer.json"
    tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0}, unk_token="[UNK]")).save(str(path))
    with pytest.raises(il.InterlinguaError, match="UNK"):
        counter(str(path))("b")


def test_stats_count_with_a_tokenizer_of_hugging_face(tokenizer_file: Path, tmp_path: Path) -> None:
    """Words, by this one."""
    path = tmp_path / "row.json"
    path.write_text(json.dumps({"messages": [{"role": "user", "content": "one two three"}]}))
    assert 3 == run("stats", path, "--tokenizer", tokenizer_file, "--json").json["tokenizer"]["total"]


@pytest.mark.parametrize("name", ["o200k_base", "gpt-4o", "cl100k_base"])
def test_an_encoding_of_tiktoken_needs_its_cache_or_the_network(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without both, one line says what else to give."""
    tiktoken = pytest.importorskip("tiktoken", reason="NOT TESTED: tiktoken is not installed")
    monkeypatch.setattr(tiktoken.registry, "ENCODINGS", {})
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    for proxy in ("HTTPS_PROXY", "https_proxy"):
        monkeypatch.setenv(proxy, "http://127.0.0.1:9")  # nothing listens there
    with pytest.raises(il.InterlinguaError, match=f"tokenizer '{name}': its ranks are not on this machine.*CACHE_DIR"):
        counter(name)


def test_an_encoding_is_read_from_the_cache_of_tiktoken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its name, without the network: of a package that extends tiktoken, and whose ranks are in the cache."""
    tiktoken = pytest.importorskip("tiktoken", reason="NOT TESTED: tiktoken is not installed")
    address = "https://127.0.0.1:9/own.tiktoken"
    cached = tmp_path / hashlib.sha1(address.encode()).hexdigest()
    cached.write_bytes(rank_lines([*BYTES, (b"ab", 256)]))
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))

    def own() -> dict[str, Any]:
        ranks = tiktoken.load.load_tiktoken_bpe(address, hashlib.sha256(cached.read_bytes()).hexdigest())
        return {"name": "own", "pat_str": r"\S+|\s+", "mergeable_ranks": ranks, "special_tokens": {}}

    tiktoken.list_encoding_names()
    monkeypatch.setitem(tiktoken.registry.ENCODING_CONSTRUCTORS, "own", own)
    monkeypatch.setattr(tiktoken.registry, "ENCODINGS", {})
    path = tmp_path / "row.json"
    path.write_text(json.dumps({"messages": [{"role": "user", "content": "abab a"}]}))
    done = CliRunner().invoke(stats, [str(path), "--tokenizer", "own", "--json"])
    assert 4 == json.loads(done.stdout)["tokenizer"]["total"]


@pytest.mark.parametrize(("name", "package"), [("o200k_base", "tiktoken"), ("tokenizer.json", "tokenizers")])
def test_a_missing_package_is_named_with_the_extra_that_has_it(
    name: str, package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is counted."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(il.InterlinguaError, match=rf"{package} is missing; install interlingua\[tokens\]"):
        counter(name)


@pytest.mark.parametrize("options", [[], ["--json"]], ids=" ".join)
def test_a_large_session_is_counted_entry_by_entry(
    ranks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    """With the tokens of its path, as in memory."""
    path = tmp_path / "s.jsonl"
    entries = [replace(entry, id=f"e{at}") for at, entry in enumerate(CONVERSATION.entries)]
    linked = [replace(one, parent_id=before.id) for before, one in itertools.pairwise(entries)]
    branch = il.Entry(message=il.UserMessage("other"), id="x", parent_id="e0")
    tree = replace(CONVERSATION, entries=(entries[0], branch, *linked), head="e2")
    path.write_bytes(il.encode(tree, "transcript").bytes())
    given = [str(path), "--tokenizer", str(ranks), *options]
    whole = CliRunner().invoke(stats, given)
    monkeypatch.setattr(large_sessions, "LARGE", 1)
    monkeypatch.setattr(il.Conversation, "path", None)  # the conversation is not made
    streamed = CliRunner().invoke(stats, given)
    assert (whole.stdout, 0) == (streamed.stdout, streamed.exit_code) and whole.stdout


def test_stats_say_how_many_tokens_conversations_have(ranks: Path, tmp_path: Path) -> None:
    """In all, and how they are spread."""
    path = tmp_path / "rows.jsonl"
    rows = [{"messages": [{"role": "user", "content": "x" * n}]} for n in (1, 5, 3)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = run("stats", path, "--tokenizer", ranks, "--json")
    assert {"name": str(ranks), "total": 9, "min": 1, "median": 3, "p95": 5, "max": 5} == done.json["tokenizer"]
    assert "9 tokens; a conversation has 1 to 5, median 3" in run("stats", path, "--tokenizer", ranks).out
