"""Looks into the built wheel and sdist, then installs the wheel in a fresh environment and tries it: `make dist`."""

import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
SMOKE = """
import sys
import interlingua as il

assert "src" not in il.__file__, il.__file__
body = {"model": "claude-sonnet-4-5", "max_tokens": 9, "messages": [{"role": "user", "content": "Hello"}]}
assert il.encode(il.decode(body), "anthropic-messages").body == body
assert il.sync.complete("debug/parrot-1", "Hello").text == "Hello"
print(il.__version__)
"""


def contents_problems(wheel: Path, sdist: Path) -> list[str]:
    """What is missing in the two archives, or should not be in them."""
    with zipfile.ZipFile(wheel) as archive:
        packed = set(archive.namelist())
        metadata = next(name for name in packed if name.endswith(".dist-info/METADATA"))
        version = re.search(r"^Version: (.+)$", archive.read(metadata).decode(), re.MULTILINE)
    with tarfile.open(sdist) as archive:
        source = {name.partition("/")[2] for name in archive.getnames()}
    tracked = subprocess.run(["git", "ls-files", "src"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    wanted = {name.removeprefix("src/") for name in tracked.splitlines()}
    info = metadata.rpartition("/")[0]
    problems = [f"the wheel lacks {name}" for name in sorted(wanted - packed)]
    problems += [f"the wheel has {name}" for name in sorted(packed - wanted) if not name.startswith(info)]
    problems += [
        f"the sdist lacks {name}" for name in ("LICENSE", "README.md", "src/interlingua/py.typed") if name not in source
    ]
    problems += [f"the sdist has {name}" for name in source if name.startswith((".venv", "web/node_modules", "dist/"))]
    if f"{info}/licenses/LICENSE" not in packed or "interlingua/canvas/assets/LICENSES.txt" not in packed:
        problems.append("the wheel lacks a licence")
    stated = (ROOT / "src/interlingua/_version.py").read_text()
    if version is None or f'"{version[1]}"' not in stated:
        problems.append("the version of the wheel is not that of _version.py")
    return problems


def try_wheel(wheel: Path) -> None:
    """Installs the wheel with the locked versions in a fresh environment, and runs it far from the source."""
    with tempfile.TemporaryDirectory() as folder:
        python = Path(folder) / "env/bin/python"
        run = [sys.executable, "-m", "uv"]
        subprocess.run([*run, "venv", "--quiet", "--python", sys.executable, python.parent.parent], check=True)
        install = [*run, "pip", "install", "--quiet", "--python", python, "-c", ROOT / "requirements-core.lock", wheel]
        subprocess.run(install, check=True)
        subprocess.run([python, "-c", SMOKE], cwd=folder, check=True)
        for command in (["--version"], ["demo"], ["doctor", "--help"], ["serve", "--help"], ["models"]):
            subprocess.run([python.with_name("il"), *command], cwd=folder, check=True, stdout=subprocess.DEVNULL)
            print("il", *command, "✓")


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    wheel, sdist = next(folder.glob("*.whl")), next(folder.glob("*.tar.gz"))
    if problems := contents_problems(wheel, sdist):
        sys.exit("\n".join(problems))
    try_wheel(wheel)
    print(f"{wheel.name}: {wheel.stat().st_size:,} bytes; {sdist.name}: {sdist.stat().st_size:,} bytes")
