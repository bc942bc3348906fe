"""`interlingua plugins`: list, install, uninstall, check and new."""

import json
import os
import subprocess
import sys
import sysconfig
import textwrap
import venv
import zipfile
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from interlingua import FormatError, InterlinguaError
from interlingua.cli.plugins import command
from interlingua.plugins.checking import check_plugin
from plugins.making import ECHO, plugin


def run(*arguments: str | Path) -> tuple[int, str]:
    done = CliRunner().invoke(command, [str(argument) for argument in arguments], catch_exceptions=True)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.output


def checked(folder: Path, *arguments: str | Path) -> tuple[int, Any]:
    code, text = run("check", folder, "--json", *arguments)
    return code, json.loads(text)


def test_a_new_plugin_works_and_its_test_passes(tmp_path: Path) -> None:
    """`new` writes a manifest, code and a test; `check` loads it, and pytest is content."""
    code, output = run("new", "my-plugin", "--dir", tmp_path)
    assert (0, True) == (code, "plugins check" in output)
    folder = tmp_path / "my-plugin"
    assert ["interlingua.plugin.json", "plugin.py", "test_plugin.py"] == sorted(p.name for p in folder.iterdir())
    code, report = checked(folder)
    assert (0, []) == (code, report["problems"])
    assert [{"name": "my_plugin_reverse", "description": "Says a text backwards."}] == report["plugins"][0]["tools"]
    tested = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", folder], capture_output=True, check=False
    )
    assert (0, True) == (tested.returncode, b"1 passed" in tested.stdout)


@pytest.mark.parametrize("name", ["../out", "__main__", "", "a b"])
def test_a_new_plugin_needs_a_name_that_may_be_an_id(tmp_path: Path, name: str) -> None:
    """Nothing is written elsewhere, and nothing is written over."""
    with pytest.raises(FormatError, match="cannot be the id"):
        run("new", name, "--dir", tmp_path / "in")
    assert [] == list(tmp_path.iterdir())
    (tmp_path / "there").mkdir()
    with pytest.raises(InterlinguaError, match="already exists"):
        run("new", "there", "--dir", tmp_path)


def test_check_says_all_that_a_plugin_registers(tmp_path: Path) -> None:
    """Tools, factories, connectors, dialects and the rest, for people and for programs; asynchronous ones too."""
    code = """
        from interlingua.connect.debug import DebugConnector
        print("noise on stdout")
        class D:
            decode = encode = print
        async def register(api):
            api.register_tool(lambda context: None, names=["a", "b"], optional=True)
            api.register_connector(DebugConnector(provider="parrot", label="Parrot"))
            api.register_dialect("odd", D())
            api.on("x")
    """
    folder = plugin(tmp_path, "rich", code, version="2", channels=["chat"], providers=["parrot"])
    status, report = checked(folder)
    (found,) = report["plugins"]
    assert 0 == status
    assert ("rich", "2", [{"names": ["a", "b"], "optional": True}]) == (
        found["id"],
        found["version"],
        found["factories"],
    )
    assert (["odd"], ["on"], ["chat"], ["parrot"]) == tuple(
        found[name] for name in ("dialects", "registrations", "channels", "providers")
    )
    _, text = run("check", folder)
    assert [
        "rich 2 loads",
        "  factory of a, b",
        f"  connectors: {found['connectors'][0]}",
        "  dialects: odd",
        "  registrations: on",
        "  channels: chat",
        "  providers: parrot",
    ] == text.splitlines()


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("raise ValueError('no')", "ValueError: no"),
        ("import os; os._exit(9)", "it ended the process (status 9)"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "it ended the process (status -9)"),
        ("def register(api): pass\ndef unregister(api): raise ValueError('stays')", "ValueError: stays"),
        ("import os\ndef register(api): raise ValueError(os.environ.get('SECRET_TOKEN'))", "ValueError: None"),
    ],
)
def test_check_survives_whatever_a_plugin_does(
    tmp_path: Path, code: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It runs elsewhere, without our keys: even a plugin that ends its process only gets a report."""
    monkeypatch.setenv("SECRET_TOKEN", "shh")
    status, report = checked(plugin(tmp_path, "bad", code))
    assert (1, [expected]) == (status, [problem["message"] for problem in report["problems"]])


def test_check_does_not_wait_forever(tmp_path: Path) -> None:
    """A plugin that hangs is given up."""
    folder = plugin(tmp_path, "slow", "import time\ntime.sleep(3600)")
    report = check_plugin(folder, seconds=2)
    assert ["it was not loaded within 2 s"] == [problem["message"] for problem in report["problems"]]


def test_check_needs_a_manifest_and_takes_a_configuration(tmp_path: Path) -> None:
    """A folder without a manifest is no plugin; a configuration is checked against the schema."""
    (tmp_path / "empty").mkdir()
    assert (1, "discover") == (checked(tmp_path / "empty")[0], checked(tmp_path / "empty")[1]["problems"][0]["stage"])
    folder = plugin(tmp_path, "strict", configSchema={"type": "object", "required": ["port"]})
    assert 1 == checked(folder)[0]
    (tmp_path / "config.json").write_text('{"strict": {"port": 1}}')
    assert 0 == checked(folder, "--config", tmp_path / "config.json")[0]


def test_list_runs_nothing(tmp_path: Path) -> None:
    """Folders are listed by their manifests alone, scripts and broken ones among them."""
    plugin(tmp_path, "bomb", "raise SystemExit('ran')", description="Ticks")
    plugin(tmp_path, "script", None)
    (tmp_path / "script" / "index.js").write_text("")
    plugin(tmp_path, "../x", None, folder="wrong")
    status, text = run("list", tmp_path, "--json")
    rows = [(row["id"], row["kind"], row["description"]) for row in json.loads(text) if row["kind"] != "package"]
    assert (0, [("bomb", "folder", "Ticks"), ("script", "script", None)]) == (status, rows[:2])
    assert ("wrong", "broken", True) == (*rows[2][:2], "cannot be the id" in rows[2][2])
    assert "bomb" in run("list", tmp_path)[1]
    assert "no plugins found" in run("list", tmp_path / "nowhere")[1]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("INTERLINGUA_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_a_folder_is_installed_replaced_and_removed(tmp_path: Path, home: Path) -> None:
    """It is copied under its id; a second time only with -U; what the new one does not have is gone."""
    folder = plugin(tmp_path, "echo", version="1")
    (folder / "extra.txt").write_text("x")
    assert 0 == run("install", folder)[0]
    place = home / "plugins" / "echo"
    assert {"interlingua.plugin.json", "plugin.py", "extra.txt"} == {path.name for path in place.iterdir()}
    with pytest.raises(InterlinguaError, match=r"already installed.*-U"):
        run("install", folder)
    (folder / "extra.txt").unlink()
    plugin(tmp_path, "echo", version="2")
    assert 0 == run("install", "-U", folder)[0]
    assert "2" == json.loads((place / "interlingua.plugin.json").read_text())["version"]
    assert not (place / "extra.txt").exists() and ["echo"] == [path.name for path in place.parent.iterdir()]
    with pytest.raises(InterlinguaError, match="not confirmed without a terminal; add --yes"):
        run("uninstall", "echo")
    assert place.exists()
    assert 0 == run("uninstall", "-y", "echo")[0] and not place.exists()
    assert folder.exists()
    with pytest.raises(InterlinguaError, match="no plugin 'echo' is installed"):
        run("uninstall", "-y", "echo")


@pytest.mark.parametrize(
    "manifest", ["{", '{"id": "../out"}', '{"id": "x", "entry": "../../plugin.py"}', '{"id": "x"}']
)
def test_a_folder_that_is_no_plugin_is_not_installed(tmp_path: Path, home: Path, manifest: str) -> None:
    """Nothing is written for a manifest that is broken or leads elsewhere, or without code."""
    folder = tmp_path / "odd"
    folder.mkdir()
    (folder / "interlingua.plugin.json").write_text(manifest)
    with pytest.raises(InterlinguaError):
        run("install", folder)
    assert not home.exists()


def test_the_name_of_a_directory_is_no_package_of_the_index(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pip is given a project by its path, and a directory without one not at all."""
    given: list[str] = []
    monkeypatch.setattr("interlingua.cli.plugins._pip", lambda *arguments: given.append(arguments[-1]))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    with pytest.raises(InterlinguaError, match=r"^mine: a directory with neither .*; .* another directory"):
        run("install", "mine")
    assert [] == given
    (tmp_path / "mine" / "pyproject.toml").write_text("")
    run("install", "mine")
    run("install", "other")
    assert [str(tmp_path / "mine"), "other"] == given


@pytest.mark.parametrize("name", ["..", ".", "", "../home", "/"])
def test_only_plugins_are_removed(home: Path, name: str) -> None:
    """A name never leads out of the folder of plugins."""
    (home / "plugins").mkdir(parents=True)
    with pytest.raises(InterlinguaError, match="no plugin"):
        run("uninstall", "-y", name)
    assert (home / "plugins").exists()


def test_a_package_is_installed_for_this_python_and_removed(tmp_path: Path, home: Path) -> None:
    """In an environment of its own: pip installs a wheel, its plugin works at once, and uninstalling removes it."""
    environment = tmp_path / "env"
    venv.create(environment, with_pip=False)
    python = environment / "bin" / "python"
    found = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], capture_output=True, check=True
    )
    ours = [sysconfig.get_path("purelib"), str(Path(__file__).parents[2] / "src")]
    Path(found.stdout.decode().strip(), "ours.pth").write_text("\n".join(ours))
    wheel = tmp_path / "echo_plugin-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as file:
        info = "echo_plugin-1.0.dist-info"
        file.writestr("echo_plugin.py", textwrap.dedent(ECHO))
        file.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: echo-plugin\nVersion: 1.0\n")
        file.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{info}/entry_points.txt", "[interlingua.plugins]\nechoing = echo_plugin:register\n")
        file.writestr(f"{info}/RECORD", "")

    def il(*arguments: str | Path) -> tuple[int, str]:
        done = subprocess.run(
            [python, "-c", "from interlingua.cli import main; main()", *map(str, arguments)],
            env={**os.environ, "INTERLINGUA_HOME": str(home), "PIP_NO_INDEX": "1"},
            capture_output=True,
            check=False,
        )
        return done.returncode, done.stdout.decode() + done.stderr.decode()

    code, text = il("plugins", "install", wheel)
    assert 0 == code and "installed echoing" in text, text
    code, text = il("tools", "run", "echo", '{"text": "hello"}', "--yes")
    assert 0 == code and "hello" in text, text
    code, text = il("plugins", "uninstall", "--yes", "Echo_Plugin")
    assert 0 == code and "removed the package echo-plugin" in text, text
    assert 1 == il("tools", "show", "echo")[0]
    code, text = il("plugins", "install", "no-such-package-at-all")
    assert 1 == code and "could not install" in text, text
