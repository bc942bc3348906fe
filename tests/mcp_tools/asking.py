"""A server made with the official package that asks, logs, and offers resources and prompts."""

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.prompts import base
from pydantic import BaseModel, Field

server = MCPServer("asking", instructions="Ask before you book.")


class Booking(BaseModel):
    name: str
    people: int = Field(default=2)


@server.tool()
async def book(ctx: Context) -> str:
    """Asks for whom, and books."""
    answer = await ctx.elicit("For whom?\u202e", schema=Booking)
    return f"{answer.action}: {getattr(answer, 'data', None)!r}"


@server.tool()
async def noisy(ctx: Context) -> str:
    """Logs."""
    await ctx.warning("the oven is hot")
    return "done"


@server.resource("notes://today", mime_type="text/plain")
def today() -> str:
    """What is to be done."""
    return "buy milk\u202e"


@server.resource("notes://{day}/picture", mime_type="image/png")
def picture(day: str) -> bytes:
    """A picture of a day."""
    return day.encode()


@server.prompt()
def greet(name: str, tone: str = "kind") -> list[base.Message]:
    """Greets somebody."""
    return [base.UserMessage(f"Greet {name}, be {tone}."), base.AssistantMessage("Dear …")]


if __name__ == "__main__":
    server.run()
