"""Looks at the built documentation site: every link leads somewhere, and nothing is loaded from elsewhere."""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADS = {("script", "src"), ("link", "href"), ("img", "src"), ("iframe", "src"), ("source", "src"), ("object", "data")}
CODE = {"code", "pre", "script"}
NO_LOAD = {"canonical", "prev", "next", "alternate"}


class Page(HTMLParser):
    """The ids, the links and the loaded addresses of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: set[str] = set()
        self.loaded: set[str] = set()
        self.has_stray_fence = False  # a block of code that was not understood as one
        self._in_code = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attributes}
        self.ids |= {values[name] for name in ("id", "name") if name in values}
        self._in_code += tag in CODE
        for name, value in values.items():
            if (tag, name) in LOADS and values.get("rel") not in NO_LOAD:
                self.loaded.add(value)
            elif name == "href":
                self.links.add(value)

    def handle_endtag(self, tag: str) -> None:
        self._in_code -= tag in CODE

    def handle_data(self, data: str) -> None:
        self.has_stray_fence |= "```" in data and not self._in_code


def problems(folder: Path) -> list[str]:
    """What is wrong with a site."""
    pages = {path: Page(path.read_text("utf-8")) for path in folder.rglob("*.html")}
    found = []
    for path, page in pages.items():
        name = path.relative_to(folder)
        found += [f"{name} loads {url}" for url in page.loaded if urlsplit(url).netloc]
        found += [f"{name} shows the fence of a block of code"] if page.has_stray_fence else []
        for url in page.links | page.loaded:
            parts = urlsplit(url)
            if parts.scheme or parts.netloc or name.name == "404.html":
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.exists():
                found.append(f"{name} links to {url}, which is not there")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].ids:
                found.append(f"{name} links to {url}, whose anchor is not there")
    return found


if __name__ == "__main__":
    site = Path(sys.argv[1]).resolve()
    if found := problems(site):
        sys.exit("\n".join(sorted(found)))
    count = len(list(site.rglob("*.html")))
    print(f"{site.name}: {count} pages; every link leads somewhere, nothing is loaded from elsewhere")
