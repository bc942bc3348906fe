"""Token counts by a tokenizer: a tiktoken encoding, or a file. Requires the extra `tokens`.

Counts the texts that a model reads: the system text, messages, thinking, calls, results and tools on the path. The
tokens of a chat template depend on the model and are not counted.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ..values import jsontext
from ..values.errors import InterlinguaError
from ..values.folding import arguments_text
from ..values.messages import (
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
        from tiktoken.load import load_tiktoken_bpe
    except ImportError:
        raise InterlinguaError(f"tokenizer {name!r}: tiktoken is missing; install interlingua[tokens]") from None
    try:
        if name.endswith(".tiktoken"):
            encoding = tiktoken.Encoding(
                Path(name).stem, pat_str=_PATTERN, mergeable_ranks=load_tiktoken_bpe(name), special_tokens={}
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
    except Exception as error:  # any error of its reader and its download
        raise InterlinguaError(f"tokenizer {name!r}: {type(error).__name__}: {error}") from None
    return lambda text: len(encoding.encode_ordinary(text))


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
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)


def tokens(conversation: Conversation, count: Count) -> int:
    """Counts the tokens that the model reads and wrote on the path to the head."""
    return sum(count(text) for text in _texts(conversation) if text)


def _texts(conversation: Conversation) -> Iterator[str]:
    yield text_of(conversation.system)
    for tool in conversation.tools or ():
        yield jsontext.compact(tool.value if tool.dialect is not None else _definition(tool))
    for message in conversation.messages:
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
