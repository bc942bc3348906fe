"""Search services as rows: how each is asked, how its answer is read. A new service is two functions and a row."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlencode

import orjson
from msgspec import Struct


class Query(Struct, frozen=True, kw_only=True):
    """A search. `freshness` is pd, pw, pm, py (past day … year) or `YYYY-MM-DDtoYYYY-MM-DD`; empty means unsaid."""

    query: str
    count: int
    country: str = ""
    search_lang: str = ""
    freshness: str = ""


class Ask(NamedTuple):
    """A request; `unsaid` names the parts of the query that this service has no word for."""

    url: str
    headers: dict[str, str]
    body: bytes | None = None
    unsaid: tuple[str, ...] = ()


class Hit(Struct, frozen=True, kw_only=True, omit_defaults=True):
    title: str
    url: str
    description: str = ""
    published: str = ""


class Backend(NamedTuple):
    """`env` is the variable that holds the key, or the base URL where there is no key (`base_url` is empty)."""

    label: str
    base_url: str
    env: str
    ask: Callable[[Query, str, str], Ask]
    hits: Callable[[Any], list[Hit]]


_SPANS = {"pd": "day", "pw": "week", "pm": "month", "py": "year"}


def _ask_brave(query: Query, base_url: str, key: str) -> Ask:
    fields = {"q": query.query, "count": str(query.count), "text_decorations": "false"}
    fields |= _encoded(country=query.country.upper(), search_lang=query.search_lang, freshness=query.freshness)
    url = f"{base_url}/res/v1/web/search?{urlencode(fields)}"
    return Ask(url, {"Accept": "application/json", "X-Subscription-Token": key})


def _brave_hits(answer: Any) -> list[Hit]:
    return [_hit(row, "description", "page_age") for row in (answer.get("web") or {}).get("results") or ()]


def _ask_searxng(query: Query, base_url: str, key: str) -> Ask:
    language = "-".join(part for part in (query.search_lang, query.country.upper()) if part)
    unsaid = []
    if query.country and (not query.search_lang or query.country.upper() == "ALL"):
        language, unsaid = query.search_lang, ["country"]  # a region is said as part of a language, never alone
    if query.freshness and query.freshness not in _SPANS:
        unsaid.append("freshness")
    fields = {"q": query.query, "format": "json"}
    fields |= _encoded(language=language, time_range=_SPANS.get(query.freshness, ""))
    headers = {"Accept": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
    return Ask(f"{base_url}/search?{urlencode(fields)}", headers, unsaid=tuple(unsaid))


def _searxng_hits(answer: Any) -> list[Hit]:
    return [_hit(row, "content", "publishedDate") for row in answer.get("results") or ()]


def _ask_tavily(query: Query, base_url: str, key: str) -> Ask:
    start, _, end = query.freshness.partition("to") if query.freshness not in _SPANS else ("", "", "")
    fields: dict[str, Any] = {"query": query.query, "max_results": query.count}
    fields |= _encoded(time_range=_SPANS.get(query.freshness, ""), start_date=start, end_date=end)
    unsaid = tuple(name for name in ("country", "search_lang") if getattr(query, name))
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
    return Ask(f"{base_url}/search", headers, orjson.dumps(fields), unsaid)


def _tavily_hits(answer: Any) -> list[Hit]:
    return [_hit(row, "content", "published_date") for row in answer.get("results") or ()]


def _encoded(**fields: str) -> dict[str, str]:
    return {name: value for name, value in fields.items() if value}


def _hit(row: Mapping[str, Any], description: str, published: str) -> Hit:
    return Hit(
        title=str(row.get("title") or ""),
        url=str(row["url"]),
        description=str(row.get(description) or ""),
        published=str(row.get(published) or ""),
    )


BACKENDS = {
    "brave": Backend("Brave Search", "https://api.search.brave.com", "BRAVE_API_KEY", _ask_brave, _brave_hits),
    "tavily": Backend("Tavily", "https://api.tavily.com", "TAVILY_API_KEY", _ask_tavily, _tavily_hits),
    "searxng": Backend("SearXNG", "", "SEARXNG_BASE_URL", _ask_searxng, _searxng_hits),
}
