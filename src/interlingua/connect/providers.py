"""Providers: a table with one row each. A new provider with a known wire is one more row.

A row has the provider's base URL, its wire, the sources of its key and its quirks. Text in braces in a base URL is a
setting: from the call, else from the row's variables, else its default.
"""

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

from msgspec import DecodeError, Struct, json

from ..dialects import WIRES
from ..dialects.wire import AuthStyle
from ..values.messages import ImageBlock, ToolResultMessage, UserMessage
from ..values.request import Api, Request


class Setting(Struct, frozen=True):
    """A part of a URL: its variables, in order, and its default."""

    env: tuple[str, ...] = ()
    default: str | None = None


class ModelRoute(Struct, frozen=True, kw_only=True):
    """Models of a provider that are served differently: those whose whole id matches `pattern`."""

    pattern: str
    api: Api
    base_url: str | None = None
    compat: dict[str, Any] = {}


class OAuthSpec(Struct, frozen=True, kw_only=True):
    """OAuth endpoints. The client id is always the user's own."""

    token_url: str
    authorize_url: str | None = None
    device_url: str | None = None
    scopes: tuple[str, ...] = ()
    callback_port: int = 0
    callback_path: str = "/callback"
    token_format: Literal["form", "json"] = "form"
    authorize: dict[str, str] = {}  # extra query parameters of the authorization URL


Answered: TypeAlias = Callable[[Request, str | None], Mapping[str, str]]


class Provider(Struct, frozen=True, kw_only=True):
    """One row. `base_url` "" means that the user provides it; `keyless`: works without a key as well.

    `compat` goes into the model's descriptor; `body` are default fields of every request; `request_headers` returns
    headers that depend on the request and the key.
    """

    id: str
    label: str
    api: Api
    base_url: str = ""
    env: tuple[str, ...] = ()
    base_url_env: tuple[str, ...] = ()
    settings: dict[str, Setting] = {}
    auth: AuthStyle | None = None
    keyless: bool = False
    headers: dict[str, str] = {}
    request_headers: Answered | None = None
    compat: dict[str, Any] = {}
    body: dict[str, Any] = {}
    routes: tuple[ModelRoute, ...] = ()
    prices: str | None = None
    maker: bool = False  # its models are its own: a bare model name means this provider
    telemetry: str | None = None  # `gen_ai.provider.name` of OpenTelemetry's conventions, where it is not the id
    reports_cost: bool = False  # the cost of a response can be fetched afterwards
    oauth: OAuthSpec | None = None

    def route(self, model: str) -> ModelRoute:
        """Returns the route of this model."""
        for route in self.routes:
            if re.fullmatch(route.pattern, model, re.IGNORECASE):
                return route
        return ModelRoute(pattern="", api=self.api)

    def auth_style(self, api: Api) -> AuthStyle:
        """Returns how a key is sent: as in the row, else as in the wire."""
        return self.auth or (WIRES[api].http.auth if api in WIRES else "bearer")


# platform.claude.com/docs/en/build-with-claude/extended-thinking, Interleaved thinking: a beta header for models with a
# budget; adaptive ones need none.
_INTERLEAVED = "interleaved-thinking-2025-05-14"
_LOGGED_IN = "oauth-2025-04-20"


def is_login_token(key: str | None) -> bool:
    """Whether a key is the token of an Anthropic login, which is sent as a bearer token."""
    return key is not None and "sk-ant-oat" in key


def _anthropic(request: Request, key: str | None) -> Mapping[str, str]:
    thinking = request.options.reasoning
    betas = [_LOGGED_IN] if is_login_token(key) else []
    if thinking is not None and thinking.budget and request.context.tools:
        betas.append(_INTERLEAVED)
    fields = {"anthropic-version": "2023-06-01"}
    return fields | {"anthropic-beta": ",".join(betas)} if betas else fields


def _codex(request: Request, key: str | None) -> Mapping[str, str]:
    # As Codex CLI sends them to the backend of ChatGPT (github.com/openai/codex).
    fields = {"OpenAI-Beta": "responses=experimental", "originator": "interlingua"}
    account = _claim(key, "https://api.openai.com/auth", "chatgpt_account_id")
    if account:
        fields["chatgpt-account-id"] = account
    if request.options.session_id:
        fields["session_id"] = request.options.session_id
    return fields


def _claim(token: str | None, *path: str) -> str | None:
    """Returns a claim of a JSON web token, unverified: its server verifies it."""
    # RFC 7519, 3: three parts of base64url without padding.
    payload = (token or "").split(".")
    if len(payload) != 3:
        return None
    try:
        value: Any = json.decode(base64.urlsafe_b64decode(payload[1] + "=" * (-len(payload[1]) % 4)))
    except (binascii.Error, DecodeError, ValueError):
        return None
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, str) else None


def _copilot(request: Request, key: str | None) -> Mapping[str, str]:
    """Copilot charges by the initiator of a turn, and requires a header for images."""
    messages = request.context.messages
    begun_by_user = not messages or isinstance(messages[-1], UserMessage)
    # As Copilot's editors send them; there is no public reference.
    fields = {"X-Initiator": "user" if begun_by_user else "agent", "Openai-Intent": "conversation-edits"}
    return fields | {"Copilot-Vision-Request": "true"} if any(map(_has_image, messages)) else fields


def _has_image(message: Any) -> bool:
    if isinstance(message, (UserMessage, ToolResultMessage)) and type(message.content) is not str:
        return ImageBlock in map(type, message.content or ())
    return False


def _mistral(request: Request, key: str | None) -> Mapping[str, str]:
    return {"x-affinity": request.options.session_id} if request.options.session_id else {}


# What hosts of the chat wire do differently; the names are those of the dialect's `Compat` and of `profiles`.
_NO_TOP_K = {"supportsTopK": False}  # refused as an unknown field, or ignored in silence
_OLD_LIMIT = {"maxTokensField": "max_tokens"}
_PLAIN = _OLD_LIMIT | {"supportsDeveloperRole": False}
_BUDGETLESS = _PLAIN | {"supportsReasoningEffort": False}
_LOCAL = _BUDGETLESS | {"supportsStrictMode": False}
_AZURE = {"resource": Setting(("AZURE_OPENAI_RESOURCE_NAME",))}
_AZURE_URL = "https://{resource}.openai.azure.com/openai/v1"
_AZURE_URL_ENV = ("AZURE_OPENAI_BASE_URL",)
# The provider stores nothing.
_STATELESS = {"store": False}

ROWS: tuple[Provider, ...] = (
    Provider(
        id="anthropic",
        maker=True,
        label="Anthropic",
        api="anthropic-messages",
        base_url="https://api.anthropic.com",
        env=("ANTHROPIC_OAUTH_TOKEN", "ANTHROPIC_API_KEY"),
        base_url_env=("ANTHROPIC_BASE_URL",),
        request_headers=_anthropic,
        prices="anthropic",
    ),
    Provider(
        id="openai",
        maker=True,
        label="OpenAI",
        api="openai-responses",
        base_url="https://api.openai.com/v1",
        env=("OPENAI_API_KEY",),
        base_url_env=("OPENAI_BASE_URL",),
        body=_STATELESS,
        prices="openai",
    ),
    Provider(
        id="openai-chat",
        label="OpenAI (chat completions)",
        telemetry="openai",
        api="openai-completions",
        base_url="https://api.openai.com/v1",
        env=("OPENAI_API_KEY",),
        base_url_env=("OPENAI_BASE_URL",),
        compat={"supportsDeveloperRole": True, **_NO_TOP_K},
        prices="openai",
    ),
    Provider(
        id="azure-openai-responses",
        label="Azure OpenAI",
        telemetry="azure.ai.openai",
        api="azure-openai-responses",
        base_url=_AZURE_URL,
        env=("AZURE_OPENAI_API_KEY",),
        base_url_env=_AZURE_URL_ENV,
        settings=_AZURE,
        body=_STATELESS,
        prices="azure",
    ),
    Provider(
        id="azure-openai",
        label="Azure OpenAI (chat completions)",
        telemetry="azure.ai.openai",
        api="openai-completions",
        base_url=_AZURE_URL,
        env=("AZURE_OPENAI_API_KEY",),
        base_url_env=_AZURE_URL_ENV,
        settings=_AZURE,
        auth="api-key",
        compat=_NO_TOP_K,
        prices="azure",
    ),
    Provider(
        id="openai-codex",
        label="OpenAI Codex",
        telemetry="openai",
        api="openai-codex-responses",
        base_url="https://chatgpt.com/backend-api",
        env=("OPENAI_CODEX_TOKEN",),
        request_headers=_codex,
        body=_STATELESS | {"instructions": "You are a helpful assistant."},
        oauth=OAuthSpec(
            authorize_url="https://auth.openai.com/oauth/authorize",
            token_url="https://auth.openai.com/oauth/token",
            scopes=("openid", "profile", "email", "offline_access"),
            # Registered for Codex's client: no other port is accepted.
            callback_port=1455,
            callback_path="/auth/callback",
        ),
        prices="openai",
    ),
    Provider(
        id="amazon-bedrock",
        label="Amazon Bedrock",
        telemetry="aws.bedrock",
        api="bedrock-converse-stream",
        base_url="https://bedrock-runtime.{region}.amazonaws.com",
        env=("AWS_BEARER_TOKEN_BEDROCK",),
        base_url_env=("AWS_ENDPOINT_URL_BEDROCK_RUNTIME",),
        settings={
            "region": Setting(("AWS_REGION", "AWS_DEFAULT_REGION")),  # else the profile's, else us-east-1
            "s3": Setting(("INTERLINGUA_BEDROCK_S3",)),  # where batches are, s3://BUCKET/PREFIX
            "role": Setting(("INTERLINGUA_BEDROCK_ROLE",)),  # the ARN under which they run
        },
        prices="aws",
    ),
    Provider(
        id="google",
        maker=True,
        label="Google",
        telemetry="gcp.gemini",
        api="google-generative-ai",
        base_url="https://generativelanguage.googleapis.com/v1beta",
        env=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        prices="google",
    ),
    Provider(
        id="google-interactions",
        label="Google, Interactions API",
        telemetry="gcp.gemini",
        api="google-interactions",
        base_url="https://generativelanguage.googleapis.com/v1beta",
        env=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        prices="google",
    ),
    Provider(
        id="google-vertex",
        label="Google Vertex AI",
        telemetry="gcp.vertex_ai",
        api="google-vertex",
        base_url="https://{location}-aiplatform.googleapis.com/v1/projects/{project}/locations/{location}",
        env=("GOOGLE_CLOUD_API_KEY",),
        settings={
            "project": Setting(("GOOGLE_CLOUD_PROJECT", "GCLOUD_PROJECT")),
            "location": Setting(("GOOGLE_CLOUD_LOCATION",), "us-central1"),
        },
        prices="google",
    ),
    Provider(
        id="vertex-anthropic",
        label="Claude on Google Vertex AI",
        telemetry="gcp.vertex_ai",
        api="vertex-anthropic",
        base_url="https://{location}-aiplatform.googleapis.com/v1/projects/{project}/locations/{location}",
        env=("GOOGLE_CLOUD_API_KEY",),
        settings={
            "project": Setting(("ANTHROPIC_VERTEX_PROJECT_ID", "GOOGLE_CLOUD_PROJECT", "GCLOUD_PROJECT")),
            "location": Setting(("CLOUD_ML_REGION", "GOOGLE_CLOUD_LOCATION"), "us-east5"),
        },
        prices="anthropic",
    ),
    Provider(
        id="google-gemini-cli",
        label="Google Cloud Code Assist",
        telemetry="gcp.gemini",
        api="google-gemini-cli",
        base_url="https://cloudcode-pa.googleapis.com",
        oauth=OAuthSpec(
            authorize_url="https://accounts.google.com/o/oauth2/v2/auth",
            token_url="https://oauth2.googleapis.com/token",
            scopes=("https://www.googleapis.com/auth/cloud-platform",),
            callback_port=8085,
            callback_path="/oauth2callback",
            # developers.google.com/identity/protocols/oauth2: only so does Google return a refresh token, each time.
            authorize={"access_type": "offline", "prompt": "consent"},
        ),
        prices="google",
    ),
    Provider(
        id="openrouter",
        label="OpenRouter",
        api="openai-completions",
        base_url="https://openrouter.ai/api/v1",
        env=("OPENROUTER_API_KEY",),
        headers={"X-Title": "Interlingua"},
        compat={**_OLD_LIMIT, "thinkingFormat": "openrouter", "reasoningField": "reasoning"},
        # openrouter.ai/docs/use-cases/usage-accounting: without it the usage has no cost.
        body={"usage": {"include": True}},
        # openrouter.ai/docs/features/prompt-caching: these take `cache_control` on parts of messages.
        routes=(
            ModelRoute(pattern=r"(anthropic|google|qwen)/.*", api="openai-completions", compat={"cacheMarkers": 4}),
        ),
        reports_cost=True,
        prices="openrouter",
    ),
    Provider(
        id="ollama",
        label="Ollama",
        api="ollama-chat",
        base_url="http://127.0.0.1:11434",
        env=("OLLAMA_API_KEY",),
        base_url_env=("OLLAMA_HOST",),
        keyless=True,
    ),
    Provider(
        id="cohere",
        maker=True,
        label="Cohere",
        api="cohere-chat",
        base_url="https://api.cohere.com",
        # The name that Cohere's SDKs read, then the usual form.
        env=("CO_API_KEY", "COHERE_API_KEY"),
        prices="cohere",
    ),
    Provider(
        id="mistral",
        maker=True,
        label="Mistral",
        telemetry="mistral_ai",
        api="openai-completions",
        base_url="https://api.mistral.ai/v1",
        env=("MISTRAL_API_KEY",),
        request_headers=_mistral,
        compat={
            **_PLAIN,
            **_NO_TOP_K,
            "supportsUsageInStreaming": False,
            "seedField": "random_seed",
            "toolCallIdLength": 9,
            "requiresToolResultName": True,
            "maxImages": 8,  # https://docs.mistral.ai/capabilities/vision: 8 images per request, 10 MB each
            "imageBytes": 13_333_333,
        },
        prices="mistral",
    ),
    Provider(
        id="groq",
        label="Groq",
        api="openai-completions",
        base_url="https://api.groq.com/openai/v1",
        env=("GROQ_API_KEY",),
        # https://console.groq.com/docs/vision: 5 images of 33 megapixels; 4 MB for a request with base64, of which
        # some are left for text.
        compat={
            **_NO_TOP_K,
            "reasoningField": "reasoning",
            "maxImages": 5,
            "imagePixels": 33_177_600,
            "imageBytes": 3_600_000,
            "mediaBytes": 3_600_000,
        },
        routes=(
            ModelRoute(
                pattern=r"qwen/qwen3-32b",
                api="openai-completions",
                # console.groq.com/docs/reasoning: `none` or `default`, without degrees.
                compat={
                    "reasoningEffortMap": {
                        **dict.fromkeys(("minimal", "low", "medium", "high", "xhigh"), "default"),
                        "none": "none",
                    }
                },
            ),
        ),
        prices="groq",
    ),
    Provider(
        id="cerebras",
        label="Cerebras",
        api="openai-completions",
        base_url="https://api.cerebras.ai/v1",
        env=("CEREBRAS_API_KEY",),
        compat={"supportsDeveloperRole": False, "reasoningField": "reasoning", **_NO_TOP_K},
        prices="cerebras",
    ),
    Provider(
        id="xai",
        maker=True,
        label="xAI",
        telemetry="x_ai",
        api="openai-completions",
        base_url="https://api.x.ai/v1",
        env=("XAI_API_KEY",),
        compat={
            **_NO_TOP_K,
            "supportsDeveloperRole": False,
            "usageIncludesReasoning": False,
            # https://docs.x.ai/docs/guides/image-understanding: JPEG and PNG of at most 20 MiB, in any number
            "imageTypes": ["image/jpeg", "image/png"],
            "imageBytes": 27_962_026,
        },
        prices="x-ai",
    ),
    Provider(
        id="deepseek",
        maker=True,
        label="DeepSeek",
        api="openai-completions",
        base_url="https://api.deepseek.com",
        env=("DEEPSEEK_API_KEY",),
        compat={**_PLAIN, "thinkingFormat": "deepseek", **_NO_TOP_K},
        prices="deepseek",
    ),
    Provider(
        id="together",
        label="Together AI",
        api="openai-completions",
        base_url="https://api.together.xyz/v1",
        env=("TOGETHER_API_KEY",),
        compat=_PLAIN,
        prices="together",
    ),
    Provider(
        id="fireworks",
        label="Fireworks AI",
        api="openai-completions",
        base_url="https://api.fireworks.ai/inference/v1",
        env=("FIREWORKS_API_KEY",),
        # https://docs.fireworks.ai/guides/querying-vision-language-models: 30 images, 10 MB of base64 in total
        compat={**_PLAIN, "maxImages": 30, "mediaBytes": 10_000_000},
        prices="fireworks",
    ),
    Provider(
        id="huggingface",
        label="Hugging Face router",
        api="openai-completions",
        base_url="https://router.huggingface.co/v1",
        env=("HF_TOKEN",),
        compat=_PLAIN,
    ),
    Provider(
        id="github-copilot",
        label="GitHub Copilot",
        api="openai-completions",
        base_url="https://api.githubcopilot.com",
        env=("COPILOT_GITHUB_TOKEN",),
        auth="bearer",
        request_headers=_copilot,
        compat=_BUDGETLESS,
        routes=(
            ModelRoute(pattern=r"claude-.*4.*", api="anthropic-messages"),
            ModelRoute(pattern=r"(gpt-5|oswe).*", api="openai-responses"),
        ),
        oauth=OAuthSpec(
            device_url="https://github.com/login/device/code",
            token_url="https://github.com/login/oauth/access_token",
            scopes=("read:user",),
        ),
        prices="github-copilot",
    ),
    Provider(
        id="vercel-ai-gateway",
        label="Vercel AI Gateway",
        api="anthropic-messages",
        base_url="https://ai-gateway.vercel.sh",
        env=("AI_GATEWAY_API_KEY",),
        request_headers=_anthropic,
    ),
    Provider(
        id="minimax",
        maker=True,
        label="MiniMax",
        api="anthropic-messages",
        base_url="https://api.minimax.io/anthropic",
        env=("MINIMAX_API_KEY",),
        request_headers=_anthropic,
        prices="minimax",
    ),
    Provider(
        id="minimax-cn",
        label="MiniMax (China)",
        api="anthropic-messages",
        base_url="https://api.minimaxi.com/anthropic",
        env=("MINIMAX_CN_API_KEY",),
        request_headers=_anthropic,
        prices="minimax",
    ),
    Provider(
        id="kimi-coding",
        label="Kimi for coding",
        api="anthropic-messages",
        base_url="https://api.kimi.com/coding",
        env=("KIMI_API_KEY",),
        request_headers=_anthropic,
    ),
    Provider(
        id="moonshot",
        maker=True,
        label="Moonshot AI",
        api="openai-completions",
        base_url="https://api.moonshot.ai/v1",
        env=("MOONSHOT_API_KEY",),
        # platform.moonshot.ai/docs: `thinking: {"type": …}`, from K2.5 on.
        compat={**_PLAIN, **_NO_TOP_K, "thinkingFormat": "zai"},
        prices="moonshotai",
    ),
    Provider(
        id="zai",
        maker=True,
        label="Z.AI",
        api="openai-completions",
        base_url="https://api.z.ai/api/paas/v4",
        env=("ZAI_API_KEY",),
        compat={**_BUDGETLESS, "thinkingFormat": "zai"},
        # docs.z.ai: from GLM-5.2 on an effort beside the switch.
        routes=(
            ModelRoute(
                pattern=r"glm-5.(2|3).*",
                api="openai-completions",
                compat={"thinkingFormat": "deepseek", "supportsReasoningEffort": True},
            ),
        ),
        prices="zai",
    ),
    Provider(
        id="opencode",
        label="OpenCode Zen",
        api="openai-completions",
        base_url="https://opencode.ai/zen/v1",
        env=("OPENCODE_API_KEY",),
        compat=_PLAIN,
        routes=(
            ModelRoute(pattern=r"claude-.*", api="anthropic-messages", base_url="https://opencode.ai/zen"),
            ModelRoute(pattern=r"gpt-.*", api="openai-responses"),
            ModelRoute(pattern=r"gemini-.*", api="google-generative-ai"),
        ),
    ),
    Provider(
        id="nvidia",
        label="NVIDIA NIM",
        api="openai-completions",
        base_url="https://integrate.api.nvidia.com/v1",
        env=("NVIDIA_API_KEY",),
        compat=_PLAIN,
    ),
    Provider(
        id="perplexity",
        maker=True,
        label="Perplexity",
        api="openai-completions",
        base_url="https://api.perplexity.ai",
        env=("PERPLEXITY_API_KEY",),
        compat=_PLAIN,
        prices="perplexity",
    ),
    Provider(
        id="lmstudio",
        label="LM Studio",
        api="openai-completions",
        base_url="http://127.0.0.1:1234/v1",
        keyless=True,
        compat=_LOCAL,
    ),
    Provider(
        id="llama-cpp",
        label="llama.cpp server",
        api="openai-completions",
        base_url="http://127.0.0.1:8080/v1",
        keyless=True,
        compat={**_LOCAL, "requiresContent": True},  # llama-cpp-python's server refuses null beside tool calls
    ),
    Provider(
        id="vllm",
        label="vLLM",
        api="openai-completions",
        base_url="http://127.0.0.1:8000/v1",
        keyless=True,
        compat=_LOCAL,
    ),
    Provider(
        id="openai-compatible",
        label="Any OpenAI-compatible server",
        api="openai-completions",
        base_url_env=("OPENAI_COMPATIBLE_BASE_URL",),
        keyless=True,
        compat=_OLD_LIMIT,
    ),
    Provider(
        id="anthropic-compatible",
        label="Any Anthropic-compatible server",
        api="anthropic-messages",
        base_url_env=("ANTHROPIC_COMPATIBLE_BASE_URL",),
        keyless=True,
        request_headers=_anthropic,
    ),
)
PROVIDERS: dict[str, Provider] = {row.id: row for row in ROWS}
