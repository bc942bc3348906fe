"""What each generation of models can be asked for: the table, and requests fitted to it."""

import json
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

import interlingua as il
from interlingua.dialects import dialect
from interlingua.dialects.generations import EFFORTS, GENERATIONS, UNKNOWN, Generation, generation, row
from interlingua.dialects.reasoning import EVERY_FORM, asks, fit, is_off
from interlingua.values.messages import AssistantMessage, ServerToolCall, TextBlock, UserMessage
from interlingua.values.request import (
    Context,
    ModelDescriptor,
    Options,
    OutputSchema,
    Reasoning,
    Request,
    ToolChoice,
    ToolSpec,
)

HI = UserMessage(content="Hello")
LOOK = ToolSpec(name="look", input_schema={"type": "object", "properties": {}})
HOMES = {"claude": "anthropic-messages", "gpt": "openai-responses", "gemini": "google-generative-ai"}


def model(id: str, api: str | None = None, **facts: Any) -> ModelDescriptor:
    home = next((wire for name, wire in HOMES.items() if id.startswith(name)), "openai-completions")
    return ModelDescriptor(id=id, api=api or home, **facts)


def request(*messages: Any, tools: Any = None, **options: Any) -> Request:
    return Request(
        model=ModelDescriptor(id=""),
        context=Context(messages=messages or (HI,), tools=tools),
        options=Options(**{"max_tokens": 40_000, **options}),
    )


def sent(
    target: ModelDescriptor, *messages: Any, tools: Any = None, **options: Any
) -> tuple[dict[str, Any], list[str]]:
    """The body as the target gets it, and the paths of what was reported as lost or weaker."""
    adapted = il.adapt(request(*messages, tools=tools, **options), target)
    assert il.adapt(adapted.request, target).losses == ()
    body = dialect(target.api).encode_request(adapted.request).body
    return json.loads(json.dumps(body)), [loss.path for loss in adapted.losses if loss.severity != "record"]


# --- the table --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model_id", "max_output", "sees"),
    [
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", 64_000, True),
        ("anthropic.claude-opus-4-6-v1", 128_000, True),
        ("anthropic/claude-sonnet-4.5", 64_000, True),
        ("publishers/anthropic/models/claude-opus-4-1@20250805", 32_000, True),
        ("openai/gpt-4o-mini", 16_384, True),
        ("gpt-4o-2024-05-13", 4096, True),
        ("o3-mini-2025-01-31", 100_000, False),
        ("models/gemini-2.5-flash", 65_536, True),
    ],
)
def test_a_generation_is_known_at_every_host(model_id: str, max_output: int, sees: bool) -> None:
    """Paths, regions, versions and dates around a name do not hide it."""
    found = row(model_id)
    assert found is not None
    assert found.input is not None
    assert (max_output, sees) == (found.max_output, "image" in found.input)


@pytest.mark.parametrize(
    "model_id",
    ["gpt-5-image", "gpt-4o-audio-preview", "gpt-4o-realtime-preview", "gemini-2.5-flash-image", "gpt-4.2", ""],
)
def test_a_sibling_is_of_another_generation(model_id: str) -> None:
    """Patterns match whole names only."""
    assert row(model_id) is None


def test_rows_say_only_what_makes_sense() -> None:
    """Each row has a name and a pattern of its own, takes text, and says how to reason only if it reasons."""
    assert len(GENERATIONS) == len({one.pattern for one in GENERATIONS}) == len({one.name for one in GENERATIONS})
    for one in GENERATIONS:
        assert one.input is None or "text" in one.input
        assert one.reasoning or not (one.efforts or one.budget or one.on_by_default)
        assert one.max_output is None or one.max_output >= 4096
        assert one.budget is None or 0 < one.budget[0] < one.budget[1]
        assert [EFFORTS.index(word) for word in one.efforts or ()] == sorted(map(EFFORTS.index, one.efforts or ()))
        assert not (one.can_be_off is False and one.on_by_default is False)
        assert "none" not in (one.efforts or ()) or one.can_be_off


def test_what_a_user_says_of_a_model_counts() -> None:
    """`reasoning`, levels from models.toml, and `compat` with the fields of the table."""
    assert generation(model("gpt-4o", reasoning=True)).reasoning is True
    levels = model("gpt-5", extra={"catalogue": {"levels": ["low", "high"]}})
    assert generation(levels).efforts == ("low", "high")
    found = generation(model("claude-opus-5-5", compat={"sampling": "free", "prefill": True, "budget": [1024, 9000]}))
    assert (found.sampling, found.prefill, found.budget) == ("free", True, (1024, 9000))
    assert generation(model("team-chat", extra={"catalogue": {"like": "gpt-5"}})) == row("gpt-5")
    with pytest.raises(il.FormatError, match="compat"):
        generation(model("gpt-5", compat={"sampling": "sometimes"}))


# --- reasoning --------------------------------------------------------------------------------------------------------

# model, what is asked for, what is sent, whether that is less or more than was asked for
SHOWN = {"type": "adaptive", "display": "summarized"}
CLAUDES: list[tuple[str, Any, dict[str, Any], bool]] = [
    ("claude-3-5-sonnet-20241022", "high", {}, True),
    ("claude-3-5-sonnet-20241022", "off", {}, False),
    ("claude-sonnet-4-5", "high", {"thinking": {"type": "enabled", "budget_tokens": 16_384}}, False),
    ("claude-sonnet-4-5", True, {"thinking": {"type": "enabled", "budget_tokens": 8192}}, False),
    ("claude-sonnet-4-5", 2000, {"thinking": {"type": "enabled", "budget_tokens": 2000}}, False),
    ("claude-sonnet-4-5", 100, {"thinking": {"type": "enabled", "budget_tokens": 1024}}, True),
    ("claude-sonnet-4-5", 50_000, {"thinking": {"type": "enabled", "budget_tokens": 39_999}}, True),
    ("claude-sonnet-4-5", "off", {"thinking": {"type": "disabled"}}, False),
    (
        "claude-opus-4-5",
        "low",
        {"thinking": {"type": "enabled", "budget_tokens": 2048}, "output_config": {"effort": "low"}},
        False,
    ),
    ("claude-opus-4-6", "high", {"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}}, False),
    ("claude-opus-4-6", "xhigh", {"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}}, True),
    ("claude-opus-4-6", 2000, {"thinking": {"type": "enabled", "budget_tokens": 2000}}, False),
    ("claude-opus-4-7", 2000, {"thinking": SHOWN, "output_config": {"effort": "low"}}, True),
    ("claude-opus-4-7", "minimal", {"thinking": SHOWN, "output_config": {"effort": "low"}}, True),
    ("claude-opus-4-7", "off", {"thinking": {"type": "disabled"}}, False),
    ("claude-opus-5", True, {"thinking": SHOWN}, False),
    ("claude-opus-5-5", "off", {"thinking": SHOWN, "output_config": {"effort": "low"}}, True),
    ("claude-sonnet-5-5", "off", {"thinking": {"type": "between_tools"}}, True),
    ("claude-fable-5", "max", {"thinking": SHOWN, "output_config": {"effort": "max"}}, False),
    ("claude-opus-7", "off", {"thinking": SHOWN, "output_config": {"effort": "low"}}, True),
    ("claude-x", 100, {"thinking": {"type": "enabled", "budget_tokens": 1024}}, True),
]


@pytest.mark.parametrize(("id", "asked", "wanted", "reported"), CLAUDES)
def test_a_claude_is_asked_to_think_as_its_generation_can(
    id: str, asked: Any, wanted: dict[str, Any], reported: bool
) -> None:
    """A budget, an effort, both or neither; what cannot be honoured is said, never sent."""
    body, losses = sent(model(id), reasoning=asked)
    assert wanted == {key: body[key] for key in ("thinking", "output_config") if key in body}
    assert reported == ("$.options.reasoning" in losses)


@pytest.mark.parametrize(
    ("target", "most"),
    [(model("claude-x"), 1_000_000), (model("claude-x", compat={"budget": [1024, 9000]}), 9000)],
)
def test_a_budget_is_no_greater_than_the_model_takes(target: ModelDescriptor, most: int) -> None:
    """If nothing is known of it, a million."""
    body, losses = sent(target, reasoning=most + 1, max_tokens=2_000_000)
    assert body["thinking"]["budget_tokens"] == most
    assert "$.options.reasoning" in losses


OTHERS: list[tuple[str, str, Any, Any, bool]] = [
    ("gpt-4o", "openai-responses", "high", None, True),
    ("gpt-4o", "openai-responses", "off", None, False),
    ("gpt-5", "openai-responses", "minimal", {"effort": "minimal"}, False),
    ("gpt-5", "openai-responses", "off", {"effort": "minimal"}, True),
    ("gpt-5", "openai-responses", 5000, {"effort": "medium"}, True),
    ("gpt-5.1", "openai-responses", "off", {"effort": "none"}, False),
    ("gpt-5.1", "openai-responses", "minimal", {"effort": "low"}, True),
    ("gpt-5.1", "openai-responses", True, {"effort": "medium"}, False),
    ("gpt-5-pro", "openai-responses", "low", {"effort": "high"}, True),
    ("gpt-5.6-sol", "openai-responses", "max", {"effort": "max"}, False),
    ("o3", "openai-completions", "xhigh", "high", True),
    ("gpt-5.1", "openai-completions", "off", "none", False),
    ("gpt-oss-120b", "openai-completions", "off", "low", True),
    ("grok-3-mini", "openai-completions", "medium", "low", True),
    ("grok-4", "openai-completions", "high", None, True),
    ("gemini-2.5-pro", "google-generative-ai", "off", {"thinkingBudget": 128, "includeThoughts": True}, True),
    ("gemini-2.5-pro", "google-generative-ai", "low", {"thinkingBudget": 2048, "includeThoughts": True}, False),
    ("gemini-2.5-flash", "google-generative-ai", "off", {"thinkingBudget": 0}, False),
    ("gemini-2.5-flash", "google-generative-ai", True, {"thinkingBudget": -1, "includeThoughts": True}, False),
    ("gemini-2.5-flash", "google-generative-ai", 99_999, {"thinkingBudget": 24_576, "includeThoughts": True}, True),
    ("gemini-2.5-flash-lite", "google-generative-ai", 100, {"thinkingBudget": 512, "includeThoughts": True}, True),
    ("gemini-3-pro-preview", "google-generative-ai", "medium", {"thinkingLevel": "LOW", "includeThoughts": True}, True),
    ("gemini-3-pro-preview", "google-generative-ai", "off", {"thinkingLevel": "LOW", "includeThoughts": True}, True),
    (
        "gemini-3-flash-preview",
        "google-generative-ai",
        900,
        {"thinkingLevel": "MINIMAL", "includeThoughts": True},
        True,
    ),
    ("gemini-2.0-flash", "google-generative-ai", "high", None, True),
    ("some-model", "google-generative-ai", 100, {"thinkingBudget": 100, "includeThoughts": True}, False),
    ("gpt-oss:20b", "ollama-chat", "high", "high", False),
    ("gpt-oss:20b", "ollama-chat", "off", "low", True),
    ("qwen3:8b", "ollama-chat", "high", True, True),
    ("qwen3:8b", "ollama-chat", "off", False, False),
]
FIELDS = {
    "openai-responses": lambda body: body.get("reasoning") or None,
    "openai-completions": lambda body: body.get("reasoning_effort"),
    "google-generative-ai": lambda body: body.get("generationConfig", {}).get("thinkingConfig"),
    "ollama-chat": lambda body: body.get("think"),
}


@pytest.mark.parametrize(("id", "api", "asked", "wanted", "reported"), OTHERS)
def test_every_model_is_asked_to_reason_as_it_can(id: str, api: str, asked: Any, wanted: Any, reported: bool) -> None:
    """Words, budgets and levels become those of the model; what has no equal is reported."""
    body, losses = sent(model(id, api), reasoning=asked)
    assert wanted == FIELDS[api](body)
    assert reported == ("$.options.reasoning" in losses)


def test_a_bedrock_model_is_asked_in_its_own_fields() -> None:
    """Claude's `thinking`, Nova's `reasoningConfig`, gpt-oss's word; a model without any is not asked."""

    def fields(id: str) -> Any:
        return sent(model(id, "bedrock-converse-stream"), reasoning="high")[0].get("additionalModelRequestFields")

    budget = {"thinking": {"type": "enabled", "budget_tokens": 16_384}}
    assert fields("us.anthropic.claude-sonnet-4-5-20250929-v1:0") == budget
    assert fields("us.amazon.nova-2-lite-v1:0") == {
        "reasoningConfig": {"type": "enabled", "maxReasoningEffort": "high"}
    }
    assert fields("openai.gpt-oss-120b-1:0") == {"reasoning_effort": "high"}
    body, losses = sent(model("meta.llama3-3-70b-instruct-v1:0", "bedrock-converse-stream"), reasoning="high")
    assert "additionalModelRequestFields" not in body
    assert losses == ["$.options.reasoning"]


def test_options_are_encoded_as_each_host_expects() -> None:
    """A host that takes words alone makes budgets of them; one that takes a switch gets a switch."""
    claude = "anthropic/claude-sonnet-4.5"
    openrouter = model(claude, "openai-completions", compat={"thinkingFormat": "openrouter"})
    assert sent(openrouter, reasoning="high")[0]["reasoning"] == {"max_tokens": 16_384}
    plain = model(claude, "openai-completions")
    assert sent(plain, reasoning=9000)[0]["reasoning_effort"] == "medium"
    zai = model("glm-4.6", "openai-completions", compat={"thinkingFormat": "zai", "supportsReasoningEffort": False})
    assert sent(zai, reasoning="low")[0]["thinking"] == {"type": "enabled"}
    deepseek = model("deepseek-v4-pro", "openai-completions", compat={"thinkingFormat": "deepseek"})
    body, losses = sent(deepseek, reasoning="medium")
    assert (body["thinking"], body["reasoning_effort"]) == ({"type": "enabled"}, "high")
    assert losses == ["$.options.reasoning"]


def test_words_that_a_host_translates_are_left_to_it() -> None:
    """Groq makes one word of all degrees, and has one for off; a word that a host refuses is replaced."""
    mapped = {"reasoningEffortMap": {"low": "default", "high": "default", "none": "none"}}
    qwen = model("qwen/qwen3-32b", compat=mapped)
    efforts = [sent(qwen, reasoning=asked)[0].get("reasoning_effort") for asked in ("low", "high", "off")]
    assert efforts == ["default", "default", "none"]
    refused = model("gpt-5", "openai-completions", compat={"reasoningEffortMap": {"minimal": None}})
    assert sent(refused, reasoning="minimal") == ({**sent(refused, reasoning="low")[0]}, ["$.options.reasoning"])


def test_a_word_leaves_room_for_the_answer() -> None:
    """A budget that stands for a word takes half of the limit at most; where that is too little, thinking is off."""

    def thinking(most: int) -> Any:
        return sent(model("claude-sonnet-4-5"), reasoning="high", max_tokens=most)[0]["thinking"]

    assert thinking(8000) == {"type": "enabled", "budget_tokens": 4000}
    assert thinking(1500) == {"type": "enabled", "budget_tokens": 1024}
    assert thinking(1000) == {"type": "disabled"}


def test_thinking_stays_on_in_a_foreign_tool_turn_where_it_cannot_be_off() -> None:
    """A Claude that thinks by budget goes without; an adaptive one needs no thinking before the call."""
    call = il.ToolCall(id="c1", name="look", arguments={})
    turn = AssistantMessage(content=(call,), api="openai-responses", model="gpt-5", stop_reason="toolUse")
    done = il.ToolResultMessage(tool_call_id="c1", content=(TextBlock(text="seen"),), is_error=False)
    thinking = {
        id: sent(model(id), HI, turn, done, tools=(LOOK,), reasoning="high")[0]["thinking"]["type"]
        for id in ("claude-sonnet-4-5", "claude-opus-4-6", "claude-opus-5-5")
    }
    expected = {"claude-sonnet-4-5": "disabled", "claude-opus-4-6": "adaptive", "claude-opus-5-5": "adaptive"}
    assert thinking == expected


@pytest.mark.parametrize(
    ("target", "asked", "expected"),
    [
        (model("claude-opus-4-6"), 2000, {"thinking": {"type": "disabled"}}),
        (model("claude-sonnet-4-5"), Reasoning(effort="off"), {"thinking": {"type": "disabled"}}),
        (
            model("us.amazon.nova-2-lite-v1:0", "bedrock-converse-stream"),
            "high",
            {"additionalModelRequestFields": {"reasoningConfig": {"type": "enabled", "maxReasoningEffort": "high"}}},
        ),
    ],
    ids=["a budget", "off", "Nova"],
)
def test_only_thinking_of_a_claude_is_turned_off_in_a_foreign_tool_turn(
    target: ModelDescriptor, asked: Any, expected: dict[str, Any]
) -> None:
    """With a budget also of an adaptive one. It is reported, unless thinking was off before."""
    call = il.ToolCall(id="c1", name="look", arguments={})
    turn = AssistantMessage(content=(call,), api="openai-responses", model="gpt-5", stop_reason="toolUse")
    done = il.ToolResultMessage(tool_call_id="c1", content=(TextBlock(text="seen"),), is_error=False)
    body, losses = sent(target, HI, turn, done, tools=(LOOK,), reasoning=asked)
    assert {key: body[key] for key in expected} == expected
    assert losses == (["$.options.reasoning"] if asked == 2000 else [])


def test_thinking_of_another_model_is_not_sent_to_one_that_binds_it() -> None:
    """From Opus 5.5 on signed thinking belongs to the model that signed it, be the other one a Claude too."""
    signed = il.ThinkingBlock(thinking="Hm.", thinking_signature="c2ln")
    answer = AssistantMessage(content=(signed, TextBlock(text="Yes")), api="anthropic-messages", model="claude-opus-5")
    kept = {
        id: json.dumps(sent(model(id), HI, answer, HI)[0]).count("c2ln") for id in ("claude-opus-5", "claude-opus-5-5")
    }
    assert kept == {"claude-opus-5": 1, "claude-opus-5-5": 0}


ASKED = st.one_of(
    st.builds(
        Reasoning,
        effort=st.sampled_from([None, *EFFORTS, "off", "ultra"]),
        budget=st.sampled_from([None, -1, 0, 1, 1023, 1024, 5000, 40_000, 10**6]),
        enabled=st.sampled_from([None, True, False]),
        summary=st.sampled_from([None, "auto"]),
    )
)
FORMS = [tuple(form for form, on in zip(EVERY_FORM, bits, strict=True) if on) for bits in product([0, 1], repeat=3)]


@given(
    asked=ASKED,
    known=st.sampled_from([UNKNOWN, *GENERATIONS]),
    forms=st.sampled_from(FORMS),
    room=st.sampled_from([None, 100, 1024, 1025, 8000, 200_000]),
)
def test_what_is_asked_is_what_the_generation_takes(
    asked: Reasoning, known: Generation, forms: Any, room: int | None
) -> None:
    """Whatever is asked: words the model knows, budgets in its range and below the limit, off only where it can be."""
    fitted = fit(asked, known, forms, room=room)
    assert (fitted.why == "") == (fitted.reasoning == asked)
    again = fitted.reasoning
    if again is None or not asks(again):
        return
    assert fit(again, known, forms, room=room).reasoning == again
    assert known.reasoning is not False
    if is_off(again):
        assert known.can_be_off is not False or (asks(asked) and not is_off(asked))
    elif known is not UNKNOWN and known.efforts is not None:
        assert again.effort is None or again.effort in known.efforts or "budget" not in forms
    if again.budget is not None and not is_off(again) and known.budget is not None:
        assert known.budget[0] <= again.budget <= known.budget[1]
        assert room is None or again.budget < room
    if known.efforts is not None or known.budget is not None:
        assert again.budget is None or "budget" in forms


# --- sampling, stops, forced tools ------------------------------------------------------------------------------------

SAMPLING: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("claude-3-5-sonnet-20241022", {"temperature": 0.5, "top_p": 0.9}, {"temperature": 0.5, "top_p": 0.9}),
    ("claude-sonnet-4-5", {"temperature": 0.5, "top_p": 0.9}, {"temperature": 0.5}),
    ("claude-sonnet-4-5", {"top_p": 0.9, "top_k": 5}, {"top_p": 0.9, "top_k": 5}),
    ("claude-sonnet-4-5", {"temperature": 0.5, "reasoning": "low"}, {}),
    ("claude-opus-4-6", {"temperature": 0.5, "reasoning": "low"}, {}),
    ("claude-opus-4-7", {"temperature": 0.5, "top_p": 0.9, "top_k": 5}, {}),
    ("gpt-4o", {"temperature": 0.5, "top_p": 0.9}, {"temperature": 0.5, "top_p": 0.9}),
    ("gpt-5", {"temperature": 0.5}, {}),
    ("gpt-5.1", {"temperature": 0.5}, {"temperature": 0.5}),
    ("gpt-5.1", {"temperature": 0.5, "reasoning": "low"}, {}),
    ("gpt-5.5", {"temperature": 0.5}, {}),
    ("gpt-5.5", {"temperature": 0.5, "reasoning": "off"}, {"temperature": 0.5}),
    ("deepseek-reasoner", {"temperature": 0.5, "top_p": 0.9}, {}),
]


@pytest.mark.parametrize(("id", "options", "wanted"), SAMPLING)
def test_sampling_that_a_model_refuses_is_left_out_and_reported(
    id: str, options: dict[str, Any], wanted: dict[str, Any]
) -> None:
    """Neither sent to be refused nor dropped in silence."""
    body, losses = sent(model(id), **options)
    names = {"temperature": "temperature", "top_p": "topP", "top_k": "topK"}
    assert wanted == {name: body[name] for name in names if name in body}
    assert {f"$.options.{names[name]}" for name in options.keys() & names.keys() - wanted.keys()} == {
        path for path in losses if path != "$.options.reasoning"
    }


def test_options_that_reasoning_models_do_not_know_are_left_out() -> None:
    """Stop sequences, and for some a word on parallel calls."""
    body, losses = sent(model("o3", "openai-completions"), tools=(LOOK,), stop=("END",), parallel_tools=False)
    assert not body.keys() & {"stop", "parallel_tool_calls"}
    assert sorted(losses) == ["$.options.parallelTools", "$.options.stop"]
    body, losses = sent(model("gpt-4o", "openai-completions"), tools=(LOOK,), stop=("END",), parallel_tools=False)
    assert (body["stop"], body["parallel_tool_calls"], losses) == (["END"], False, [])


@pytest.mark.parametrize(
    ("id", "reasoning", "forced"),
    [
        ("claude-3-5-sonnet-20241022", None, True),
        ("claude-sonnet-4-5", None, True),
        ("claude-sonnet-4-5", "low", False),
        ("claude-opus-4-6", "low", True),
        ("claude-opus-4-6", 2000, False),
        ("claude-opus-5", None, True),
        ("claude-opus-5-5", None, False),
        ("claude-sonnet-5-5", None, False),
        ("claude-fable-5", None, False),
    ],
)
def test_a_tool_is_forced_only_where_that_is_taken(id: str, reasoning: Any, forced: bool) -> None:
    """Not beside a budget for thinking, and by the newest models not at all."""
    body, losses = sent(model(id), tools=(LOOK,), tool_choice="required", reasoning=reasoning)
    assert (body["tool_choice"]["type"] == "any") is forced
    assert ("$.options.toolChoice" in losses) is not forced
    assert sent(model(id), tools=(LOOK,), tool_choice=ToolChoice(mode="none"))[0]["tool_choice"] == {"type": "none"}


# --- how a request ends -----------------------------------------------------------------------------------------------

BEGUN = AssistantMessage(content=(TextBlock(text="The answer is"),), api="anthropic-messages", model="claude-opus-5")


@pytest.mark.parametrize(
    ("id", "options", "taken"),
    [
        ("claude-3-5-sonnet-20241022", {}, True),
        ("claude-sonnet-4-5", {}, True),
        ("claude-sonnet-4-5", {"reasoning": "low"}, False),
        ("claude-opus-4-6", {}, False),
        ("claude-opus-5-5", {}, False),
    ],
)
def test_a_begun_answer_is_sent_only_where_it_is_continued(id: str, options: Any, taken: bool) -> None:
    """Elsewhere the model is asked to go on; what was begun stays in the history, and the change is reported."""
    body, losses = sent(model(id), HI, BEGUN, **options)
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", *([] if taken else ["user"])]
    assert ("$.messages" in losses) is not taken
    assert "The answer is" in json.dumps(body["messages"][1])
    assert taken == all(finding.message.split(":")[0] != "prefill" for finding in il.check(
        request(HI, BEGUN, **options), target=model(id)
    ))  # fmt: skip


def test_a_begun_answer_is_sent_to_a_model_that_thinks_where_that_is_no_rule() -> None:
    """Only Claude refuses it while it thinks."""
    body, losses = sent(ModelDescriptor(id="glm-4.6", api="openai-completions"), HI, BEGUN, reasoning="high")
    assert ["user", "assistant"] == [message["role"] for message in body["messages"]]
    assert "$.messages" not in losses


def test_a_turn_that_the_provider_paused_is_sent_as_it_is() -> None:
    """It is no prefill: nobody asks the model to go on."""
    paused = replace(BEGUN, stop_detail="pause_turn")
    body, losses = sent(model("claude-opus-4-6"), HI, paused)
    assert ["user", "assistant"] == [message["role"] for message in body["messages"]]
    assert "$.messages" not in losses


def test_a_begun_answer_does_not_end_in_blanks() -> None:
    """Anthropic refuses them at the end of what it is to continue."""
    begun = replace(BEGUN, content=(TextBlock(text="The answer is \n"),))
    body, losses = sent(model("claude-sonnet-4-5"), HI, begun)
    assert body["messages"][-1]["content"][-1]["text"] == "The answer is"
    assert losses == ["$.messages[1].content[0].text"]
    assert sent(model("claude-sonnet-4-5"), HI, begun, HI)[1] == []


def test_a_turn_that_the_provider_paused_goes_back_as_it_is() -> None:
    """A server tool is still running: the turn is no beginning of an answer."""
    paused = replace(
        BEGUN, content=(ServerToolCall(id="s1", name="web_search", arguments={}),), stop_detail="pause_turn"
    )
    assert sent(model("claude-opus-5"), HI, paused)[0]["messages"][-1]["role"] == "assistant"


def test_a_prefill_has_the_prefix_flag_for_mistral() -> None:
    """And gets no user message directly behind results."""
    large = model("mistral-large-latest")
    assert sent(large, HI, BEGUN)[0]["messages"][-1]["prefix"] is True
    call = AssistantMessage(content=(il.ToolCall(id="c1", name="look", arguments={}),))
    done = il.ToolResultMessage(tool_call_id="c1", content=(TextBlock(text="seen"),), is_error=False)
    body, losses = sent(large, HI, call, done, HI, tools=(LOOK,))
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "tool", "assistant", "user"]
    assert "$.messages" in losses
    assert sent(large, HI, call, done, tools=(LOOK,))[0]["messages"][-1]["role"] == "tool"


# --- schemas and kinds of tools ---------------------------------------------------------------------------------------

OPEN = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
CLOSED = {**OPEN, "additionalProperties": False}
OPTIONAL = {**CLOSED, "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}}
NULLABLE = {**OPTIONAL, "properties": {"a": {"type": "string"}, "b": {"type": ["integer", "null"]}}}
GPT, CLAUDE = model("gpt-5"), model("claude-opus-4-6")


@pytest.mark.parametrize(
    ("target", "schema", "wanted"),
    [
        (GPT, CLOSED, CLOSED),
        (GPT, OPEN, CLOSED),
        (GPT, NULLABLE, {**NULLABLE, "required": ["a", "b"]}),
        (GPT, OPTIONAL, None),
        (GPT, {**CLOSED, "additionalProperties": True}, None),
        (GPT, {**CLOSED, "properties": {"a": {"type": "string", "minLength": 3}}}, None),
        (GPT, {**CLOSED, "properties": {"a": {}}}, None),
        (GPT, {"anyOf": [CLOSED]}, None),
        (CLAUDE, OPTIONAL, OPTIONAL),
        (CLAUDE, OPEN, CLOSED),
        (CLAUDE, {**CLOSED, "properties": {"a": {"type": "integer", "minimum": 3}}}, None),
        (
            CLAUDE,
            {**CLOSED, "properties": {"a": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"items": {"$ref": "#/$defs/n"}}}},
            None,
        ),
    ],
)
def test_a_strict_tool_has_a_strict_schema_or_is_not_called_strict(target: Any, schema: Any, wanted: Any) -> None:
    """It is closed where that changes no meaning; else the claim goes, the schema stays, and that is reported."""
    body, losses = sent(target, tools=(ToolSpec(name="f", input_schema=schema, strict=True),))
    (tool,) = body["tools"]
    sent_schema = tool.get("input_schema", tool.get("parameters"))
    assert tool["strict"] is (wanted is not None)
    assert losses == ([] if wanted is not None else ["$.tools[0].strict"])
    assert sent_schema == {"type": "object", **(schema if wanted is None else wanted)} or sent_schema == schema


def test_the_schema_of_an_answer_is_strict_where_it_is_called_so() -> None:
    """OpenAI's claim goes where the schema is not; Anthropic closes every schema; older Claudes take none."""
    strict = OutputSchema(schema=OPTIONAL, strict=True, name="x")
    body, losses = sent(GPT, output_schema=strict)
    assert (body["text"]["format"]["strict"], losses) == (False, ["$.options.outputSchema.strict"])
    loose = {**OPEN, "properties": {"a": {"type": "string", "minLength": 3}}}
    body, losses = sent(CLAUDE, output_schema=loose)
    assert body["output_config"]["format"]["schema"] == CLOSED
    assert losses == ["$.options.outputSchema.schema"]
    body, losses = sent(model("claude-3-5-haiku"), output_schema=CLOSED)
    assert ("output_config" not in body, losses) == (True, ["$.options.outputSchema"])


def test_strict_tools_go_only_to_models_that_know_them() -> None:
    """Claude before 4.1 refuses the word."""
    tools = (ToolSpec(name="f", input_schema=CLOSED, strict=True),)
    assert "strict" not in json.dumps(sent(model("claude-3-7-sonnet"), tools=tools)[0])
    assert sent(model("claude-3-7-sonnet"), tools=tools)[1] == ["$.tools[0].strict"]


def test_enums_that_are_not_strings_are_described_to_gemini_as_text() -> None:
    """Its enums are strings: as such they would come back as strings."""
    schema = {
        "type": "object",
        "properties": {
            "n": {"type": "integer", "enum": [1, 2], "description": "How many."},
            "b": {"enum": [True]},
            "w": {"type": "string", "enum": ["a", None]},
        },
    }
    body, losses = sent(model("gemini-2.5-flash"), tools=(ToolSpec(name="f", input_schema=schema),))
    properties = body["tools"][0]["functionDeclarations"][0]["parametersJsonSchema"]["properties"]
    assert properties == {
        "n": {"type": "integer", "description": "How many. One of: 1, 2"},
        "b": {"type": "boolean", "description": "One of: true"},
        "w": {"type": "string", "enum": ["a"], "nullable": True},
    }
    assert losses == ["$.tools[0].input_schema"]


GRAMMAR = {"type": "grammar", "syntax": "lark", "definition": "start: WORD"}
PATCH = ToolSpec(
    name="patch",
    dialect="openai-responses",
    value={"type": "custom", "name": "patch", "description": "Patches.", "format": GRAMMAR},
)
PATCHED = AssistantMessage(
    content=(
        il.ToolCall(
            id="c1",
            name="patch",
            arguments={"input": "*** Begin"},
            extra={"openai-responses": {"~type": "custom_tool_call"}},
        ),
    ),
    api="openai-responses",
    model="gpt-5",
)
PATCH_DONE = il.ToolResultMessage(tool_call_id="c1", content=(TextBlock(text="done"),), is_error=False)


@pytest.mark.parametrize(
    "target",
    [
        CLAUDE,
        model("gemini-2.5-flash"),
        model("llama3", "ollama-chat"),
        model("kimi-k2"),
        model("o3", "openai-responses"),
        model("some-model", "openai-completions"),
        model("gpt-5", "ollama-chat"),
    ],
    ids=lambda target: target.id,
)
def test_a_custom_tool_is_a_function_of_one_text_where_there_are_none(target: ModelDescriptor) -> None:
    """Its calls are those of the function, and come back as calls of the custom tool."""
    source = request(HI, PATCHED, PATCH_DONE, tools=(PATCH,))
    adapted = il.adapt(source, target)
    body = json.dumps(dialect(target.api).encode_request(adapted.request).body)
    assert "custom" not in body
    assert "start: WORD" in body
    assert [loss.path for loss in adapted.losses if loss.what == "tool"] == ["$.tools[0]"]
    answer = AssistantMessage(content=(il.ToolCall(id="c2", name="patch", arguments={"input": "*** End"}),))
    (call,) = adapted.restore(answer).tool_calls
    assert (call.arguments, call.extra) == ({"input": "*** End"}, {"openai-responses": {"~type": "custom_tool_call"}})
    back = request(HI, PATCHED, PATCH_DONE, replace(answer, content=(call,)), tools=(PATCH,))
    items = dialect("openai-responses").encode_request(il.adapt(back, GPT).request).body["input"]
    assert [item["type"] for item in items[1:]] == ["custom_tool_call", "custom_tool_call_output"] * 2


def test_a_call_of_a_custom_tool_loses_its_mark_alone_where_it_is_a_function() -> None:
    extra = {"openai-responses": {"~type": "custom_tool_call", "new": 1}, "elsewhere": {"b": 2}}
    newer = {"openai-responses": {"~type": "newer_call"}}
    o3 = model("o3", "openai-responses")
    for stated, target, expected in (
        (extra, o3, {**extra, "openai-responses": {"new": 1}}),
        (extra, CLAUDE, extra),
        (newer, o3, newer),
    ):
        patched = replace(PATCHED, content=(replace(PATCHED.tool_calls[0], extra=stated),))
        adapted = il.adapt(request(HI, patched, PATCH_DONE, tools=(PATCH,)), target).request
        assert [call.extra for call in adapted.context.messages[1].tool_calls] == [expected]


def test_a_custom_tool_crosses_between_openais_wires() -> None:
    """Each has its own words for the tool, its grammar and its calls."""
    body, losses = sent(model("gpt-5", "openai-completions"), HI, PATCHED, PATCH_DONE, tools=(PATCH,))
    grammar = {"syntax": "lark", "definition": "start: WORD"}
    inner = {"name": "patch", "description": "Patches.", "format": {"type": "grammar", "grammar": grammar}}
    assert body["tools"] == [{"type": "custom", "custom": inner}]
    assert body["messages"][1]["tool_calls"][0]["type"] == "custom"
    assert losses == []
    respelled = il.adapt(request(HI, tools=(PATCH,)), model("gpt-5", "openai-completions")).losses
    assert [(loss.path, loss.what, loss.severity) for loss in respelled] == [("$.tools[0]", "tool", "record")]
    chat = dialect("openai-completions").decode_request({**body, "model": "gpt-5"})
    again = dialect("openai-responses").encode_request(il.adapt(chat, GPT).request).body
    assert again["tools"] == [PATCH.value]
    assert [item["type"] for item in again["input"][1:]] == ["custom_tool_call", "custom_tool_call_output"]


# --- windows ----------------------------------------------------------------------------------------------------------


def test_ollama_gets_the_window_and_a_warning_if_it_is_too_small() -> None:
    """Without `num_ctx` the server reads 4096 tokens and cuts off the beginning; what does not fit is warned of."""
    long = UserMessage(content="word " * 8000)
    known, unknown_window = model("llama3", "ollama-chat", context_window=32_768), model("llama3", "ollama-chat")
    assert sent(known, long)[0]["options"]["num_ctx"] == 32_768
    assert "num_ctx" not in sent(unknown_window)[0]["options"]

    def warned(target: ModelDescriptor) -> list[str]:
        found = il.check(request(long), target=target)
        return [finding.severity for finding in found if finding.message.startswith("window")]

    assert (warned(known), warned(unknown_window), warned(replace(known, context_window=8192))) == (
        [],
        ["warning"],
        ["warning"],
    )
    body = {"model": "llama3", "messages": [], "options": {"num_ctx": 9000}}
    assert dialect("ollama-chat").decode_request(body).model.context_window == 9000
