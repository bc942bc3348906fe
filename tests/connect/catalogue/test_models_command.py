"""`interlingua models`, run as a user would."""

import contextlib
import json
import os
import tempfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import interlingua as il
from cli.running import Outcome, run
from interlingua.connect.models import load_overrides, set_alias

FILE = """\
[[providers.ollama.models]]
id = "tiny"
cost = { input = 0, output = 0.5, tiers = [{ above = 1000, output = 1 }] }

[[providers.ollama.models]]
id = "other"
"""


NOWHERE = "http://127.0.0.1:9"


def models(home: Path, *arguments: str, **more: str) -> Outcome:
    (home / "models.toml").write_text(FILE)
    return run("models", *arguments, env={**os.environ, "OLLAMA_HOST": NOWHERE, "INTERLINGUA_HOME": str(home), **more})


def test_a_table_shows_what_is_known(tmp_path: Path) -> None:
    """One line a model, with a question mark for what is not known."""
    lines = models(tmp_path, "--provider", "ollama").out.splitlines()
    assert ["model", "context", "output", "inputs", "reasoning", "$in", "$out", "$read", "$write"] == lines[0].split()
    assert ["ollama/other", *"????????"] == lines[1].split()
    assert ["ollama/tiny", "?", "?", "?", "?", "0", "0.5+", "?", "?"] == lines[2].split()


def test_a_filter_of_several_words(tmp_path: Path) -> None:
    """All must be in the provider, id or name; limits and levels of a known model are shown."""
    lines = models(tmp_path, "anthropic", "opus-4-6").out.splitlines()
    (line,) = [line for line in lines if line.split()[0] == "anthropic/claude-opus-4-6"]
    assert "1,000,000  128,000  text image document  low to max" in line
    assert all("opus-4-6" in line for line in lines[1:])


def test_programs_get_json(tmp_path: Path) -> None:
    """Unknown is null; prices have their steps."""
    other, tiny = models(tmp_path, "--json", "-p", "ollama").json
    assert ("other", None, None, None) == (other["id"], other["cost"], other["contextWindow"], other["input"])
    assert [{"above": 0, "price": 0.5}, {"above": 1000, "price": 1}] == tiny["cost"]["output"]


def test_no_match_is_said(tmp_path: Path) -> None:
    """On standard error, with what may be meant and exit code 1; for programs it is an empty list."""
    outcome = models(tmp_path, "no-such-thing")
    assert (1, "") == (outcome.code, outcome.out)
    assert "unknown model 'no-such-thing'; " in outcome.err
    assert "did you mean 'claude-sonnet" in models(tmp_path, "claude-sonet").err
    assert "did you mean 'gpt-4o" in models(tmp_path, "-p", "openai", "gpt-4oo").err
    assert (1, []) == ((done := models(tmp_path, "no-such-thing", "--json")).code, done.json)


def test_an_unknown_provider_is_an_error(tmp_path: Path) -> None:
    """One line that names the providers there are."""
    outcome = models(tmp_path, "--provider", "nobody")
    assert 1 == outcome.code
    assert outcome.err.startswith("interlingua: unknown provider 'nobody'; valid providers: amazon-bedrock, ")
    assert "did you mean 'ollama'" in models(tmp_path, "-p", "olama").err


def test_the_provider_of_a_plugin_is_known(tmp_path: Path) -> None:
    """With its models, as they are known to `run`."""
    folder = tmp_path / "plugins" / "spare"
    folder.mkdir(parents=True)
    (folder / "interlingua.plugin.json").write_text('{"id": "spare"}')
    (folder / "plugin.py").write_text(
        "def register(api):\n"
        "    models = [{'id': 'spare-1', 'provider': 'spare', 'api': 'spare'}]\n"
        "    stream = lambda model, context: iter(())\n"
        "    about = {'id': 'spare', 'provider': 'spare', 'api': 'spare'}\n"
        "    api.register_connector({**about, 'models': models, 'stream': stream})\n"
    )
    assert "spare/spare-1" in models(tmp_path, "-p", "spare").out
    assert "spare/spare-1" in models(tmp_path, "--all", "spare").out
    assert "did you mean 'spare'" in models(tmp_path, "-p", "spar").err


def test_a_mistake_in_the_file_is_one_line(tmp_path: Path) -> None:
    """No traceback, but the place."""
    (tmp_path / "models.toml").write_text("[aliases]\nx = 1\n")
    outcome = run("models", env={**os.environ, "INTERLINGUA_HOME": str(tmp_path)})
    assert 1 == outcome.code
    assert "models.toml: line 2: Expected `str`, got `int`" in outcome.err
    assert 1 == len(outcome.err.splitlines())


def test_the_chat_models_of_providers_with_a_key_are_listed(tmp_path: Path) -> None:
    """Without a filter no others; `--all` has the rest, and a filter finds what there is no key for."""
    keyed = {"ANTHROPIC_API_KEY": "sk-x"}
    shown = models(tmp_path, "--json", **keyed).json
    assert {"anthropic", "ollama"} == {one["provider"] for one in shown}
    everything = models(tmp_path, "--json", "--all", **keyed).json
    assert {"openai", "google", "debug"} < {one["provider"] for one in everything}
    assert "whisper-1" in {one["id"] for one in everything} and len(everything) > 10 * len(shown)
    assert "whisper-1" not in {one["id"] for one in models(tmp_path, "--json", "-p", "openai", **keyed).json}
    found = models(tmp_path, "gemini", **keyed)
    assert "google/gemini-" in found.out and "no key is found for these" in found.err


def test_without_any_key_the_offline_models_are_listed_with_what_to_do(tmp_path: Path) -> None:
    """A first look must not be empty."""
    outcome = run("models", env={**os.environ, "INTERLINGUA_HOME": str(tmp_path)})
    assert outcome.out.splitlines()[1].startswith("debug/")
    assert "interlingua auth login PROVIDER" in outcome.err and "--all" in outcome.err


@pytest.mark.parametrize(
    ("provider", "api", "variable"),
    [
        ("ollama", "ollama-chat", "OLLAMA_HOST"),
        ("openai", "openai-responses", "OPENAI_BASE_URL"),
        ("anthropic", "anthropic-messages", "ANTHROPIC_BASE_URL"),
    ],
    ids=["ollama", "openai", "anthropic"],
)
def test_a_provider_is_asked_what_it_serves(tmp_path: Path, provider: str, api: str, variable: str) -> None:
    """With `--live`, and a local server always; what the catalogue knows is added."""
    pages = {
        "ollama": [{"models": [{"name": "llama3.2:3b"}, {"name": "nomic-embed-text"}]}],
        "openai": [{"data": [{"id": "gpt-4o"}, {"id": "gpt-of-tomorrow"}, {"id": "text-embedding-3"}]}],
        "anthropic": [
            {"data": [{"id": "claude-opus-4-6"}], "has_more": True, "last_id": "claude-opus-4-6"},
            {"data": [{"id": "claude-next", "display_name": "Next"}], "has_more": False},
        ],
    }[provider]
    with listing(pages) as server:
        options = () if provider == "ollama" else ("--live",)
        env = {variable: server, "OPENAI_API_KEY": "sk-x", "ANTHROPIC_API_KEY": "sk-x"}
        outcome = run(
            "models", "-p", provider, "--json", *options, env={**os.environ, "INTERLINGUA_HOME": str(tmp_path), **env}
        )
    found = {one["id"]: one["contextWindow"] for one in outcome.json}
    expected = {
        "ollama": ["llama3.2:3b"],
        "openai": ["gpt-4o", "gpt-of-tomorrow"],
        "anthropic": ["claude-next", "claude-opus-4-6"],
    }
    assert expected[provider] == list(found)
    assert found.get("claude-opus-4-6", 1_000_000) == 1_000_000


@pytest.mark.parametrize(
    ("page", "says"),
    [(b"<html>", "not JSON"), (b'{"error": 1}', ""), (b'{"data": 1}', "neither data nor models"), (b"[[1], null]", "")],
    ids=["html", "other", "number", "rows"],
)
def test_a_list_that_is_none_is_one_line(tmp_path: Path, page: bytes, says: str) -> None:
    """Whatever a server says, no traceback."""
    with listing([page]) as server:
        outcome = run(
            "models", "-p", "ollama", env={**os.environ, "INTERLINGUA_HOME": str(tmp_path), "OLLAMA_HOST": server}
        )
    assert "Traceback" not in outcome.err and says in outcome.err and 1 == len(outcome.err.splitlines())


def test_a_local_server_that_is_not_running_is_asked_about(tmp_path: Path) -> None:
    """An error, unless models of it are listed in models.toml."""
    assert 0 == models(tmp_path, "-p", "ollama").code
    (tmp_path / "models.toml").unlink()
    outcome = run(
        "models", "-p", "ollama", env={**os.environ, "INTERLINGUA_HOME": str(tmp_path), "OLLAMA_HOST": NOWHERE}
    )
    assert (1, "") == (outcome.code, outcome.out)
    assert "no connection to Ollama at http://127.0.0.1:9; is it running?" in outcome.err


@contextlib.contextmanager
def listing(pages: list[Any]) -> Iterator[str]:
    """A server that answers every GET with the next page."""
    waiting = iter(pages)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            page = next(waiting)
            body = page if isinstance(page, bytes) else json.dumps(page).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


# --- the default and the aliases --------------------------------------------------------------------------------------


def test_the_default_model_is_shown_set_used_and_removed(tmp_path: Path) -> None:
    """By any name that means a model; the file keeps everything else."""
    env = {**os.environ, "INTERLINGUA_HOME": str(tmp_path)}
    (tmp_path / "models.toml").write_text("# mine\n" + FILE)
    failed = run("models", "default", env=env)
    assert 1 == failed.code and "interlingua models default MODEL" in failed.err
    assert 1 == run("models", "default", "parot-1", env=env).code
    assert "default: debug/parrot-1\n" == run("models", "default", "parrot-1", env=env).out
    assert "debug/parrot-1\n" == run("models", "default", env=env).out
    assert "hello\n" == run("run", "-q", "hello", given=b"", env=env).out
    assert 0 == run("models", "default", "debug/echo", env=env).code
    assert 0 == run("models", "default", "--remove", env=env).code
    kept = (tmp_path / "models.toml").read_text()
    assert kept.startswith("[aliases]") and kept.endswith("# mine\n" + FILE)


def test_aliases_are_listed_set_and_removed(tmp_path: Path) -> None:
    """With the families that need no alias; a wrong name is an error that suggests the right one."""
    env = {**os.environ, "INTERLINGUA_HOME": str(tmp_path)}
    assert 0 == run("models", "aliases", "set", "my model", "debug/parrot-1", env=env).code
    found = run("models", "aliases", "--json", env=env).json
    assert {"my model": "debug/parrot-1"} == found["aliases"]
    assert found["families"]["sonnet"].startswith("anthropic/claude-sonnet-")
    assert "hi\n" == run("run", "-q", "-m", "my model", "hi", given=b"", env=env).out
    wrong = run("models", "aliases", "remove", "my modl", env=env)
    assert 1 == wrong.code and "did you mean 'my model'" in wrong.err
    assert 0 == run("models", "aliases", "remove", "my model", env=env).code
    assert {} == run("models", "aliases", "--json", env=env).json["aliases"]
    assert 1 == run("models", "aliases", "set", "a/b", "debug/parrot-1", env=env).code


NAMES = st.text(min_size=1, max_size=12).filter(lambda text: "/" not in text and text.strip())


@given(st.lists(st.tuples(NAMES, st.one_of(st.none(), NAMES)), max_size=6), st.sampled_from(["", "# note\n", FILE]))
def test_aliases_of_any_name_survive_in_a_file_of_any_form(changes: list[tuple[str, str | None]], text: str) -> None:
    """What is set is read back, what is removed is gone, and the rest of the file is still there."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "models.toml"
        path.write_text(text)
        expected: dict[str, str] = {}
        for name, target in changes:
            value = None if target is None else f"debug/{target}"
            set_alias(name, value, path)
            expected = {key: kept for key, kept in (expected | {name: value}).items() if kept is not None}
            assert expected == load_overrides(path).aliases
        assert text.strip() in path.read_text()


def test_an_inline_table_of_aliases_is_left_alone(tmp_path: Path) -> None:
    """A file that is written otherwise is not broken: the error says to edit it."""
    path = tmp_path / "models.toml"
    path.write_text('aliases = { a = "debug/echo" }\n')
    with pytest.raises(il.FormatError, match="edit the file by hand"):
        set_alias("b", "debug/echo", path)
    assert path.read_text() == 'aliases = { a = "debug/echo" }\n'
