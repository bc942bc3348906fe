"""Requests: the system prompt, tools, options, paths."""

from typing import Any

from ...values.losses import SYSTEM, Reporter
from ...values.messages import TextBlock
from ...values.request import (
    Context,
    Options,
    OutputSchema,
    Reasoning,
    Request,
    System,
    ToolChoice,
)
from ..codec import (
    Given,
    Quirks,
    conversation_codec,
    decode_function_tool,
    encode_function_tool,
    read_options,
    report_first_system,
    request_decoder,
    request_encoder,
    write_options,
)
from ..residual import (
    an_object,
    decode_tools,
    encode_tools,
    fields_of,
    keeping,
    own_path,
    put_back,
    residual,
    residual_of,
    restored,
    whole,
    with_residual,
)
from .content import decode_content, decode_messages, encode_content, encode_messages
from .facts import API, FIELD_SUPPORT, OPTIONS, PROMPT


@request_decoder(API)
def decode_request(body: Any, given: Given) -> Request:
    """A chat request. `mint` generates ids for calls without one."""
    wire = an_object(body, API)
    messages = wire.get("messages")
    read = decode_messages(messages, given.mint, given.api) if "messages" in wire else ()
    # docs.cohere.com/reference/chat, `messages`: the system prompt is a message of role `system`.
    prompt = messages[0] if isinstance(messages, list) and messages and is_prompt(messages[0]) else None
    request = Request(
        model=given.model_of(wire.get("model")),
        context=Context(
            system=_decode_system(prompt["content"]) if prompt else None,
            messages=read[1:] if prompt else read,
            tools=decode_tools(wire.get("tools"), API, lambda tool: decode_function_tool(tool, API)),
        ),
        options=Options(
            **read_options(wire, OPTIONS),
            reasoning=_decode_reasoning(wire.get("thinking")),
            tool_choice=_decode_choice(wire.get("tool_choice")),
            output_schema=_decode_schema(wire.get("response_format")),
            stream=given.stream_of(wire),
        ),
    )
    request = keeping(request, API, wire, encode_request(request, quirks=given.quirks).body, ("messages",))
    extra_fields = residual(prompt, _prompt(request.context.system, Reporter())) if prompt else None
    return with_residual(request, API, **{PROMPT: extra_fields}) if extra_fields else request


def is_prompt(wire: Any) -> bool:
    """Whether a first message is the system prompt: a system message with text only."""
    if not isinstance(wire, dict) or wire.get("role") != "system":
        return False
    content = wire.get("content")
    return isinstance(content, str) or (isinstance(content, list) and _decode_system(content) is not None)


def _decode_system(wire: Any) -> System:
    if isinstance(wire, str):
        return wire
    blocks = decode_content(wire)
    return blocks if all(isinstance(block, TextBlock) for block in blocks or ()) else None  # type: ignore[return-value]


def _prompt(system: System, report: Reporter) -> dict[str, Any]:
    report.root = SYSTEM
    wire = {"role": "system", **encode_content(system, report)}
    report.root = ""
    return wire


def _decode_reasoning(wire: Any) -> Reasoning | None:
    # docs.cohere.com/docs/reasoning: {"type": "enabled" or "disabled", "token_budget": …}
    match fields_of(wire).get("type"):
        case "enabled":
            budget = whole(wire.get("token_budget"))
            return Reasoning(enabled=True if budget is None else None, budget=budget)
        case "disabled":
            return Reasoning(enabled=False)
    return None


def _decode_choice(wire: Any) -> ToolChoice | None:
    # docs.cohere.com/reference/chat, `tool_choice`: REQUIRED or NONE; without it the model decides.
    return ToolChoice(mode="required") if wire == "REQUIRED" else ToolChoice(mode="none") if wire == "NONE" else None


def _decode_schema(wire: Any) -> OutputSchema | None:
    given = fields_of(wire)
    if given.get("type") != "json_object":
        return None
    return OutputSchema(schema=given.get("json_schema", given.get("schema")))  # examples have `schema`


@request_encoder(API, FIELD_SUPPORT)
def encode_request(request: Request, report: Reporter, quirks: Quirks) -> dict[str, Any]:
    """The body of a chat request."""
    context, options = request.context, request.options
    body: dict[str, Any] = {}
    if request.model.id:
        body["model"] = request.model.id
    body["messages"] = encode_messages(context.messages, report)
    if context.system is not None:
        prompt = put_back(_prompt(context.system, report), residual_of(request.extra, API).get(PROMPT, {}))
        body["messages"].insert(0, prompt)
    elif body["messages"] and is_prompt(body["messages"][0]):
        report_first_system(report)
    if context.tools is not None:
        body["tools"] = encode_tools(context.tools, API, lambda spec: encode_function_tool(spec, API), report)
    _encode_options(body, options, report)
    return restored(body, request.extra, API)


def _encode_options(body: dict[str, Any], options: Options, report: Reporter) -> None:
    write_options(body, options, OPTIONS)
    if options.stream is not None:
        body["stream"] = options.stream
    if options.output_schema is not None:
        schema = options.output_schema.schema
        # docs.cohere.com/reference/chat, `response_format`: a schema is optional; without one, the prompt must ask for
        # JSON.
        body["response_format"] = {"type": "json_object", **({} if schema is None else {"json_schema": schema})}
    if options.reasoning is not None:
        _encode_reasoning(body, options.reasoning, report)
    if options.tool_choice is not None:
        _encode_choice(body, options.tool_choice, report)


def _encode_reasoning(body: dict[str, Any], reasoning: Reasoning, report: Reporter) -> None:
    if reasoning.enabled is False:
        body["thinking"] = {"type": "disabled"}
        if reasoning.effort is not None or reasoning.budget is not None:
            report.at("$.options.reasoning", "reasoning", "thinking is off", "record")
    elif reasoning.budget is not None:
        body["thinking"] = {"type": "enabled", "token_budget": reasoning.budget}
        if reasoning.enabled:
            report.at("$.options.reasoning.enabled", "enabled", "implied by the budget", "record")
        if reasoning.effort is not None:
            report.at("$.options.reasoning.effort", "effort", "a budget is sent, no effort")
    # docs.cohere.com/docs/reasoning: models that reason do so unless it is disabled; there is no effort.
    elif reasoning.enabled or reasoning.effort is not None:
        body["thinking"] = {"type": "enabled"}
        if reasoning.effort is not None:
            report.at("$.options.reasoning", "effort", "thinking is on or off, without a degree", "weakened")
    else:
        report.at("$.options.reasoning", "reasoning", "nothing to send", "record")


def _encode_choice(body: dict[str, Any], choice: ToolChoice, report: Reporter) -> None:
    if choice.mode == "auto":
        report.at("$.options.toolChoice", "tool_choice", "the model chooses by default", "record")
    else:
        body["tool_choice"] = "REQUIRED" if choice.mode == "required" else "NONE"
    if choice.names:
        # docs.cohere.com/reference/chat, `tool_choice`: no value names a tool.
        report.at("$.options.toolChoice.names", "tool_choice", "the choice is any tool or none", "weakened")


def path(model: str, stream: bool, *, quirks: Quirks = None) -> str:
    # v1 has another format, with `message` and `chat_history`.
    return own_path(quirks, model) or "/v2/chat"


decode, encode = conversation_codec(API, decode_request, encode_request)
