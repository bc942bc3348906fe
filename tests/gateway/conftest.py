"""A gateway in front of a test server, with one alias for each upstream wire."""

from collections.abc import AsyncIterator, Iterator

import pytest

from interlingua.gateway import Alias, Gateway, Listen, ProviderSettings, Settings, Target
from interlingua.testing import Server

WIRES = (
    "openai-completions",
    "openai-responses",
    "anthropic-messages",
    "google-generative-ai",
    "bedrock-converse-stream",
    "ollama-chat",
)


def settings_for(upstream: Server, **more: object) -> Settings:
    """One provider and one alias per wire; an alias bears the name of its wire."""
    return Settings(
        providers=tuple(
            ProviderSettings(id=f"up-{api}", api=api, base_url=upstream.base_url(api), api_keys=("upstream-key",))
            for api in WIRES
        ),
        aliases=tuple(Alias(name=api, targets=(Target(model=f"up-{api}/test-model"),), retries=0) for api in WIRES),
        listen=Listen(port=0),
        **more,  # type: ignore[arg-type]
    )


@pytest.fixture
def upstream() -> Iterator[Server]:
    with Server(strict=True) as server:
        yield server


@pytest.fixture
async def gateway(upstream: Server) -> AsyncIterator[Gateway]:
    async with Gateway(settings_for(upstream)) as running:
        yield running
