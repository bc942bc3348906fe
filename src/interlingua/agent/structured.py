"""Final answers that must be JSON of a schema."""

import re
from typing import Any, NamedTuple

from ..values import jsontext
from ..values.errors import FormatError

_FENCED = re.compile(r"\s*```(?:json)?\s*\n(.*)\n\s*```\s*", re.DOTALL)


class Output(NamedTuple):
    """What a text says as a value; or what is wrong with it, in words for the model."""

    value: Any = None
    problem: str | None = None


def output_of(text: str, schema: Any) -> Output:
    """Reads a final answer. A fence around the JSON is no mistake: models without a JSON mode put one there."""
    fenced = _FENCED.fullmatch(text)
    try:
        value = jsontext.read(fenced[1] if fenced else text)
    except FormatError as error:
        return Output(problem=f"it is not JSON ({error.message}).")
    if schema is None:
        return Output(value) if isinstance(value, dict) else Output(problem="it is not a JSON object.")
    problems = [
        f"{'/'.join(map(str, error.instance_path)) or '(root)'}: {error.message}"
        for error in validator(schema).iter_errors(value)
    ]
    return Output(problem=f"it does not match the schema: {'; '.join(problems[:5])}.") if problems else Output(value)


def validator(schema: Any) -> Any:
    """What checks values against the schema; raises FormatError for what is no JSON Schema."""
    import jsonschema_rs

    try:
        return jsonschema_rs.validator_for(schema)
    except ValueError as error:
        raise FormatError(f"the schema of the output is no JSON Schema: {str(error).partition(chr(10))[0]}") from error
