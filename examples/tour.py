"""One conversation around all dialects: what each makes of it, what it loses, and that it comes back.

Needs no key and no network.
"""

from collections import Counter

import interlingua as il

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


def show(name: str, encoded: il.Encoded, returned: bool) -> None:
    reported = [loss for loss in encoded.losses if loss.severity != "record"]
    kinds = Counter(loss.severity for loss in encoded.losses)
    summary = ", ".join(f"{count} {kind}" for kind, count in kinds.items()) or "nothing lost"
    print(f"\n{name:26} {len(encoded.bytes()):5} bytes   {summary}   {'comes back exactly' if returned else 'CHANGED'}")
    for loss in reported:
        print(f"    {loss.severity:9} {loss.path:38} {loss.why}")


def main() -> None:
    source = il.dialect("anthropic-messages")
    conversation = source.decode(ANTHROPIC)
    print("One conversation, read from Anthropic's wire: thinking, a call with a huge integer, a failed result.")
    exact = source.encode(il.load(il.dump(conversation))).body == ANTHROPIC
    print(f"Through our own JSON and back to the same wire it is {'equal' if exact else 'NOT equal'} as JSON values.")
    print("\nAs every other dialect says it, adapted to what that target takes, with what is lost on the way:")
    for name in il.DIALECTS:
        if getattr(il.dialect(name), "RETURNED", False):
            continue  # read, and returned as it came; not made from other formats
        encoded = il.encode(conversation, name)
        again = il.decode(encoded.body, name)
        show(name, encoded, il.encode(again, name).body == encoded.body)


if __name__ == "__main__":
    main()
