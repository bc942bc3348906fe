"""What a person allows for good: a policy that grows by `always`, and the rule that an `always` amounts to."""

import re
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from .policy import Decision, Policy, Rule
from .shell_line import Command, read_shell_line, runs_others

_WORD = re.compile(r"[\w./@:+-]+")


class Permissions:
    """A policy that grows by what the user always allows."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def decide(self, tool: str, params: Mapping[str, Any]) -> Decision:
        return self._policy.decide(tool, params)

    def allow(self, rule: Rule) -> None:
        self._policy = replace(self._policy, rules=(*self._policy.rules, rule))


def standing_rule(tool: str, params: Mapping[str, Any]) -> Rule | None:
    """What `always` would allow: the tool, or for a command what it begins with; None where no rule would cover it."""
    command = params.get("command")
    rule = Rule(action="allow", tool=tool)
    if isinstance(command, str):
        read = read_shell_line(command)
        begins = tuple(dict.fromkeys(_beginning(one) for one in read.commands if not one.inner))
        if read.doubt or not begins or not all(begins) or any(map(runs_others, read.commands)):
            return None
        rule = replace(rule, command=begins)
    covered = Policy(rules=(rule,), default="ask").decide(tool, params).action == "allow"
    return rule if covered else None


def _beginning(command: Command) -> str:
    """The words up to the first option, as in `git commit`; all of them where that would be the program alone."""
    terms = [word.text for word in command.words]
    if not all(word.fixed and _WORD.fullmatch(word.text) for word in command.words[:2]):
        return ""
    first = next((at for at, word in enumerate(terms) if at and (word.startswith("-") or not _WORD.fullmatch(word))), 3)
    leading = terms[: min(first, 3)]
    return " ".join(leading if len(leading) > 1 else terms)
