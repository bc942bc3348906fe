"""The gate before dispatch: the key, its models, and the rest of its limits."""

import math

from ..values.errors import AuthFailed, BadRequest, InterlinguaError, RateLimited
from .accounts import NANO, Accounts, Admission, Refusal
from .exchange import ClientKey, Exchange
from .keys import ClientKeys
from .ledger import Ledger, charged_cost
from .state import StateError, unavailable


class KeyGate:
    """Admits what a key may do. Fails closed: if the limits' store is unavailable, or the ledger cannot be written."""

    def __init__(self, keys: ClientKeys, accounts: Accounts, ledger: Ledger | None = None) -> None:
        self.keys = keys
        self.accounts = accounts
        self._ledger = ledger

    async def identify(self, secret: str | None) -> ClientKey:
        try:
            return self.keys.identify(secret)
        except AuthFailed:
            raise
        except (InterlinguaError, OSError) as error:
            raise unavailable("the keys cannot be read", error) from None

    async def admit(
        self, exchange: Exchange, *, input_tokens: int, output_tokens: int = 0, highest_cost: float | None
    ) -> "KeyReservation":
        key = exchange.key
        _check_model(exchange)
        # Fails closed: calls whose cost cannot be written would be free.
        if self._ledger is not None and self._ledger.failure is not None:
            raise unavailable("the cost of calls cannot be stored", self._ledger.failure)
        if key.budget is not None and highest_cost is None:
            model = exchange.unpriced or exchange.model
            name = exchange.asked_model if model is None else f"{model.provider}/{model.id}"
            what, remedy = f"the price of {name!r}", "add its price to models.toml"
            if exchange.lane == "passed":  # models.toml has prices of conversations only
                what, remedy = f"the price of {name!r} on this path", "use a key without a budget"
            message = f"{what} is not known, and the key {key.name!r} has a budget; {remedy}"
            raise BadRequest(message, status=400, code="unknown_price")
        if not is_limited(key):
            return KeyReservation(self.accounts, None)
        # Rounded up: a sum of reservations is never below what the calls may cost.
        cost = math.ceil((highest_cost or 0.0) * NANO)
        # An answer that may be longer than a minute's tokens takes all of them, but is not impossible.
        tokens = max(input_tokens, min(input_tokens + output_tokens, key.tokens_per_minute or 0))
        try:
            outcome = await self.accounts.admit(key, tokens=tokens, cost=cost)
        except StateError as error:
            raise unavailable("the limits of keys cannot be checked", error) from None
        if isinstance(outcome, Refusal):
            raise _refused(outcome)
        exchange.quotas = outcome.quotas
        return KeyReservation(self.accounts, outcome)


class KeyReservation:
    """The reservation of one exchange; empty if its key has no limits."""

    def __init__(self, accounts: Accounts, admission: Admission | None) -> None:
        self._accounts = accounts
        self._admission = admission

    async def settle(self, exchange: Exchange) -> None:
        admission, self._admission = self._admission, None
        if admission is not None:
            tokens, cost = self._used(exchange, admission)
            await self._accounts.settle(exchange.key.name, admission, tokens=tokens, cost=cost)

    def settle_soon(self, exchange: Exchange) -> None:
        """`settle` without waiting."""
        admission, self._admission = self._admission, None
        if admission is not None:
            tokens, cost = self._used(exchange, admission)
            self._accounts.settle_soon(exchange.key.name, admission, tokens=tokens, cost=cost)

    def _used(self, exchange: Exchange, admission: Admission) -> tuple[int, int]:
        """Tokens and cost."""
        usage = exchange.usage
        if usage is None and exchange.answer is None and exchange.cost is None:
            return 0, 0  # no provider did any work
        tokens = usage.total_tokens if usage is not None else admission.tokens
        charged = charged_cost(exchange)
        return tokens, admission.cost if charged is None else charged


def is_limited(key: ClientKey) -> bool:
    """Whether a key's usage must be counted before a call."""
    return (
        key.requests_per_minute is not None
        or key.tokens_per_minute is not None
        or key.concurrency is not None
        or key.budget is not None
    )


def _check_model(exchange: Exchange) -> None:
    """A key that names models may use them under the named alias, or as `provider/model`."""
    if exchange.key.models is None:
        return
    names = [exchange.asked_model]
    if exchange.model is not None:
        names.append(f"{exchange.model.provider}/{exchange.model.id}")
    if not exchange.key.allows(*names):
        message = f"the key {exchange.key.name!r} may not use the model {exchange.asked_model!r}"
        raise AuthFailed(f"{message}; ask for one of its models (GET /v1/models)", status=403, code="model_not_allowed")


def _refused(refusal: Refusal) -> RateLimited | BadRequest:
    if refusal.limit == "tokens" and refusal.retry_after is None:
        return BadRequest(f"{refusal.message}, and this call exceeds it; send less", status=400)
    # Clients do not retry a 429 with `insufficient_quota` (OpenAI's error codes).
    code = "insufficient_quota" if refusal.limit == "budget" else "rate_limit_exceeded"
    wait = refusal.retry_after
    remedy = f"try again in {math.ceil(wait)} s" if wait is not None else "ask for fewer tokens, or raise the budget"
    return RateLimited(f"{refusal.message}; {remedy}", status=429, code=code, retry_after=wait)
