"""OpenAI's batch files: a line is one request (`custom_id`, `method`, `url`, `body`) or one answer (`response`).

Other hosts (Groq, Together, Azure, Mistral, vLLM) write the same. An answer that failed is an answer with an error.
platform.openai.com/docs/guides/batch
"""

from typing import Any

from ...values.errors import BadWire
from ...values.request import Conversation, Entry
from ..residual import an_object, body_of, fields_of, reading
from . import templates, wire_bodies
from .reading import Documents
from .wire_bodies import answer_in, failure, model_of, request_in, wire_of_answer, wire_of_request

API = "openai-batch"


@reading(API)
def decode(data: Any) -> Conversation:
    """One line: the conversation of a request, or that of the answer alone."""
    body = an_object(body_of(data, API), API)
    if isinstance(body.get("body"), dict):
        wire = wire_of_request(body["body"], body.get("url"))
        if wire is None:
            raise wire_bodies.refuse(API, f"a request to {body.get('url') or 'nowhere'}", "$.body")
        return templates.keep(request_in(body["body"], wire), body, API, request=(body["body"], wire))
    if "response" not in body and "error" not in body:
        raise BadWire(API, "expected a `body` or a `response` beside the `custom_id`")
    response = fields_of(body.get("response"))
    given = response.get("body")
    wire = wire_of_answer(given)
    if wire is not None:
        answer = answer_in(given, wire)
    elif body.get("error") or not given or "error" in fields_of(given):
        answer = failure(body.get("error") or given)
    else:
        raise wire_bodies.refuse(API, "this answer", "$.response.body")
    conversation = Conversation(entries=(Entry(message=answer),), model=model_of(answer))
    return templates.keep(conversation, body, API)


def _is_line(value: Any) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("custom_id"), str | int):
        return False
    if isinstance(value.get("body"), dict):
        return wire_of_request(value["body"], value.get("url")) is not None
    given = fields_of(value.get("response")).get("body")
    if not isinstance(given, dict) and not ("response" in value and "error" in value):
        return False
    return not given or wire_of_answer(given) is not None or "error" in fields_of(given)


DOCUMENTS = Documents(API, _is_line, "a `custom_id` beside a request's `body` or its `response`", "lines")
FORMAT = templates.file_format(API, decode, detect=DOCUMENTS.detect, split=DOCUMENTS.split, rank=20)
