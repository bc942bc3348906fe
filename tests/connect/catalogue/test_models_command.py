"""`interlingua models`, run as a user would."""

import os
from pathlib import Path

from cli.running import Outcome, run

FILE = """\
[[providers.ollama.models]]
id = "tiny"
cost = { input = 0, output = 0.5, tiers = [{ above = 1000, output = 1 }] }

[[providers.ollama.models]]
id = "other"
"""


def models(home: Path, *arguments: str) -> Outcome:
    (home / "models.toml").write_text(FILE)
    return run("models", *arguments, env={**os.environ, "INTERLINGUA_HOME": str(home)})


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
    """On standard error, with nothing on standard output; for programs it is an empty list."""
    outcome = models(tmp_path, "no-such-model")
    assert (0, "", "no model matches\n") == (outcome.code, outcome.out, outcome.err)
    assert [] == models(tmp_path, "no-such-model", "--json").json


def test_an_unknown_provider_is_an_error(tmp_path: Path) -> None:
    """One line that names the providers there are."""
    outcome = models(tmp_path, "--provider", "nobody")
    assert 1 == outcome.code
    assert outcome.err.startswith("interlingua: unknown provider 'nobody'; valid providers: anthropic, ")


def test_a_mistake_in_the_file_is_one_line(tmp_path: Path) -> None:
    """No traceback, but the place."""
    (tmp_path / "models.toml").write_text("[aliases]\nx = 1\n")
    outcome = run("models", env={**os.environ, "INTERLINGUA_HOME": str(tmp_path)})
    assert 1 == outcome.code
    assert "models.toml: line 2: Expected `str`, got `int`" in outcome.err
    assert 1 == len(outcome.err.splitlines())
