"""Takes the pictures of the canvas for these pages: `python docs/screenshots.py`, with Chromium installed.

The session is real: the agent of `interlingua demo` at work, then two models that answer its first question again.
"""

import base64
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests"))

import interlingua as il  # noqa: E402
from canvas.tabs import CHROMIUM, Tab, Threaded, expect, playwright  # noqa: E402
from interlingua.sessions import save  # noqa: E402

DESKTOP, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}
KEY = "own~main~primes"
# name: theme, size, view, keys to press, what must be there
SHOTS: dict[str, tuple[str, dict[str, int], str, str, str]] = {
    "canvas-light": ("light", DESKTOP, "canvas", "", ".react-flow [data-card]"),
    "canvas-dark": ("dark", DESKTOP, "canvas", "", ".react-flow [data-card]"),
    "canvas-transcript-light": ("light", DESKTOP, "transcript", "x", ".drawer .abar"),
    "canvas-wire-light": ("light", DESKTOP, "wire", "n", ".srow.sel"),
    "canvas-wire-dark": ("dark", DESKTOP, "wire", "n", ".srow.sel"),
    "canvas-phone-read-light": ("light", PHONE, "transcript", "", "article.turn .words"),
    "canvas-phone-light": ("light", PHONE, "canvas", "", ".outline li"),
    "canvas-phone-read-dark": ("dark", PHONE, "transcript", "", "article.turn .words"),
    "canvas-phone-compare-dark": ("dark", PHONE, "compare", "", ".cmp .row"),
}


def demo(home: Path, folder: Path) -> il.Conversation:
    """The session of `interlingua demo` as a session of this home."""
    program = Path(sys.executable).parent / "interlingua"
    environment = {**os.environ, "TMPDIR": str(folder), "INTERLINGUA_HOME": str(folder / "none")}
    subprocess.run([program, "demo", "--keep"], env=environment, check=True, capture_output=True)
    conversation = il.decode(next(folder.rglob("demo.jsonl")).read_bytes())
    session = save(conversation, id="primes", home=home)
    session.label(None, "The first ten primes")
    session.set_branch("fixed", session.head or "")
    session.close()
    return conversation


def branch(tab: Tab) -> None:
    """Two models answer the first question again, in words of their own."""
    page = tab.page
    first = tab.get(f"/api/sessions/{KEY}/tree")["rows"]
    question = next(row["id"] for row in first if row["role"] == "user")
    tab.go(f"/s/{KEY}/canvas?at={question}")
    expect(tab.card(question)).to_be_visible()
    tab.press("e")
    expect(page.locator(".picked .chip")).to_have_count(1)
    page.locator(".picked .chip button").click()
    for model in "debug/parrot-1", "debug/upper-parrot-1":
        page.get_by_label("find a model").fill(model)
        page.locator(".models .menu .row", has_text=model).first.click()
    page.get_by_label("your message").fill("Begin at 2, and print the first ten primes. Which loop is the right one?")
    page.get_by_label("your message").press("Control+Enter")
    expect(page.locator("[data-card]", has_text="upper-parrot-1")).to_be_visible()
    expect(page.locator("article.live")).to_have_count(0)


def shoot(tab: Tab, name: str) -> None:
    session: Any = tab.context.new_cdp_session(tab.page)
    shot = session.send("Page.captureScreenshot", {"format": "webp", "quality": 82})
    (HERE / "images" / f"{name}.webp").write_bytes(base64.b64decode(shot["data"]))


def main() -> None:
    with tempfile.TemporaryDirectory() as made:
        home = Path(made) / "home"
        demo(home, Path(made))
        with Threaded(home) as server, playwright.sync_playwright() as driver:
            chromium = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            with Tab(chromium, server) as tab:
                branch(tab)
                rows = tab.get(f"/api/sessions/{KEY}/tree")["rows"]
            asked = next(row["id"] for row in rows if row.get("calls"))
            leaves = [row["id"] for row in rows if row["id"] not in {one.get("parent") for one in rows}]
            for name, (theme, size, view, keys, ready) in SHOTS.items():
                with Tab(chromium, server, viewport=size, color_scheme=theme) as tab:
                    at = leaves[0] if view == "wire" else rows[0]["id"] if "phone-read" in name else asked
                    query = f"at={at}&to={leaves[0]}&as=anthropic-messages&a={leaves[1]}&b={leaves[2]}"
                    tab.go(f"/s/{KEY}/{view}?{query}")
                    expect(tab.page.locator(".top .now")).to_have_text("The first ten primes")
                    if keys:
                        loaded = ".json .ln" if view == "wire" else "article.turn .words"
                        expect(tab.page.locator(loaded).first).to_be_visible()
                        tab.press(*keys)
                    expect(tab.page.locator(ready).first).to_be_visible()
                    tab.page.wait_for_timeout(1500)  # pictures, fonts, folds: nothing moves any more
                    shoot(tab, name)
            chromium.close()


if __name__ == "__main__":
    main()
