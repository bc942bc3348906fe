"""HTML to readable text, as a separate program: HTML on stdin, one JSON object on stdout.

Pages are untrusted, and both parsers have inputs on which they take much time or memory. A process can be killed, a
thread cannot. It imports nothing from this package, so that it starts quickly.

Arguments: markdown or text, seconds of CPU time, megabytes of memory, the base URL of relative links.
"""

import json
import sys
from html.parser import HTMLParser
from typing import Any

MISSING = 'trafilatura is not installed, so menus and footers are included; pip install "interlingua[web]"'

_SKIPPED = frozenset(("script", "style", "template", "noscript", "svg", "head", "iframe", "object", "canvas"))
_VOID = ("br", "hr")
_BREAKS = frozenset(
    (
        *(
            "address",
            "article",
            "aside",
            "blockquote",
            "br",
            "dd",
            "div",
            "dl",
            "dt",
            "fieldset",
            "figcaption",
            "figure",
        ),
        *("footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "li", "main", "nav", "ol", "p", "pre"),
        *("figure", "section", "table", "tr", "ul"),
    )
)
_HEADINGS = {f"h{level}": "#" * level + " " for level in range(1, 7)}


class PlainText(HTMLParser):
    """The text of a page: block elements start a line, headings and list items get markdown markers."""

    def __init__(self, *, markdown: bool) -> None:
        super().__init__(convert_charrefs=True)
        self.markdown = markdown
        self.title = ""
        self._pieces: list[str] = []
        self._skipping: list[str] = []
        self._in_title = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "title":
            self._in_title = True
        elif tag == "body":
            self._skipping.clear()
        elif tag in _SKIPPED:
            self._skipping.append(tag)
        if tag in _BREAKS:
            self._pieces.append("\n")
            if self.markdown:
                self._pieces.append("- " if tag == "li" else _HEADINGS.get(tag, ""))

    def handle_endtag(self, tag: str) -> None:
        if tag == "title":
            self._in_title = False
        elif tag in self._skipping:
            del self._skipping[self._skipping.index(tag) :]
        if tag in _BREAKS and tag not in _VOID:
            self._pieces.append("\n")

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title += data
        elif not self._skipping:
            self._pieces.append(data)

    def text(self) -> str:
        lines = (" ".join(line.split()) for line in "".join(self._pieces).split("\n"))
        return "\n".join(line for line in lines if line.strip("-# "))


def plain(html: str, *, markdown: bool) -> dict[str, Any]:
    """All text of the page, with the standard library only."""
    parser = PlainText(markdown=markdown)
    parser.feed(html)
    parser.close()
    return {"title": " ".join(parser.title.split()), "text": parser.text(), "extractor": "html.parser"}


def readable(html: str, *, markdown: bool, url: str | None = None) -> dict[str, Any]:
    """The main text of the page by trafilatura; all its text if that is not installed or finds no main text."""
    try:
        import trafilatura
    except ImportError:
        return plain(html, markdown=markdown) | {"warning": MISSING}
    tree = trafilatura.load_html(html)
    if tree is None:
        return plain(html, markdown=markdown)
    title = " ".join((tree.findtext(".//title") or "").split())
    text = trafilatura.extract(
        tree,
        url=url,
        output_format="markdown" if markdown else "txt",
        include_links=markdown,
        include_formatting=markdown,
        include_tables=True,
        include_comments=False,
    )
    if not text or not text.strip():
        return plain(html, markdown=markdown) | {"warning": "no main text found: this is all text of the page"}
    return {"title": title, "text": text, "extractor": "trafilatura"}


def _limit(seconds: int, megabytes: int) -> None:
    try:
        import resource
    except ImportError:  # Windows: the parent's clock is the only limit
        return
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def main() -> None:
    mode, seconds, megabytes, url = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    _limit(seconds, megabytes)
    html = sys.stdin.buffer.read().decode("utf-8", "replace")
    sys.stdout.buffer.write(json.dumps(readable(html, markdown=mode == "markdown", url=url)).encode())


if __name__ == "__main__":
    main()
