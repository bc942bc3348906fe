"""The gateway as a server."""

import openai

from interlingua.gateway import Gateway


async def test_openai_client_reaches_the_debug_models(gateway: Gateway) -> None:
    """
    Without any key, the offline models answer under the name that the client asked for.
    """
    async with openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="none", max_retries=0) as client:
        answer = await client.chat.completions.create(
            model="debug/echo", messages=[{"role": "user", "content": "hello"}]
        )
    assert "hello" in (answer.choices[0].message.content or "")
    assert answer.model == "debug/echo"
    assert answer.id.startswith("chatcmpl-")
