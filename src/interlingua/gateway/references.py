"""References of requests to stored responses, conversations and items by their ids: kept, and resolved."""

import functools
from collections.abc import Sequence

from msgspec.structs import replace

from ..dialects.wire import TextAnswer
from ..values.errors import BadRequest
from ..values.messages import AssistantMessage, Message
from ..values.request import Request
from .exchange import DeferredAnswer, Exchange
from .recall import Recall, StoredResponse, TextResponse, is_pending, is_unique, size_of
from .state import StateError, unavailable


class References:
    """What requests of clients may refer to, in the recall store."""

    def __init__(self, recall: Recall) -> None:
        self.recall = recall

    def remember(self, exchange: Exchange, answer: AssistantMessage, id: str) -> None:
        """Keeps an answer: to be put back, and under its id where the client may refer to it."""
        request, key = exchange.request, exchange.key.name
        if request is None:
            return
        self.recall.remember(key, request, answer)
        residual = request.extra.get(exchange.wire.base, {})
        if exchange.wire.http.stored_route is None:
            return
        stored = keep_latest(exchange, id, request, answer)
        if residual.get("store") is not False:
            self.recall.store(key, id, stored, size_of((*request.context.messages, answer)))
            if exchange.wire.http.item_blocks is not None:
                # No provider has all items of a response that several gave.
                provider = answer.provider if not exchange.earlier else None
                for item, blocks in exchange.wire.http.item_blocks(replace(answer, response_id=id)).items():
                    part = replace(answer, content=tuple(blocks), provider=provider)
                    self.recall.store_item(key, item, part, size_of((part,)))
        conversation = exchange.extra.get("conversation")
        if conversation is not None:
            self.recall.extend(key, conversation, exchange.id, (*exchange.extra["given"], answer))

    def remember_text(self, exchange: Exchange, found: TextAnswer, answer: DeferredAnswer, size: int) -> None:
        """The same for an answer of plain text, which is decoded when it is needed."""
        request, key, wire = exchange.request, exchange.key.name, exchange.wire
        if request is None or wire.http.stored_route is None:
            return
        is_stored = not request.extra or request.extra.get(wire.base, {}).get("store") is not False
        if not (is_stored and found.items and all(map(is_unique, found.items))):  # else its items are sent back by id
            self.recall.remember_text(key, request, found.text, answer, size)
        if not is_stored:
            return
        given = exchange.extra.get("given")
        is_whole = given is request.context.messages  # nothing was put before or into the messages of the body
        stored = TextResponse(
            wire=wire,
            body=exchange.body if is_whole else b"",
            expanded=None if is_whole else (request, given or request.context.messages),
            answer=answer,
            created=exchange.started,
        )
        size += len(exchange.body) if is_whole else size_of(request.context.messages)
        self.recall.store(key, found.id, stored.response, size)
        if wire.http.item_blocks is not None:
            for id in found.items:
                self.recall.store_item(key, id, functools.partial(stored.item, id), size)

    async def with_history(self, exchange: Exchange, request: Request) -> tuple[Request, bool]:
        """Returns the request, with the messages that it refers to by id before its own, of any model."""
        api, key = exchange.wire.base, exchange.key.name
        residual = dict(request.extra.get(api, {}))
        before: tuple[Message, ...] = ()
        previous, conversation = residual.pop("previous_response_id", None), residual.pop("conversation", None)
        references = {"previous_response_id": previous, "conversation": conversation}
        # platform.openai.com/docs/api-reference/responses/create: "Cannot be used in conjunction with `conversation`".
        if previous is not None and conversation is not None:
            raise BadRequest("`previous_response_id` and `conversation` exclude each other; send one", status=400)
        if previous is not None:
            lane = exchange.extra.get("lane")
            stored = lane.stored(str(previous)) if lane is not None else None
            if stored is None:
                await self.fetch(key, "response", str(previous))
                stored = self.recall.stored(key, str(previous))
            if stored is None:
                raise BadRequest(
                    f"previous response with id {previous!r} not found; send the whole input instead",
                    status=400,
                    code="previous_response_not_found",
                )
            if is_pending(stored):
                raise BadRequest(f"the response {previous!r} is in progress; wait until it has ended", status=400)
            before = (*stored.request.context.messages, *((stored.answer,) if stored.answer.content else ()))
        elif conversation is not None:
            id = str(conversation.get("id") if isinstance(conversation, dict) else conversation)
            await self.fetch(key, "conversation", id)
            known = self.recall.conversation(key, id)
            if known is None:
                raise BadRequest(f"conversation with id {id!r} not found; create it first", status=404)
            exchange.extra["conversation"] = id
            before = known
        else:
            return request, False
        residual.pop("~input", None)  # the input was one text: it is no more
        exchange.references = {api: {**residual, **references}}
        context = replace(request.context, messages=(*before, *request.context.messages))
        return replace(request, context=context, extra={**request.extra, api: residual}), True

    async def with_items(
        self, exchange: Exchange, request: Request, ids: Sequence[str]
    ) -> tuple[Request, frozenset[str]]:
        """Returns the request with the stored items that it refers to, and who has them."""
        key, wire = exchange.key.name, exchange.wire
        await self.fetch(key, "item", *ids)
        resolved, owners = self.recall.resolve(key, wire, request)
        if resolved is not request:
            await self.recall.fetch_answers(key, wire, resolved)
            resolved, _ = self.recall.restore(key, wire, resolved)
        return resolved, owners

    async def fetch(self, key: str, kind: str, *ids: str) -> None:
        """What other workers keep under an id. While their store is away it is not known, which is not "not found"."""
        if self.recall.shared is None or not any(ids):
            return
        try:
            await self.recall.fetch_ids(key, *((kind, id) for id in ids))
        except StateError as error:
            raise unavailable(f"stored {kind}s cannot be read", error) from None


def keep_latest(exchange: Exchange, id: str, request: Request, answer: AssistantMessage) -> StoredResponse:
    """Returns a response as it is stored. The connection of a WebSocket keeps its latest one."""
    given = exchange.extra.get("given", request.context.messages)
    stored = StoredResponse(
        request=exchange.with_references(request), given=given, answer=answer, created=exchange.started
    )
    lane = exchange.extra.get("lane")
    if lane is not None:
        lane.keep(id, stored)
    return stored
