"""Dispatch over the candidates of a plan: the next key, another try, the next place, which may continue a response."""

import asyncio
import logging
import math
import time

from msgspec.structs import replace

from ..connect.retry import Breaker, asks_to_wait, elsewhere, is_unpaid
from ..connect.stream import scrubbed
from ..connect.transport import Transport
from ..values.errors import AuthFailed, ContextTooLong, InterlinguaError, ProviderError, RateLimited
from ..values.messages import AssistantMessage, Usage
from ..values.tokens import estimate, taken
from .cache_breaks import SentPrompts
from .exchange import Exchange, safe_name
from .handover import BrokenOff, continued, estimated_usage, handover_loss, may_continue, without_signatures
from .incoming import Incoming
from .lanes import Attempt
from .outgoing import TooLossy
from .references import References
from .replying import LEFT, ClientReply, CredentialsRefused, as_typed_error, log_defect, stopping_error
from .routing import Place, Plan
from .turns import Turns

_log = logging.getLogger(__name__)
_REMIND = 60.0  # seconds between two log lines about the same refused credentials


class Dispatcher:
    """Calls candidates until one has answered. `is_stopping`: the gateway cancels exchanges, not their clients."""

    def __init__(
        self, transport: Transport, breaker: Breaker, references: References, prompts: SentPrompts | None
    ) -> None:
        self._transport = transport
        self._breaker = breaker
        self._references = references
        self._prompts = prompts
        self._turns = Turns()
        self._refused: dict[str, float] = {}  # by provider: when it was logged
        self.is_stopping = False

    async def dispatch(self, exchange: Exchange, incoming: Incoming, plan: Plan, reply: ClientReply) -> None:
        """Calls the candidates of a plan in turn. The failure of the last is sent to the client in its wire's form."""
        retry = plan.retry
        failure: InterlinguaError | None = None
        encoder, before, too_small = None, None, 0
        for at, place in enumerate(plan.places):
            more = at + 1 < len(plan.places)
            if 0 < (place.model.context_window or 0) <= too_small:
                continue
            for tries in range(1, retry.attempts + place.keys):
                if before is None and exchange.answer is not None and exchange.model is not None:
                    # Charged, although the client received nothing: the next attempt starts over.
                    used = estimated_usage(exchange.answer, incoming.request)
                    exchange.discarded += ((exchange.model, used),)
                    exchange.answer = exchange.usage = None
                exchange.is_counted = False
                exchange.model = place.model
                attempt = Attempt(
                    place,
                    exchange,
                    incoming,
                    reply,
                    self._transport,
                    self._references,
                    holds=more and before is None,
                    turns=self._turns,
                    prompts=self._prompts,
                    may_break=before is not None or (more and plan.continues),
                    before=before,
                    encoder=encoder if before is not None else None,
                )
                sent = reply.sent
                failure = await self._try(attempt, place, exchange, reply, may_wait=not more)
                if failure is None:
                    return
                encoder = attempt.encoder
                await _break_off(attempt, exchange, str(failure))
                if attempt.is_unanswered(failure) and exchange.answer is None and exchange.request is not None:
                    exchange.discarded += ((place.model, Usage.of(taken(exchange.request.context), 0)),)
                if reply.sent > sent:
                    break
                if tries < place.keys and (isinstance(failure, RateLimited | AuthFailed) or is_unpaid(failure)):
                    continue  # with the next key
                if tries >= retry.attempts or not retry.again(failure) or (more and asks_to_wait(failure)):
                    break
                await asyncio.sleep(retry.wait(failure, tries))
            assert failure is not None
            self._breaker.failed(place.target, failure)
            failure = self.blamed(failure, place)
            if isinstance(failure, ContextTooLong):
                too_small = max(too_small, place.model.context_window or 0)
            if not (elsewhere(failure) or isinstance(failure, TooLossy)):
                break
            if reply.begun and more:
                partial, given = exchange.answer, exchange.request
                if partial is None or given is None or not (plan.continues and may_continue(given, partial)):
                    break
                if incoming.rephrased is not None:  # a prompt is followed by no answer
                    break
                if partial is not before:
                    used = estimated_usage(partial, incoming.request, estimate(before) if before is not None else 0)
                    loss = handover_loss(partial, place.name, plan.places[at + 1].name, failure)
                    exchange.earlier += (BrokenOff(place.model, used, loss),)
                before = without_signatures(partial)
                incoming = replace(
                    incoming,
                    request=continued(given, before, place.model),
                    resolved=continued(incoming.resolved or given, before, place.model),
                    body=None,
                )
        assert failure is not None
        await reply.fail(failure, encoder if reply.begun else None)

    def blamed(self, failure: InterlinguaError, place: Place) -> InterlinguaError:
        """Returns the failure of a place as a client may see it: a refused key, or an account without credit, is the
        gateway's, not the client's."""
        if is_unpaid(failure):
            what, remedy = "finds no credit on the gateway's account", "pay its provider"
        elif isinstance(failure, AuthFailed):
            what, remedy = "refused the gateway's credentials", "check the keys of its provider"
        else:
            return failure
        assert isinstance(failure, ProviderError)
        refused = f"{safe_name(place.name)} {what}"
        if time.monotonic() - self._refused.get(place.model.provider, -math.inf) > _REMIND:
            self._refused[place.model.provider] = time.monotonic()
            _log.error("%s (status %d): %s; %s", refused, failure.status, failure.message, remedy)
        return CredentialsRefused(
            f"{refused}: {failure.message}", status=502, code="credentials_refused", body=failure.body
        )

    async def _try(
        self, attempt: Attempt, place: Place, exchange: Exchange, reply: ClientReply, *, may_wait: bool
    ) -> InterlinguaError | None:
        """Runs an attempt; returns its failure, if it failed.

        It is broken off if the client leaves or the gateway stops. `may_wait`: no other candidate could answer sooner.
        """
        try:
            self._breaker.check(place.target)
            if not may_wait:
                self._breaker.check_wait(place.target)
            if place.slots is None:
                await attempt.run()
            else:
                async with place.turn():
                    await attempt.run()
        except InterlinguaError as error:
            return scrubbed(error, place.secrets)
        except (Exception, asyncio.CancelledError) as error:
            if self.is_stopping and isinstance(error, asyncio.CancelledError):
                await _break_off(attempt, exchange, str(stopping_error()))
                _count_input(attempt, exchange)
                await reply.fail(stopping_error(), attempt.encoder if reply.begun else None)
                raise
            if isinstance(error, ConnectionError | asyncio.CancelledError):
                await _break_off(attempt, exchange, LEFT, aborted=True)
                _count_input(attempt, exchange)
                raise
            return as_typed_error(exchange, error, *place.secrets)
        self._breaker.succeeded(place.target)
        return None


async def _break_off(attempt: Attempt, exchange: Exchange, why: str, *, aborted: bool = False) -> None:
    """Keeps what had come of an answer. Where that fails it counts as an empty one, which a provider has charged."""
    try:
        await attempt.break_off(why, aborted=aborted)
    except ConnectionError:
        raise
    except Exception as error:
        log_defect(f"the partial answer of {exchange.id} cannot be stored", error)
        exchange.answer = AssistantMessage(content=(), stop_reason="aborted" if aborted else "error")


def _count_input(attempt: Attempt, exchange: Exchange) -> None:
    """Counts the input of a call that is ended before it is answered: its provider has it, and may charge it."""
    if attempt.is_sent and exchange.response is None and exchange.usage is None and exchange.request is not None:
        exchange.usage, exchange.is_estimated = Usage.of(taken(exchange.request.context), 0), True
