"""What models of a family take and do: kinds of input, thinking, the longest answer. A small table made by hand.

The price lists say nothing of this. A row holds only what the maker documents; what is not in it is unknown, and a
model that no row matches is unknown altogether. The first row that matches the whole bare id wins. Users can correct
or complete it (`models.toml`). The word `text` alone means that the model is known to take no pictures.
"""

import re
from functools import lru_cache

from msgspec import Struct

TEXT = ("text",)
SIGHT = ("text", "image")
PAGES = ("text", "image", "document")
SENSES = ("text", "image", "audio", "video", "document")
CLIPS = ("text", "image", "video")

THREE = ("low", "medium", "high")
FOUR = ("minimal", *THREE)
NONE_TO_HIGH = ("none", *THREE)
NONE_TO_XHIGH = (*NONE_TO_HIGH, "xhigh")
NONE_TO_MAX = (*NONE_TO_XHIGH, "max")
LOW_TO_MAX = (*THREE, "xhigh", "max")


class Family(Struct, frozen=True):
    """`levels` are the words for how much to think; a family that thinks by budget, or always, has none."""

    pattern: str
    input: tuple[str, ...] | None = None
    reasoning: bool | None = None
    levels: tuple[str, ...] = ()
    max_output: int | None = None
    context: int | None = None  # where the price lists have none


_DATED = r"(-\d{8}|-\d{4}-\d{2}-\d{2}|-latest)?"

FAMILIES: tuple[Family, ...] = (
    # Anthropic
    Family(rf"claude-3-(opus|sonnet|haiku){_DATED}", SIGHT, False, max_output=4096),
    Family(rf"claude-3[.-]5-(sonnet|haiku){_DATED}", PAGES, False, max_output=8192),
    Family(rf"claude-3[.-]7-sonnet{_DATED}", PAGES, True, max_output=64_000),
    Family(rf"claude-(opus-4([.-][01])?|4-opus){_DATED}", PAGES, True, max_output=32_000),
    Family(rf"claude-(sonnet-4([.-][05])?|4-sonnet|haiku-4[.-]5){_DATED}", PAGES, True, max_output=64_000),
    Family(rf"claude-opus-4[.-]5{_DATED}", PAGES, True, THREE, 64_000),
    Family(rf"claude-sonnet-4[.-]6{_DATED}", PAGES, True, max_output=64_000),
    Family(rf"claude-opus-4[.-]6{_DATED}", PAGES, True, (*THREE, "max"), 128_000),
    Family(rf"claude-opus-4[.-][78]{_DATED}", PAGES, True, LOW_TO_MAX, 128_000),
    Family(rf"claude-(opus|sonnet)-5{_DATED}", SIGHT, True, LOW_TO_MAX, 128_000),
    Family(rf"claude-((opus|sonnet|haiku)-5[.-]5|fable-5([.-]1)?){_DATED}", None, True, max_output=128_000),
    # OpenAI
    Family(r"gpt-3\.5-turbo(-\d{4})?", TEXT, False, max_output=4096),
    Family(r"gpt-4(-0314|-0613)?", TEXT, False, max_output=8192),
    Family(rf"gpt-4-turbo{_DATED}", SIGHT, False, max_output=4096),
    Family(rf"gpt-4\.1(-mini|-nano)?{_DATED}", SIGHT, False, max_output=32_768),
    Family(r"gpt-4o-2024-05-13", SIGHT, False, max_output=4096),
    Family(rf"gpt-4o(-mini)?{_DATED}", SIGHT, False, max_output=16_384),
    Family(r"gpt-5(\.\d)?-chat(-latest)?", SIGHT, None, max_output=16_384),
    Family(rf"gpt-5(-mini|-nano)?{_DATED}", SIGHT, True, FOUR, 128_000),
    Family(r"gpt-5(\.1)?-codex(-mini)?", SIGHT, True, THREE, 128_000),
    Family(rf"gpt-5-pro{_DATED}", SIGHT, True, ("high",), 272_000),
    Family(rf"gpt-5\.1{_DATED}", SIGHT, True, NONE_TO_HIGH, 128_000),
    Family(rf"gpt-5\.[245](-mini|-nano)?{_DATED}", SIGHT, True, NONE_TO_XHIGH, 128_000),
    Family(rf"gpt-5\.([245]-pro|[123]-codex(-max)?){_DATED}", SIGHT, True, max_output=128_000),
    Family(rf"gpt-5\.6(-sol|-terra|-luna)?{_DATED}", SIGHT, True, NONE_TO_MAX, 128_000),
    Family(rf"gpt-6-sol{_DATED}", SIGHT, True, NONE_TO_MAX, 128_000),
    Family(rf"gpt-6\.1-sol{_DATED}", SIGHT, True, max_output=128_000),
    Family(rf"o1-mini{_DATED}", TEXT, True, max_output=65_536),
    Family(rf"o1-preview{_DATED}", TEXT, True, max_output=32_768),
    Family(rf"o3-mini{_DATED}", TEXT, True, THREE, 100_000),
    Family(rf"(o1|o1-pro|o3|o3-pro|o4-mini){_DATED}", SIGHT, True, THREE, 100_000),
    Family(r"gpt-oss[-:](120b|20b)(-1)?", TEXT, True, THREE),
    # Google
    Family(r"gemini-2\.0-flash(-lite)?(-001)?", SENSES, False, max_output=8192),
    Family(r"gemini-2\.5-(pro|flash|flash-lite)", SENSES, True, max_output=65_536, context=1_048_576),
    Family(r"gemini-3-pro-preview", SENSES, True, ("low", "high"), 65_536, 1_048_576),
    Family(r"gemini-3\.1-pro-preview", SENSES, True, THREE, 65_536, 1_048_576),
    Family(r"gemini-(3-flash-preview|3\.1-flash-lite(-preview)?|3\.5-flash)", SENSES, True, FOUR, 65_536),
    # xAI
    Family(r"grok-3(-fast)?(-latest|-beta)?", TEXT, False),
    Family(r"grok-3-mini(-fast)?(-latest|-beta)?", TEXT, True, ("low", "high")),
    Family(r"grok-4(\.20|[.-]1)?(-fast|-\d{4})?-non-reasoning(-latest)?", SIGHT, False),
    Family(r"grok-4(\.20|[.-]1)?(-fast)?(-\d{4})?(-reasoning)?(-latest)?", SIGHT, True),
    Family(r"grok-4\.3(-latest)?", SIGHT, True),
    Family(r"grok-code-fast-1(-0825)?", TEXT, True),
    # DeepSeek, Moonshot, MiniMax, Z.AI, Meta, Mistral: open weights, whose hosts set limits of their own
    Family(r"deepseek-chat", TEXT, False),
    Family(r"deepseek-(reasoner|r1)", TEXT, True),
    Family(r"kimi-k2-thinking(-turbo)?", TEXT, True),
    Family(r"kimi-k2(-instruct)?(-0905|-0711)?(-preview)?", TEXT, False),
    Family(r"kimi-k2\.[56]", CLIPS, True),
    Family(r"minimax-m2(\.\d)?(-highspeed)?", TEXT, True),
    Family(r"glm-(4\.[567]|5|5\.1)(-air|-flash|-flashx|-turbo)?", TEXT, True),
    Family(r"glm-4\.[56]v", CLIPS, True),
    Family(r"llama-?3[.-][13]-(8b|70b|405b)(-instruct|-instant|-versatile)?(-v1)?", TEXT, False),
    Family(r"llama-?4-(scout|maverick)(-17b)?(-16e|-128e)?(-instruct)?(-v1)?", SIGHT, False),
    Family(r"pixtral-(12b|large)(-\d{4}|-latest)?", SIGHT, False),
)

# Hosts that give a model less room than its maker does, by rules of their own.
TRIMMED = frozenset({"github-copilot"})

_COMPILED = tuple((re.compile(family.pattern), family) for family in FAMILIES)
_HOSTED = re.compile(r"^((us|eu|apac|jp|au|us-gov|global)\.)?(anthropic|meta|mistral|deepseek|openai|amazon|google)\.")


def bare(model_id: str) -> str:
    """A model's own name: without the path, region, version suffix or routing word that hosts put around it."""
    name = model_id.lower().rsplit("/", 1)[-1]
    name = re.sub(r"(-v\d+)?:\d+$", "", _HOSTED.sub("", name))
    return name.replace("@", "-")


@lru_cache(maxsize=4096)
def family(model_id: str) -> Family | None:
    """The row for a model, whoever serves it."""
    name = bare(model_id)
    return next((row for pattern, row in _COMPILED if pattern.fullmatch(name)), None)
