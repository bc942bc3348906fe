"""A stored login in use: when the provider refuses its token, it is renewed once, and the call goes on."""

from pathlib import Path

import pytest

import interlingua as il
from interlingua.connect.auth.credentials import Credential, CredentialStore, Secret
from interlingua.connect.client import Client
from interlingua.testing import Server

API = "openai-codex-responses"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("INTERLINGUA_HOME", str(tmp_path))
    return tmp_path


def logged_in(home: Path, server: Server) -> None:
    login = Credential(
        mode="oauth",
        secret=Secret("old-token"),
        refresh=Secret("refresh-1"),
        client_id="mine",
        token_url=f"{server.url}/token",
    )
    CredentialStore(home).put("openai-codex", login)


async def test_a_refused_token_is_renewed_and_the_call_goes_on(home: Path) -> None:
    """The caller sees an answer and never that the first token was refused."""
    with Server() as server:
        logged_in(home, server)
        server.route("POST", "/token", {"access_token": "new-token", "refresh_token": "refresh-2", "expires_in": 3600})
        server.answer(il.AuthFailed("expired", status=401), times=1)
        server.answer("welcome")
        message = await Client().complete("openai-codex/m", "hi", base_url=server.base_url(API), retry=0)
        bearers = [one.headers.get("Authorization") for one in server.requests if one.api == API]
    assert "welcome" == message.content[0].text  # type: ignore[union-attr]
    assert ["Bearer old-token", "Bearer new-token"] == bearers


async def test_a_token_that_is_refused_again_is_an_error(home: Path) -> None:
    """One renewal, not a loop."""
    with Server() as server:
        logged_in(home, server)
        server.route("POST", "/token", {"access_token": "new-token", "expires_in": 3600})
        server.answer(il.AuthFailed("not you", status=401))
        with pytest.raises(il.AuthFailed, match="not you"):
            await Client().complete("openai-codex/m", "hi", base_url=server.base_url(API), retry=0)
        assert 2 == len([one for one in server.requests if one.api == API])
