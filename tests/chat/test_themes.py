"""Themes: which colours there are, where they come from, and what wins over them."""

import os
import re
from pathlib import Path

import pytest
from rich.color import Color
from rich.text import Text

from chat.talking import Talk, talking
from cli.running import on_terminal, run
from interlingua.chat import rendering, themes
from interlingua.chat.screen import drawn
from interlingua.chat.themes import DARK, THEMES, usual_theme
from interlingua.values.errors import FormatError

CODE = "**strong** `inline`\n\n# Head\n\n> quote\n\n```python\ndef f(): return 'x' + 1  # why\n```\n\n[a](http://b.example)"


@pytest.fixture(autouse=True)
def coloured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A terminal of 256 colours, and no wishes."""
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("INTERLINGUA_HOME", str(tmp_path / "home"))
    for name in ("NO_COLOR", "COLORTERM", "FORCE_COLOR", themes.VARIABLE):
        monkeypatch.delenv(name, raising=False)


def everything(theme: str) -> str:
    """One of each of what a chat draws."""
    diff = rendering.coloured_diff("--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y")
    error = rendering.error_text("it failed")
    parts = [Text("careful", "bold yellow"), rendering.headline("exec", {}), rendering.markdown(CODE), diff, error]
    return drawn(parts, 80, THEMES[theme])


def colours(text: str) -> list[Color]:
    """The foreground colours of a text with escapes."""
    found = []
    for sequence in re.findall(r"\x1b\[([\d;]+)m", text):
        for match in re.finditer(r"(?:^|;)(?:38;5;(\d+)|(3[0-7]|9[0-7]))(?=;|$)", sequence):
            number = int(match[1]) if match[1] else int(match[2]) - (30 if int(match[2]) < 90 else 82)
            found.append(Color.from_ansi(number))
    return found


def contrast_on_white(colour: Color) -> float:
    """As https://www.w3.org/TR/WCAG22/#dfn-contrast-ratio defines it; the palette's first sixteen as xterm has them."""
    channels = [value / 255 for value in colour.get_truecolor()]
    red, green, blue = (v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in channels)
    return 1.05 / (0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05)


def test_every_colour_of_the_light_theme_can_be_read_on_white() -> None:
    """Also in code, links, quotes and diffs; and nothing has a background of its own."""
    light = everything("light")
    assert len({colour.name for colour in colours(light)}) >= 4
    assert [] == [colour.name for colour in colours(light) if contrast_on_white(colour) < 4.5]
    assert not re.search(r"\x1b\[[\d;]*\b(4[0-7]|48)\b", light)
    assert [colour for colour in colours(everything("dark")) if contrast_on_white(colour) < 4.5]


def test_the_theme_mono_has_emphasis_and_no_colour() -> None:
    """Bold and dim stay."""
    text = everything("mono")
    assert [] == colours(text)
    assert "\x1b[1m" in text


def test_no_color_wins_over_every_theme(monkeypatch: pytest.MonkeyPatch) -> None:
    """https://no-color.org."""
    monkeypatch.setenv("NO_COLOR", "1")
    assert {name: [] for name in THEMES} == {name: colours(everything(name)) for name in THEMES}


def test_the_variable_comes_before_the_settings_and_these_before_the_dark_theme(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The settings are `theme` in `settings.toml` of the home folder."""
    assert DARK == usual_theme()
    place = themes.store(THEMES["light"])
    assert (tmp_path / "home" / "settings.toml", "light") == (place, usual_theme().name)
    monkeypatch.setenv(themes.VARIABLE, "mono")
    assert "mono" == usual_theme().name


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('theme = "lihgt"', "line 1: unknown theme 'lihgt'; valid themes: dark, light, mono"),
        ("# mine\ntheme = 3", "line 2: unknown theme '3'; valid themes: dark, light, mono"),
        ('colour = "light"', "line 1: unknown key `colour`"),
        ("theme = ", "not TOML"),
    ],
    ids=["name", "type", "key", "toml"],
)
def test_a_mistake_in_the_settings_is_named_and_nothing_is_written_over(
    text: str, message: str, tmp_path: Path
) -> None:
    """With the line and the valid names; the file stays as it is."""
    place = tmp_path / "home" / "settings.toml"
    place.parent.mkdir()
    place.write_text(text)
    with pytest.raises(FormatError, match=re.escape(message)):
        usual_theme()
    with pytest.raises(FormatError):
        themes.store(THEMES["light"])
    assert text == place.read_text()


def test_storing_a_theme_keeps_comments(tmp_path: Path) -> None:
    """The line is replaced, the rest stays."""
    place = themes.store(THEMES["light"])
    place.write_text(f"# for the projector\n{place.read_text()}# end\n")
    themes.store(THEMES["mono"])
    assert '# for the projector\ntheme = "mono"\n# end\n' == place.read_text()


async def test_the_command_switches_and_keeps_the_theme(tmp_path: Path) -> None:
    """An unknown name is an error with the list, and changes nothing."""
    async with talking(tmp_path, []) as talk:
        assert isinstance(talk, Talk)
        assert "the theme is dark; /theme dark|light|mono switches" in await talk.say("/theme")
        assert "unknown theme 'pink'; valid themes: dark, light, mono" in " ".join(
            (await talk.say("/theme pink")).split()
        )
        assert DARK == talk.screen.theme
        assert "the theme is now light" in await talk.say("/theme light")
        assert ("light", "light") == (talk.screen.theme.name, usual_theme().name)


def test_a_wrong_name_is_one_line_and_a_pipe_needs_no_theme(tmp_path: Path) -> None:
    """Of the option always; of the variable where there is a terminal to colour."""
    wrong = run("chat", "--theme", "pink", given=b"")
    assert 2 == wrong.code and all(name in wrong.err for name in THEMES)
    chat = ("chat", "-m", "debug/parrot-1", "hello")
    code, shown = on_terminal(*chat, INTERLINGUA_HOME=str(tmp_path), INTERLINGUA_THEME="pink")
    assert 1 == code and "unknown theme 'pink'; valid themes: dark, light, mono" in shown
    assert not (tmp_path / "agents").exists()
    code, shown = on_terminal(*chat, keys=b"\x04", after=b"hello", TERM="dumb", INTERLINGUA_THEME="pink")
    assert 0 == code and "\x1b" not in shown


def test_doctor_reports_a_theme_that_does_not_exist(tmp_path: Path) -> None:
    """With all that it checks besides, on a terminal and for programs."""
    env = {"INTERLINGUA_HOME": str(tmp_path), "INTERLINGUA_THEME": "pink"}
    code, shown = on_terminal("doctor", columns=140, **env)
    assert 1 == code and "unknown theme 'pink'; valid themes: dark, light, mono" in shown and "sandbox" in shown
    found = run("doctor", "--json", env={**os.environ, **env}).json
    assert ["problem"] == [check["state"] for check in found["checks"] if check["name"] == "settings"]


def test_other_commands_have_the_theme_as_well(tmp_path: Path) -> None:
    """The colours of `show` on a light terminal are those of the chat."""
    path = tmp_path / "c.json"
    path.write_text('{"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hello"}]}')
    code, shown = on_terminal("show", path, PAGER="cat", INTERLINGUA_THEME="light", INTERLINGUA_HOME=str(tmp_path))
    assert 0 == code and "38;5;23" in shown
