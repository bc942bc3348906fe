"""One conversation in every dialect that can be written, with its losses. Needs no key and no network."""

from collections import Counter

import interlingua as il
from interlingua.dialects import FORMATS, WIRES

ANTHROPIC = {
    "model": "claude-sonnet-4-5",
    "max_tokens": 2000,
    "system": [{"type": "text", "text": "You are terse.", "cache_control": {"type": "ephemeral"}}],
    "tools": [
        {
            "name": "weather",
            "description": "The weather at a place",
            "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        }
    ],
    "messages": [
        {"role": "user", "content": "Is it raining in Oslo?"},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "I should look it up.", "signature": "EqQBCgIYAhIkc2lnbmVk"},
                {"type": "text", "text": "Let me look."},
                {"type": "tool_use", "id": "toolu_01", "name": "weather", "input": {"city": "Oslo", "id": 2**60 + 1}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "toolu_01", "content": "Station offline", "is_error": True},
                {"type": "text", "text": "Guess, then."},
            ],
        },
    ],
    "thinking": {"type": "enabled", "budget_tokens": 1024},
}  # fmt: skip


def show(name: str, encoded: il.Encoded, exact: bool) -> None:
    reported = [loss for loss in encoded.losses if loss.severity != "record"]
    kinds = Counter(loss.severity for loss in encoded.losses)
    summary = ", ".join(f"{count} {kind}" for kind, count in kinds.items()) or "nothing lost"
    print(f"\n{name:26} {len(encoded.bytes()):5} bytes   {summary}   {'round trip exact' if exact else 'CHANGED'}")
    for loss in reported:
        print(f"    {loss.severity:9} {loss.path:38} {loss.why}")


def main() -> None:
    source = il.dialect("anthropic-messages")
    conversation = source.decode(ANTHROPIC)
    print("One conversation, read from Anthropic's wire: thinking, a call with a huge integer, a failed result.")
    exact = source.encode(il.load(il.dump(conversation))).body == ANTHROPIC
    print(f"Through our own JSON and back to the same wire it is {'equal' if exact else 'NOT equal'} as JSON values.")
    print("\nIn every dialect that can be written, adapted to it, with the losses:")
    for name in [*WIRES, *(name for name, form in FORMATS.items() if form.writable)]:
        encoded = il.encode(conversation, name)
        again = il.decode(encoded.body, name)
        show(name, encoded, il.encode(again, name).body == encoded.body)


if __name__ == "__main__":
    main()
