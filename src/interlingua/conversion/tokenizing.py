"""Token counts by a tokenizer: a tiktoken encoding, or a file. Requires the extra `tokens`.

Counts the texts that a model reads: the system text, messages, thinking, calls, results and tools on the path. The
tokens of a chat template depend on the model and are not counted.
"""

import base64
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from ..values import jsontext
from ..values.errors import InterlinguaError
from ..values.folding import arguments_text
from ..values.messages import (
    AgentMessage,
    CustomMessage,
    DocumentBlock,
    ServerToolCall,
    ServerToolResult,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    blocks_of,
    text_of,
)
from ..values.request import Conversation

Count = Callable[[str], int]

# How o200k_base splits a text before it is encoded (tiktoken_ext/openai_public.py); a file of ranks does not contain
# it.
_PATTERN = "|".join(
    [
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    ]
)


def counter(name: str) -> Count:
    """Returns a token counter: by the name of a tiktoken encoding or of an OpenAI model, or the path of a file.

    A file is a Hugging Face `tokenizer.json`, or tiktoken ranks (`.tiktoken`). Only tiktoken's own encodings are ever
    downloaded.
    """
    if name.endswith((".json", ".tiktoken")) and not Path(name).is_file():
        raise InterlinguaError(f"tokenizer {name!r}: no such file; give a tokenizer.json or a .tiktoken file of ranks")
    if name.endswith(".json"):
        return _hugging_face(name)
    try:
        import tiktoken
    except ImportError:
        raise InterlinguaError(f"tokenizer {name!r}: tiktoken is missing; install interlingua[tokens]") from None
    try:
        if name.endswith(".tiktoken"):
            encoding = tiktoken.Encoding(
                Path(name).stem, pat_str=_PATTERN, mergeable_ranks=_ranks(name), special_tokens={}
            )
        elif name in tiktoken.list_encoding_names():
            encoding = tiktoken.get_encoding(name)
        else:
            encoding = tiktoken.encoding_for_model(name)
    except KeyError:
        known = ", ".join(tiktoken.list_encoding_names())
        raise InterlinguaError(
            f"unknown tokenizer {name!r}; valid are {known}, a model of OpenAI's, a tokenizer.json or a .tiktoken file"
        ) from None
    except InterlinguaError:
        raise
    except OSError as error:
        raise InterlinguaError(
            f"tokenizer {name!r}: its ranks are not on this machine, and the download failed ({type(error).__name__});"
            " give a tokenizer.json or a .tiktoken file, or set TIKTOKEN_CACHE_DIR to a folder with tiktoken's cache"
        ) from None
    except Exception as error:  # any other error of tiktoken
        raise InterlinguaError(f"tokenizer {name!r}: {type(error).__name__}: {error}") from None
    return lambda text: len(encoding.encode_ordinary(text))


def _ranks(path: str) -> dict[bytes, int]:
    """Reads a file of ranks. tiktoken's own reader caches files by their path, and accepts ranks that make it panic."""
    ranks: dict[bytes, int] = {}
    for number, line in enumerate(Path(path).read_bytes().splitlines(), 1):
        try:
            token, rank = line.split()
            ranks[base64.b64decode(token, validate=True)] = int(rank)
        except ValueError:
            raise InterlinguaError(
                f"tokenizer {path!r}: line {number} is not a token in base64 and its rank; give a .tiktoken file"
            ) from None
    missing = 256 - sum(len(token) == 1 for token in ranks)
    if missing:
        raise InterlinguaError(f"tokenizer {path!r}: {missing} of the 256 bytes have no rank; give a complete file")
    if len(set(ranks.values())) < len(ranks):
        raise InterlinguaError(f"tokenizer {path!r}: two tokens have the same rank; give a complete file")
    return ranks


def _hugging_face(path: str) -> Count:
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise InterlinguaError(f"tokenizer {path!r}: tokenizers is missing; install interlingua[tokens]") from None
    try:
        tokenizer = Tokenizer.from_file(path)
    except Exception as error:  # the only type that it raises
        raise InterlinguaError(f"tokenizer {path!r}: not a tokenizer.json: {error}") from None
    tokenizer.no_truncation()
    tokenizer.no_padding()

    def count(text: str) -> int:
        try:
            return len(tokenizer.encode(text, add_special_tokens=False).ids)
        except Exception as error:  # the only type that it raises: a token for unknown text is missing
            raise InterlinguaError(f"tokenizer {path!r}: {error}") from None

    return count


def tokens(conversation: Conversation, count: Count, messages: Iterable[AgentMessage] | None = None) -> int:
    """Counts the tokens that the model reads and wrote on the path to the head, or in these messages."""
    read = conversation.messages if messages is None else messages
    return sum(count(text) for text in _texts(conversation, read) if text)


def _texts(conversation: Conversation, messages: Iterable[AgentMessage]) -> Iterator[str]:
    yield text_of(conversation.system)
    for tool in conversation.tools or ():
        yield jsontext.compact(tool.value if tool.dialect is not None else _definition(tool))
    for message in messages:
        if not isinstance(message, CustomMessage):
            for block in blocks_of(message.content):
                yield _text(block)


def _definition(tool: Any) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description or "", "parameters": tool.input_schema or {}}


def _text(block: Any) -> str:
    match block:
        case TextBlock() | DocumentBlock():
            return block.text or ""
        case ThinkingBlock():
            return block.thinking
        case ToolCall():
            return f"{block.name}{arguments_text(block)}"
        case ServerToolCall():
            return f"{block.name}{jsontext.compact(block.arguments)}"
        case ServerToolResult():
            return jsontext.compact(block.content)
        case _:
            return ""
