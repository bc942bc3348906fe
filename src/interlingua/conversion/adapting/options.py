"""Request options as a target accepts them: limits, sampling, reasoning, tool choice, the output schema.

The rules of a wire are its `TargetLimits`, those of a model generation are in `generations`. Every change is reported;
nothing that is known to be refused is sent.
"""

from msgspec.structs import replace

from ...dialects.generations import Generation
from ...dialects.reasoning import Fitted, asks, fit, is_off, is_on
from ...values.losses import Severity
from ...values.request import Options, Reasoning, ToolChoice
from ...values.tokens import taken
from .work import HistoryTotals, Work

SCHEMA_NAME = "answer"
FEWEST = 1024  # thinking budget in tokens, for a Claude of an unknown generation
OFF_VALUE = "~off"  # in `Reasoning.extra`: the wire's value for minimal reasoning


_NOT_SET = (Options(stream=True), Options(stream=False), Options())


def fit_options(work: Work) -> None:
    if work.options in _NOT_SET:  # most requests set none, but a target may require a limit
        work.options = _fit_limit(work.options, work)
        return
    for repair in (
        _fit_tool_choice,
        _fit_limit,
        _fit_reasoning,
        _fit_forced_tool,
        _fit_sampling,
        _fit_stops,
        _fit_rest,
    ):
        work.options = repair(work.options, work)


def _without(options: Options, work: Work, field: str, what: str, why: str, severity: Severity = "dropped") -> Options:
    """Returns the options without one of them, if it is set."""
    if getattr(options, field) is None:
        return options
    text = field.split("_")
    work.lost("$.options." + text[0] + "".join(word.title() for word in text[1:]), what, why, severity)
    return replace(options, **{field: None})


# --- tools ------------------------------------------------------------------------------------------------------------


def _fit_tool_choice(options: Options, work: Work) -> Options:
    choice, offered = options.tool_choice, {tool.name for tool in work.tools or ()}
    if choice is not None and (not offered or not offered.issuperset(choice.names)):
        options = _without(options, work, "tool_choice", "tool choice", "the request has no such tool")
    # OpenAI: "'parallel_tool_calls' is only allowed when 'tools' are specified", and the same of `tool_choice`.
    if not offered:
        options = _without(options, work, "parallel_tools", "tool choice", "the request has no tools")
    if work.generation.parallel_tools is False:
        options = _without(options, work, "parallel_tools", "tool choice", "the model does not support this option")
    return options


def _fit_forced_tool(options: Options, work: Work) -> Options:
    """Drops a forced tool choice for models that do not support it, or not while they think with a budget."""
    choice, rule = options.tool_choice, work.generation.forced_tools
    if choice is None or choice.mode != "required":
        return options
    thinking = options.reasoning is not None and asks(options.reasoning) and not is_off(options.reasoning)
    with_budget = thinking and (rule is None or options.reasoning.budget is not None)  # type: ignore[union-attr]
    if rule == "never":
        why = "the model takes no forced tool"
    elif rule != "always" and with_budget and not work.rules.forced_with_thinking:
        why = "no tool can be forced while thinking is on"
    else:
        return options
    work.lost("$.options.toolChoice", "forced tool", why)
    return replace(options, tool_choice=ToolChoice(mode="auto"))


# --- limits -----------------------------------------------------------------------------------------------------------


def _fit_limit(options: Options, work: Work) -> Options:
    # Anthropic requires `max_tokens` (…/api/messages); elsewhere no limit means the model's own.
    max_output, needed = work.model.max_tokens or None, work.rules.max_tokens
    if options.max_tokens is None and needed is not None:
        severity: Severity = "record" if max_output is not None else "weakened"
        work.lost("$.options.maxTokens", "no limit", "the target requires one", severity)
        options = replace(options, max_tokens=max_output or needed)
    # Providers refuse a higher limit ("max_tokens: 100000 > 64000, which is the maximum allowed number of output
    # tokens").
    if options.max_tokens is not None and max_output is not None and options.max_tokens > max_output:
        work.lost("$.options.maxTokens", "max_tokens", f"the maximum of the model is {max_output}")
        options = replace(options, max_tokens=max_output)
    # Input and output share the context window. Input that cannot fit at all is left for the provider to refuse.
    window = work.model.context_window
    if window is None or options.max_tokens is None:
        return options
    # As sent, or adapting twice would find less room.
    size = taken(work.request().context) if work.earlier is None else (work.earlier.totals or HistoryTotals()).sent
    room = window - size
    if not 0 < room < options.max_tokens:
        return options
    work.lost("$.options.maxTokens", "max_tokens", f"about {window - room} of the model's {window} tokens are taken")
    return replace(options, max_tokens=room)


# --- reasoning --------------------------------------------------------------------------------------------------------


def _fit_reasoning(options: Options, work: Work) -> Options:
    """Limits reasoning to what the model generation supports; see `reasoning.fit`."""
    requested = options.reasoning
    if requested is None:
        return options
    # Claude's limit covers thinking and output: a budget must be less than max_tokens.
    room = None if work.rules.forced_with_thinking else options.max_tokens
    fitted = fit(requested, _budgeted(work), work.rules.reasoning, room=room)
    # Claude: "Expected `thinking` or `redacted_thinking`, but found `tool_use`": with thinking on, the answer that
    # called the tools must begin with it.
    if work.open_foreign_turn and _needs_its_thinking(fitted.reasoning, work):
        fitted = Fitted(Reasoning(enabled=False), "off while a tool turn is open that lacks this model's own thinking")
    fitted = _shown(_minimal_value(fitted, work), work)
    if fitted.reasoning == requested:
        return options
    work.lost("$.options.reasoning", "reasoning", fitted.why, fitted.severity)
    return replace(options, reasoning=fitted.reasoning)


def _budgeted(work: Work) -> Generation:
    """Returns the known rules of the model; an unknown Claude gets a minimum budget."""
    known = work.generation
    if known.budget is not None or known.efforts is not None or work.rules.forced_with_thinking:
        return known
    return replace(known, budget=(FEWEST, 1_000_000))


def _needs_its_thinking(reasoning: Reasoning | None, work: Work) -> bool:
    """Whether an open tool loop requires the model's own signed thinking: yes for a Claude with a budget, no for
    adaptive ones.

    platform.claude.com/docs/en/build-with-claude/adaptive-thinking: turns need not start with thinking there.
    """
    if reasoning is None or not asks(reasoning) or is_off(reasoning) or work.rules.forced_with_thinking:
        return False
    return reasoning.budget is not None or not work.generation.adaptive


def _minimal_value(fitted: Fitted, work: Work) -> Fitted:
    """Sends "off" as the wire's own value for minimal reasoning, where it has one."""
    reasoning, value, api = fitted.reasoning, work.generation.off_value, work.rules.api
    if value is None or reasoning is None or reasoning.enabled is not False or not work.rules.off_values:
        return fitted
    residual = reasoning.extra.get(api, {})
    if residual.get(OFF_VALUE) == value:
        return fitted
    extra = {**reasoning.extra, api: {**residual, OFF_VALUE: value}}
    return Fitted(replace(reasoning, extra=extra), f"the reasoning of the model cannot be turned off: {value}")


def _shown(fitted: Fitted, work: Work) -> Fitted:
    """Requests visible reasoning: some models hide it by default."""
    reasoning = fitted.reasoning
    hidden = work.generation.hides_thinking and work.rules.off_values
    if not hidden or reasoning is None or reasoning.summary is not None or not asks(reasoning) or is_off(reasoning):
        return fitted
    why, severity = (fitted.why, fitted.severity) if fitted.why else ("requested as a summary, to be visible", "record")
    return Fitted(replace(reasoning, summary="auto"), why, severity)


# --- sampling ---------------------------------------------------------------------------------------------------------


def _fit_sampling(options: Options, work: Work) -> Options:
    rule, rules = work.generation.sampling, work.rules
    on = is_on(options.reasoning, work.generation)
    if rule == "none" or (rule == "idle" and on):
        why = "the model does not support sampling options" if rule == "none" else "not supported while it reasons"
        for field in ("temperature", "top_p"):
            severity: Severity = "record" if getattr(options, field) == 1 else "dropped"  # 1 is the default
            options = _without(options, work, field, "sampling", why, severity)
    if work.generation.top_k is False or not rules.top_k:
        options = _without(options, work, "top_k", "sampling", "the model does not support top_k")
    # Claude: thinking is not compatible with temperature, top_k or forced tools
    # (platform.claude.com/docs/en/build-with-claude/extended-thinking).
    if on and not rules.forced_with_thinking:
        for field in ("temperature", "top_p", "top_k"):
            if getattr(options, field) != 1:
                options = _without(options, work, field, "sampling", "not supported together with thinking")
    # platform.claude.com/docs/en/about-claude/models, migration to Claude 4.5: "temperature or top_p, but not both".
    if rule == "either" and options.temperature is not None:
        options = _without(options, work, "top_p", "sampling", "the model accepts temperature or top_p, not both")
    if (
        rules.max_temperature is not None
        and options.temperature is not None
        and options.temperature > rules.max_temperature
    ):
        work.lost("$.options.temperature", "sampling", f"at most {rules.max_temperature}")
        options = replace(options, temperature=rules.max_temperature)
    return options


def _fit_stops(options: Options, work: Work) -> Options:
    rules = work.rules
    if work.generation.stop is False and is_on(options.reasoning, work.generation):
        return _without(options, work, "stop", "stop", "the model does not support stop sequences")
    if options.stop is not None:
        # Anthropic: "stop_sequences: each stop sequence must contain non-whitespace".
        kept = tuple(stop for stop in options.stop if stop.strip() or rules.blank_text)[: rules.max_stop_sequences]
        if kept != options.stop:
            work.lost("$.options.stop", "stop", f"the target takes {rules.max_stop_sequences or 'no blank ones'}")
            options = replace(options, stop=kept)
    return options


def _fit_rest(options: Options, work: Work) -> Options:
    tiers = work.rules.tiers
    if tiers is not None and options.service_tier is not None and options.service_tier not in tiers:
        options = _without(options, work, "service_tier", "service tier", f"valid tiers: {', '.join(tiers)}")
    output = options.output_schema
    # platform.openai.com/docs/guides/structured-outputs: `name` is required, of [a-zA-Z0-9_-], at most 64 characters.
    if work.rules.named_schemas and output is not None and output.schema is not None and not output.name:
        work.lost("$.options.outputSchema.name", "no name", "the target requires one", "record")
        options = replace(options, output_schema=replace(output, name=SCHEMA_NAME))
    return options
