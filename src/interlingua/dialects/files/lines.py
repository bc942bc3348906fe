"""What the conversation formats share: lines of JSON, and what files say nothing about, as rows for their tables."""

from collections.abc import Sequence
from typing import Any

from ...values import jsontext
from ...values.errors import BadWire, FormatError
from ...values.losses import SupportTable, dropped, kept, record
from ...values.messages import Block, OpaqueBlock

OWN = "~own"  # a role that the format does not know, but that stood in it

# Rows for formats that hold messages and not the call they were made with.
NO_CALL: SupportTable = {
    **dropped(
        "Options.max_tokens Options.temperature Options.top_p Options.top_k Options.stop Options.seed"
        " Options.reasoning Options.tool_choice Options.parallel_tools Options.output_schema Options.cache_retention"
        " Options.session_id Options.service_tier Options.metadata Options.stream"
        " Reasoning.effort Reasoning.budget Reasoning.enabled Reasoning.summary ToolChoice.mode ToolChoice.names"
        " OutputSchema.schema OutputSchema.name OutputSchema.description OutputSchema.strict",
        "the format holds messages, not the options of a call",
    ),
    **record(
        "ModelDescriptor.id ModelDescriptor.name ModelDescriptor.api ModelDescriptor.provider ModelDescriptor.base_url"
        " ModelDescriptor.reasoning ModelDescriptor.input ModelDescriptor.cost ModelDescriptor.context_window"
        " ModelDescriptor.max_tokens ModelDescriptor.headers ModelDescriptor.compat ModelDescriptor.extra",
        "the format holds messages, not the model that is asked",
    ),
    **dropped("Options.extra Reasoning.extra ToolChoice.extra OutputSchema.extra", "no place in this format"),
}

# Rows for formats that are a list of messages.
LINEAR: SupportTable = {
    **dropped("Conversation.entries", "a list holds one path through the tree: this is not on the way to the head"),
    **record("Entry.id Entry.parent_id Entry.parents", "the messages of a list have no ids"),
    **kept("Conversation.head"),  # a list stands at its end
}


def is_null(block: Block, api: str) -> bool:
    """A null that stood where a block should be: to be told from a block that cannot be said."""
    return isinstance(block, OpaqueBlock) and block.dialect == api and block.value is None


def lines_of(data: Any, api: str) -> list[dict[str, Any]]:
    """The lines of a line format as JSON values; one that is no JSON object is named by its number."""
    if isinstance(data, dict):  # a file of one line
        return [data]
    if isinstance(data, bytes | bytearray):
        return _read_lines(bytes(data).split(b"\n"), api)
    if isinstance(data, str):
        return _read_lines(data.split("\n"), api)  # not splitlines(): U+2028 may stand raw inside a JSON string
    if not isinstance(data, list | tuple):
        raise BadWire(api, f"expected lines of JSON objects, got {type(data).__name__}")
    return [_line(value, number, api) for number, value in enumerate(data, 1)]


def _read_lines(lines: Sequence[bytes | str], api: str) -> list[dict[str, Any]]:
    out = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                value = jsontext.read(line)
            except FormatError as error:
                raise BadWire(api, f"line {number}: {error.message}", f"$[{number - 1}]") from None
            out.append(_line(value, number, api))
    return out


def _line(value: Any, number: int, api: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadWire(api, f"line {number}: expected an object, got {type(value).__name__}", f"$[{number - 1}]")
    return value
