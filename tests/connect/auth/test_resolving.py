"""Where a key comes from: one order, trimmed values, the right mode, and a name for every place."""

from pathlib import Path

import pytest

from interlingua.connect.auth.credentials import Credential, CredentialStore, Secret
from interlingua.connect.auth.resolver import AuthResolver, authenticate, convention, missing, resolve_auth, tried
from interlingua.connect.providers import PROVIDERS
from interlingua.values.errors import AuthFailed
from interlingua.values.request import ResolvedAuth


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path), "INTERLINGUA_HOME": str(tmp_path / "il")}


def store_in(env: dict[str, str]) -> CredentialStore:
    return CredentialStore(env=env)


def test_nothing_anywhere_is_none(env: dict[str, str]) -> None:
    """No key is no error here: the caller decides."""
    assert resolve_auth("anthropic", env=env) is None


def test_the_order_is_given_variables_convention_stored(env: dict[str, str]) -> None:
    """Taking the winner away each time brings up the next."""
    store_in(env).put("acme", Credential(mode="api-key", secret=Secret("stored-key")))
    env |= {"FIRST": "first-key", "SECOND": "second-key", "ACME_API_KEY": "usual-key"}
    names = ("FIRST", "SECOND")
    seen = [resolve_auth("acme", names, "given-key", env=env)]
    for gone in ("FIRST", "SECOND", "ACME_API_KEY", None):
        seen.append(resolve_auth("acme", names, env=env))
        env.pop(gone or "", None)
    assert [
        ResolvedAuth(api_key="given-key", source="explicit", mode="api-key"),
        ResolvedAuth(api_key="first-key", source="env:FIRST", mode="api-key"),
        ResolvedAuth(api_key="second-key", source="env:SECOND", mode="api-key"),
        ResolvedAuth(api_key="usual-key", source="env:ACME_API_KEY", mode="api-key"),
        ResolvedAuth(api_key="stored-key", source="stored:file", mode="api-key"),
    ] == seen


def test_values_are_trimmed_and_blank_is_absent(env: dict[str, str]) -> None:
    """A trailing newline is no part of a key, and spaces are no key."""
    env |= {"ANTHROPIC_OAUTH_TOKEN": "  ", "ANTHROPIC_API_KEY": " sk-1\n"}
    found = resolve_auth("anthropic", explicit_key="\t", env=env)
    assert found is not None
    assert ("sk-1", "env:ANTHROPIC_API_KEY") == (found.api_key, found.source)


@pytest.mark.parametrize(
    ("provider", "variable"),
    [("my-host", "MY_HOST_API_KEY"), ("my.host/x y", "MY_HOST_X_Y_API_KEY"), ("groq", "GROQ_API_KEY")],
)
def test_the_usual_variable_of_any_provider(provider: str, variable: str, env: dict[str, str]) -> None:
    """Everything that no variable may hold becomes an underscore."""
    assert variable == convention(provider)
    found = resolve_auth(provider, env=env | {variable: "k"})
    assert found is not None and f"env:{variable}" == found.source


@pytest.mark.parametrize("provider", [row.id for row in PROVIDERS.values() if row.env])
def test_every_provider_is_found_by_its_own_variables(provider: str, env: dict[str, str]) -> None:
    """Without being told the variables: the row knows them."""
    for variable in PROVIDERS[provider].env:
        found = resolve_auth(provider, env=env | {variable: "k"})
        assert found is not None
        assert ("k", f"env:{variable}") == (found.api_key, found.source)


@pytest.mark.parametrize(
    ("variable", "value", "mode"),
    [
        ("ANTHROPIC_OAUTH_TOKEN", "t", "oauth"),
        ("ANTHROPIC_API_KEY", "sk-ant-" + "api03-x", "api-key"),
        ("ANTHROPIC_API_KEY", "sk-ant-oat01-x", "oauth"),
        ("HF_TOKEN", "hf_x", "token"),
        ("AWS_BEARER_TOKEN_BEDROCK", "b", "token"),
    ],
)
def test_the_mode_follows_what_the_variable_holds(variable: str, value: str, mode: str, env: dict[str, str]) -> None:
    """A login's token is not an API key, even in the key's variable."""
    found = resolve_auth("x", (variable,), env=env | {variable: value})
    assert found is not None and mode == found.mode


def test_a_dotenv_file_is_not_read(env: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What lies in the working folder is no key."""
    (tmp_path / ".env").write_text("GROQ_API_KEY=from-file\n")
    monkeypatch.chdir(tmp_path)
    assert resolve_auth("groq", env=env) is None


@pytest.mark.parametrize("key", ["sk-1\nX-Evil: 1", "sk one", "sk-ключ", "sk-\x00"])
def test_a_key_that_no_header_can_hold_is_refused_unseen(key: str, env: dict[str, str]) -> None:
    """The error names the variable, never the value."""
    with pytest.raises(AuthFailed) as caught:
        resolve_auth("groq", env=env | {"GROQ_API_KEY": key})
    assert "env:GROQ_API_KEY" in str(caught.value)
    assert "sk" not in str(caught.value)


def test_a_key_may_be_a_json_object(env: dict[str, str]) -> None:
    """A token and its project in one, spaces included."""
    key = '{"token": "t", "projectId": "p"}'
    found = resolve_auth("google-gemini-cli", explicit_key=key, env=env)
    assert found is not None and key == found.api_key


def test_a_stored_login_says_so(env: dict[str, str]) -> None:
    """Mode and source tell a login from a key."""
    store_in(env).put("acme", Credential(mode="oauth", secret=Secret("access"), refresh=Secret("again")))
    assert ResolvedAuth(api_key="access", source="stored:file", mode="oauth") == resolve_auth("acme", env=env)


def test_a_stored_credential_is_not_touched_when_a_variable_counts(env: dict[str, str]) -> None:
    """A broken store does not disturb whoever does not use it."""
    folder = Path(env["INTERLINGUA_HOME"])
    folder.mkdir(mode=0o700)
    (folder / "credentials.json").write_text("broken")
    found = resolve_auth("groq", env=env | {"GROQ_API_KEY": "k"})
    assert found is not None and found.source == "env:GROQ_API_KEY"


def test_tried_names_every_place_in_order(env: dict[str, str]) -> None:
    """For the error message."""
    assert ("ANTHROPIC_OAUTH_TOKEN", "ANTHROPIC_API_KEY", f"{env['INTERLINGUA_HOME']}/credentials.json") == tried(
        "anthropic", env=env
    )


def test_the_error_for_a_missing_key_says_where_it_was_missed_and_what_to_do(env: dict[str, str]) -> None:
    """Every variable, the file, the command."""
    message = str(missing("anthropic", env=env))
    for word in (*tried("anthropic", env=env), "interlingua auth login anthropic"):
        assert word in message


@pytest.mark.parametrize(
    ("given", "source", "profile"),
    [
        ({"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "s"}, "aws:env", None),
        ({"AWS_PROFILE": "work"}, "aws:profile", "work"),
        ({"AWS_WEB_IDENTITY_TOKEN_FILE": "/t", "AWS_ROLE_ARN": "r"}, "aws:web-identity", None),
        ({"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "/x"}, "aws:container", None),
        ({"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://x"}, "aws:container", None),
    ],
)
def test_the_traces_of_aws_credentials(
    given: dict[str, str], source: str, profile: str | None, env: dict[str, str]
) -> None:
    """AWS signs; there is no key to send."""
    assert ResolvedAuth(mode="aws-sdk", source=source, profile_id=profile) == resolve_auth(
        "amazon-bedrock", env=env | given
    )


def test_half_a_pair_of_aws_keys_is_nothing(env: dict[str, str]) -> None:
    """An id without its secret cannot sign."""
    assert resolve_auth("amazon-bedrock", env=env | {"AWS_ACCESS_KEY_ID": "a"}) is None


def test_the_aws_files_come_last_and_count_only_with_keys(env: dict[str, str], tmp_path: Path) -> None:
    """A profile that only names a region is no credential; a stored key counts before the files."""
    config = tmp_path / ".aws/config"
    config.parent.mkdir()
    config.write_text("[default]\nregion = eu-west-1\n")
    assert resolve_auth("amazon-bedrock", env=env) is None
    config.write_text("[default]\nsso_session = work\n")
    assert ResolvedAuth(mode="aws-sdk", source="aws:profile", profile_id="default") == resolve_auth(
        "amazon-bedrock", env=env
    )
    store_in(env).put("amazon-bedrock", Credential(mode="api-key", secret=Secret("bearer")))
    found = resolve_auth("amazon-bedrock", env=env)
    assert found is not None and found.source == "stored:file"


def test_google_credentials_are_seen_and_never_taken_for_a_key(env: dict[str, str], tmp_path: Path) -> None:
    """Neither the file's name nor the marker of other programs is a key."""
    by_variable = resolve_auth("google-vertex", env=env | {"GOOGLE_APPLICATION_CREDENTIALS": "/adc.json"})
    assert ResolvedAuth(mode="oauth", source="google:GOOGLE_APPLICATION_CREDENTIALS") == by_variable
    adc = tmp_path / ".config/gcloud/application_default_credentials.json"
    adc.parent.mkdir(parents=True)
    adc.write_text("{}")
    marked = resolve_auth("google-vertex", explicit_key="<authenticated>", env=env)
    assert ResolvedAuth(mode="oauth", source="google:adc") == marked


async def test_authenticate_gives_what_needs_no_renewal_as_it_is(env: dict[str, str]) -> None:
    """A key, a cloud's traces, or nothing."""
    assert await authenticate("groq", env=env) is None
    found = await authenticate("groq", env=env | {"GROQ_API_KEY": "k"})
    assert ResolvedAuth(api_key="k", source="env:GROQ_API_KEY", mode="api-key") == found


def test_a_resolver_of_ones_own_fits_the_protocol() -> None:
    """Anything with `resolve`."""

    class Vault:
        def resolve(self, provider: str, env_vars: object = (), explicit_key: str | None = None) -> ResolvedAuth | None:
            return ResolvedAuth(mode="token", api_key=f"{provider}-token", source="vault")

    resolver: AuthResolver = Vault()
    found = resolver.resolve("groq")
    assert found is not None and found.source == "vault"


def test_no_repr_shows_the_key(env: dict[str, str]) -> None:
    """Printed, formatted, in a container or in a debugger's view."""
    found = resolve_auth("groq", explicit_key="very-secret", env=env)
    assert "very-secret" not in f"{found} {found!r} {[found]} { ({'a': found}) }"
