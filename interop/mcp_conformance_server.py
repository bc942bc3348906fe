"""A server of ours with what the official conformance suite asks for: `mcp_conformance_server.py PORT`."""

import asyncio
import base64
import sys

import mcp_types as types

from interlingua import UserMessage, tool
from interlingua.mcp import Argument, Prompt, Resource, current_session, log, make_server, serve_http
from interlingua.tools import Tool, ToolResult
from interlingua.tools.policy import ALLOW
from interlingua.values.messages import AudioBlock, DocumentBlock, ImageBlock, TextBlock

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
WAV = "UklGRiQAAABXQVZFZm10IBAAAAABAAEARKwAAIhYAQACABAAZGF0YQAAAAA="


@tool
def test_simple_text() -> str:
    """A text."""
    return "This is a simple text response for testing."


@tool
def test_image_content() -> ToolResult:
    """An image."""
    return ToolResult(content=(ImageBlock(data=PNG, mime_type="image/png"),))


@tool
def test_audio_content() -> ToolResult:
    """A sound."""
    return ToolResult(content=(AudioBlock(data=WAV, mime_type="audio/wav"),))


def document(uri: str) -> DocumentBlock:
    return DocumentBlock(text="This is an embedded resource content.", mime_type="text/plain", url=uri)


@tool
def test_embedded_resource() -> ToolResult:
    """A resource."""
    return ToolResult(content=(document("test://embedded-resource"),))


@tool
def test_multiple_content_types() -> ToolResult:
    """Text, image and resource."""
    blocks = (TextBlock(text="Multiple content types test:"), ImageBlock(data=PNG, mime_type="image/png"))
    return ToolResult(content=(*blocks, document("test://mixed-content-resource")))


@tool
async def test_tool_with_logging() -> str:
    """Logs three times."""
    for text in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await log("info", text)
        await asyncio.sleep(0.05)
    return "Tool with logging executed successfully"


@tool
async def test_error_handling() -> str:
    """Always fails."""
    raise ValueError("This tool intentionally returns an error for testing")


async def _progress(id, params, signal=None, on_update=None):
    for value in (0, 50, 100):
        await current_session().report_progress(float(value), 100.0, f"Completed step {value} of 100")
        await asyncio.sleep(0.05)
    return ToolResult(content=(TextBlock(text="done"),))


@tool
async def test_sampling(prompt: str) -> str:
    """Has the client's model answer."""
    answer = await current_session().create_message(
        messages=[types.SamplingMessage(role="user", content=types.TextContent(text=prompt))], max_tokens=100
    )
    return f"LLM response: {answer.content.text}"


async def elicited(message: str, properties: dict, required: tuple[str, ...] = ()) -> str:
    schema = {"type": "object", "properties": properties, "required": list(required)}
    answer = await current_session().elicit_form(message, schema)
    return f"Elicitation completed: action={answer.action}, content={answer.content}"


@tool
async def test_elicitation(message: str) -> str:
    """Asks the user."""
    fields = {
        "username": {"type": "string", "description": "User's response"},
        "email": {"type": "string", "description": "User's email address"},
    }
    return await elicited(message, fields, ("username", "email"))


@tool
async def test_elicitation_sep1034_defaults() -> str:
    """Asks with defaults."""
    return await elicited(
        "Please review and update the form fields with defaults",
        {
            "name": {"type": "string", "default": "John Doe"},
            "age": {"type": "integer", "default": 30},
            "score": {"type": "number", "default": 95.5},
            "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
            "verified": {"type": "boolean", "default": True},
        },
    )


@tool
async def test_elicitation_sep1330_enums() -> str:
    """Asks for choices."""
    titled = [{"const": f"value{number}", "title": f"{number}. Option"} for number in (1, 2, 3)]
    plain = ["option1", "option2", "option3"]
    names = ["Option One", "Option Two", "Option Three"]
    return await elicited(
        "Please select options",
        {
            "untitledSingle": {"type": "string", "enum": plain},
            "titledSingle": {"type": "string", "oneOf": titled},
            "legacyEnum": {"type": "string", "enum": ["opt1", "opt2", "opt3"], "enumNames": names},
            "untitledMulti": {"type": "array", "items": {"type": "string", "enum": plain}},
            "titledMulti": {"type": "array", "items": {"anyOf": titled}},
        },
    )


SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {"address": {"type": "object", "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}},
    "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}},
    "additionalProperties": False,
}


async def _echo(id, params, signal=None, on_update=None):
    return ToolResult(content=(TextBlock(text=str(params)),))


TOOLS = [
    test_simple_text,
    test_image_content,
    test_audio_content,
    test_embedded_resource,
    test_multiple_content_types,
    test_tool_with_logging,
    test_error_handling,
    Tool(name="test_tool_with_progress", description="Tells its progress.", parameters={}, execute=_progress),
    test_sampling,
    test_elicitation,
    test_elicitation_sep1034_defaults,
    test_elicitation_sep1330_enums,
    Tool(name="json_schema_2020_12_tool", description="A schema.", parameters=SCHEMA, execute=_echo),
]


def data_of(id: str) -> str:
    return f'{{"id": "{id}", "templateTest": true, "data": "Data for ID: {id}"}}'


RESOURCES = [
    Resource(uri="test://static-text", name="text", read="This is the content of the static text resource."),
    Resource(uri="test://static-binary", name="image", read=base64.b64decode(PNG), mime_type="image/png"),
    Resource(uri="test://watched-resource", name="watched", read=lambda: "This is watched."),
    Resource(uri="test://template/{id}/data", name="template", read=data_of, mime_type="application/json"),
]


def with_resource(resourceUri: str) -> list[UserMessage]:
    return [UserMessage(content=(document(resourceUri),)), UserMessage(content="Please process the resource above.")]


def with_image() -> list[UserMessage]:
    return [
        UserMessage(content=(ImageBlock(data=PNG, mime_type="image/png"),)),
        UserMessage(content="Please analyze the image above."),
    ]


PROMPTS = [
    Prompt(name="test_simple_prompt", description="Simple.", render=lambda: "This is a simple prompt for testing."),
    Prompt(
        name="test_prompt_with_arguments",
        description="With arguments.",
        arguments=(Argument(name="arg1", choices=("paris", "park", "party")), Argument(name="arg2")),
        render=lambda arg1, arg2: f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'",
    ),
    Prompt(
        name="test_prompt_with_embedded_resource",
        description="With a resource.",
        arguments=(Argument(name="resourceUri"),),
        render=with_resource,
    ),
    Prompt(name="test_prompt_with_image", description="With an image.", render=with_image),
]


if __name__ == "__main__":
    served = make_server(TOOLS, policy=ALLOW, resources=RESOURCES, prompts=PROMPTS)
    asyncio.run(serve_http(served, port=int(sys.argv[1]), on_ready=lambda url: print(url, flush=True)))
