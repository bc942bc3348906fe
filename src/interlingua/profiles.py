"""What targets accept, as data: ids, names, turns, media, caching, schemas. Read by `check` and `adapt`.

A profile belongs to a wire; a model's `compat` refines it (`toolCallIdLength`, `mergeTurns`, …). Families say whose
signatures a model can verify: what one Claude signed, another Claude verifies, whoever serves it.
"""

import re
from functools import cache
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from .request import ModelDescriptor


class IdRule(Struct, frozen=True):
    """Which characters a name may have, and how many; `exact` where the length is prescribed."""

    pattern: str
    most: int
    exact: bool = False

    def allows(self, name: str) -> bool:
        fits = len(name) == self.most if self.exact else 0 < len(name) <= self.most
        return fits and _compiled(self.pattern).fullmatch(name) is not None


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(f"(?:{pattern})*")


WORD = r"[A-Za-z0-9_-]"


class Profile(Struct, frozen=True, kw_only=True):
    """The rules of one target."""

    api: str
    ids: IdRule | None = None
    names: IdRule = IdRule(WORD, 64)
    unique_ids: bool = False
    later_system: bool = False  # system messages may stand between the others
    blank_text: bool = True  # blank text blocks are accepted
    alternating: bool = False  # user and assistant strictly take turns, the user first
    user_first: bool = False
    results_inline: bool = True  # a tool result may hold images
    assistant_media: bool = False
    image_types: tuple[str, ...] = ("image/png", "image/jpeg", "image/gif", "image/webp")
    image_urls: bool = True
    image_bytes: int | None = None  # of base64, as sent
    documents: bool = True
    document_urls: bool = True
    document_names: bool = False  # names are needed, of few characters, each once
    audio: bool = False
    families: tuple[str, ...] | None = None  # whose signatures are verified here; None: nothing is verified
    cache_markers: int = 0
    schema: Literal["full", "gemini"] = "full"
    tools_with_history: bool = False  # tool blocks in the history need tool definitions
    max_tokens: int | None = None  # the wire requires a limit: this one where none is given
    stops: int | None = None
    forced_with_thinking: bool = True
    unsigned_call: str | None = None  # the documented marker for a call whose signature is not to be checked


CLAUDE = "claude"
ANTHROPIC = Profile(
    api="anthropic-messages",
    ids=IdRule(WORD, 64),
    unique_ids=True,
    blank_text=False,
    user_first=True,
    image_bytes=5 * 1024 * 1024,
    families=(CLAUDE,),
    cache_markers=4,
    max_tokens=4096,
    forced_with_thinking=False,
)
COMPLETIONS = Profile(
    api="openai-completions",
    ids=IdRule(WORD, 40),
    later_system=True,
    results_inline=False,
    document_urls=False,
    audio=True,
    stops=4,
)
RESPONSES = Profile(
    api="openai-responses",
    ids=IdRule(WORD, 64),
    later_system=True,
    audio=True,
    families=("openai",),
)
GOOGLE = Profile(
    api="google-generative-ai",
    names=IdRule(r"[A-Za-z0-9_.:-]", 64),
    alternating=True,
    user_first=True,
    image_types=("image/png", "image/jpeg", "image/webp", "image/heic", "image/heif", "image/gif"),
    audio=True,
    families=("gemini",),
    schema="gemini",
    stops=5,
)
BEDROCK = Profile(
    api="bedrock-converse-stream",
    ids=IdRule(WORD, 64),
    unique_ids=True,
    blank_text=False,
    alternating=True,
    user_first=True,
    image_urls=False,
    document_urls=False,
    document_names=True,
    families=(CLAUDE,),
    cache_markers=4,
    tools_with_history=True,
    forced_with_thinking=False,
)
OLLAMA = Profile(
    api="ollama-chat",
    later_system=True,
    results_inline=False,
    image_urls=False,
    documents=False,
)

PROFILES: dict[str, Profile] = {
    "anthropic-messages": ANTHROPIC,
    "bedrock-invoke-anthropic": ANTHROPIC,
    "openai-completions": COMPLETIONS,
    "openai-responses": RESPONSES,
    "azure-openai-responses": RESPONSES,
    "openai-codex-responses": RESPONSES,
    "google-generative-ai": GOOGLE,
    "google-vertex": GOOGLE,
    "google-gemini-cli": GOOGLE,
    "bedrock-converse-stream": BEDROCK,
    "ollama-chat": OLLAMA,
}

# The first pattern that matches a model's id names its family; an id that none matches is a family of its own.
FAMILIES: list[tuple[str, str]] = [
    (r"claude", CLAUDE),
    (r"gemini", "gemini"),
    (r"gpt|chatgpt|codex|(?:^|[/.])o[134](?:-|$)", "openai"),
    (r"deepseek", "deepseek"),
    (r"qwen|qwq", "qwen"),
    (r"mi[sx]tral|codestral|pixtral|devstral|magistral|ministral", "mistral"),
    (r"grok", "grok"),
    (r"kimi|moonshot", "kimi"),
    (r"glm", "glm"),
    (r"minimax", "minimax"),
    (r"nova", "nova"),
    (r"llama", "llama"),
]
# Whose models an api serves, where a message does not name its model.
HOUSES: dict[str, str] = {
    "anthropic-messages": CLAUDE,
    "bedrock-invoke-anthropic": CLAUDE,
    "openai-responses": "openai",
    "azure-openai-responses": "openai",
    "openai-codex-responses": "openai",
    "google-generative-ai": "gemini",
    "google-vertex": "gemini",
    "google-gemini-cli": "gemini",
}

# Refinements by model: (pattern over the id, what changes).
MODELS: list[tuple[str, dict[str, Any]]] = [
    (r"mi[sx]tral|codestral|pixtral|devstral|magistral|ministral", {"ids": IdRule(r"[A-Za-z0-9]", 9, exact=True)}),
    (r"gemini-3", {"unsigned_call": "skip_thought_signature_validator"}),
]


def family(model: str | None, api: str | None) -> str | None:
    """Whose model minted something, as far as can be told."""
    if model:
        for pattern, name in FAMILIES:
            if re.search(pattern, model, re.IGNORECASE):
                return name
        return model
    return HOUSES.get(api or "")


def profile(target: ModelDescriptor) -> Profile:
    """The rules of a target: its wire's, refined by its model and by its `compat`."""
    rules = PROFILES.get(target.api) or Profile(api=target.api)
    for pattern, changes in MODELS:
        if re.search(pattern, target.id, re.IGNORECASE):
            rules = replace(rules, **{k: v for k, v in changes.items() if _concerns(rules, k)})
    return replace(rules, **_told(target)) if target.compat else rules


def _concerns(rules: Profile, field: str) -> bool:
    """Id rules of a model family matter on the chat wire, its marker on Google's."""
    return rules.schema == "gemini" if field == "unsigned_call" else rules.api == "openai-completions"


def _told(target: ModelDescriptor) -> dict[str, Any]:
    compat = target.compat or {}
    told: dict[str, Any] = {}
    if isinstance(compat.get("toolCallIdLength"), int):
        told["ids"] = IdRule(r"[A-Za-z0-9]", compat["toolCallIdLength"], exact=True)
    if isinstance(compat.get("mergeTurns"), bool):
        told["alternating"] = compat["mergeTurns"]
    if isinstance(compat.get("cacheMarkers"), int):
        told["cache_markers"] = compat["cacheMarkers"]
    return told
