"""Templates: parameters, joining, files; and the runs that use them."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.running import run
from interlingua.cli import templates
from interlingua.cli.templates import Template
from interlingua.values.errors import FormatError, InterlinguaError

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("INTERLINGUA_HOME", str(tmp_path))
    return tmp_path


def test_parameters_and_the_input_take_their_places() -> None:
    """`$$` is a dollar sign, and what is no name stays as it is."""
    template = Template(
        prompt="To ${language}, for $5 or $$x: $input", system="You are $who.", defaults={"who": "kind"}
    )
    filled = template.filled({"language": "French"}, "Hello")
    assert ("To French, for $5 or $x: Hello", "You are kind.") == (filled.prompt, filled.system)
    assert ["language", "who"] == template.parameters


def test_an_input_that_a_template_does_not_mention_follows_it() -> None:
    """As llm has it; a template of a system prompt alone takes it as the prompt."""
    assert "Summarize:\n\ntext" == Template(prompt="Summarize:").filled({}, "text").prompt
    assert "text" == Template(system="Be brief.").filled({}, "text").prompt


@pytest.mark.parametrize("given", [{}, {"language": "French", "langage": "German"}], ids=["missing", "unknown"])
def test_a_missing_or_unknown_parameter_is_an_error(given: dict[str, str]) -> None:
    """Nothing is sent with a hole in it."""
    with pytest.raises(FormatError, match="lang"):
        Template(prompt="To $language: $input").filled(given, "Hello")


def test_values_are_not_read_for_parameters_again() -> None:
    """What the user says is data."""
    assert "a $b" == Template(prompt="a $x").filled({"x": "$b"}, "").prompt


@given(
    st.builds(
        Template,
        prompt=st.none() | TEXTS.filter(bool),
        system=st.none() | TEXTS.filter(bool),
        tools=st.lists(TEXTS, max_size=2).map(tuple),
        schema=st.none() | TEXTS.filter(bool) | st.dictionaries(TEXTS, TEXTS, min_size=1, max_size=2),
        options=st.dictionaries(TEXTS, st.integers(-9, 9) | st.floats(-1, 1) | TEXTS | st.booleans(), max_size=3),
        extract=st.booleans(),
    )
)
def test_what_is_written_reads_the_same(template: Template) -> None:
    """Any text: quotes, line ends, control characters."""
    import msgspec

    assert template == templates.read(templates._toml(msgspec.to_builtins(template)), "x")


def test_a_file_that_is_no_template_says_what_one_has(home: Path) -> None:
    """And a misspelt name what it may be."""
    (home / "templates").mkdir()
    (home / "templates" / "bad.toml").write_text('promt = "x"')
    (home / "templates" / "summary.toml").write_text('prompt = "x"')
    with pytest.raises(InterlinguaError, match=r"promt.*system_fragments"):
        templates.load("bad")
    with pytest.raises(InterlinguaError, match="'summary'"):
        templates.load("sumary")
    with pytest.raises(InterlinguaError, match="invalid"):
        templates.load("../../etc/x")


def test_a_run_is_saved_as_a_template_used_and_overridden(home: Path) -> None:
    """Model, system prompt, options and tools come from the template, unless they are given."""
    saved = run(
        *("run", "Say $word to: $input", "-m", "debug/parrot-1", "-s", "Be kind.", "-o", "temperature", "0.5"),
        *("--save-template", "greet"),
        given=b"",
    )
    assert (0, "") == (saved.code, saved.out), saved.err
    listed = run("templates", "list", "--json").json
    assert [("greet", ["word"], {"temperature": 0.5})] == [(t["name"], t["parameters"], t["options"]) for t in listed]
    used = run("run", "-q", "-t", "greet", "-p", "word", "hello", "Ann", given=b"")
    assert (0, "Say hello to: Ann\n") == (used.code, used.out)
    over = run("run", "-q", "-t", "greet", "-p", "word", "hello", "-m", "debug/upper-parrot-1", given=b"Ann")
    assert (0, "SAY HELLO TO: ANN\n") == (over.code, over.out)
    (latest, *_) = run("logs", "list", "--json").json
    shown = json.loads(run("logs", "show", latest["id"], "--json").out)
    assert "Be kind." == shown["systemPrompt"]
    assert 0 == run("templates", "delete", "greet").code and 1 == run("templates", "show", "greet").code


def test_a_key_is_not_saved_in_a_template(home: Path) -> None:
    """Templates are shared."""
    done = run("run", "Hi", "--key", "secret", "--save-template", "x", given=b"")
    assert 1 == done.code and "auth login" in done.err and not (home / "templates").exists()
