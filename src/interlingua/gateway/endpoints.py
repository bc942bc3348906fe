"""Endpoints that need no provider: models, counts of tokens, and stored responses and conversations.

Clients look the latter up, describe, extend and delete them by id, at the paths of the Responses API:
`/responses/{id}`, `/conversations/{id}` and their items.
"""

import itertools
import re
import secrets
from collections.abc import Mapping
from typing import Any

from aiohttp import web
from msgspec.structs import replace

from ..dialects.registry import cut_frames
from ..dialects.wire import SSE
from ..values.errors import BadRequest, DialectError, InterlinguaError
from ..values.folding import unfold
from ..values.messages import Message
from ..values.request import Context, ModelDescriptor, Request
from ..values.tokens import taken
from .background import Background, failed
from .exchange import ClientKey, Exchange
from .incoming import ClientRequest, aside, json_object, method_of, read_body, read_count, refuse_empty
from .operations import GatewayOperation
from .recall import ConversationFacts, Recall, is_pending, referred_ids
from .references import References
from .routing import NO_CONVERSATION, Router
from .settings import ClientLimits
from .state import StateError, unavailable

_NO_REQUEST = Request(model=ModelDescriptor(provider="", id="-"), context=Context(messages=()))
# platform.openai.com/docs/api-reference/conversations/list-items
_PAGE, _MAX_PAGE = 20, 100  # items


class Endpoints:
    """What the gateway answers itself."""

    def __init__(self, references: References, background: Background) -> None:
        self._references = references
        self._background = background

    async def answer(
        self, http: web.BaseRequest, asked: GatewayOperation, exchange: Exchange, router: Router, limits: ClientLimits
    ) -> Any:
        """Returns the value of an answer, or the bytes of its stream."""
        facts, key = asked.wire.http, exchange.key
        if asked.kind == "list":
            names = router.names(key)
            if facts.models_page is None:
                return facts.list_models(names)
            page, fields = facts.models_page(names, http.query)
            return {**facts.list_models(page), **fields}
        if asked.kind == "model":
            names = await _routed(router, asked.model, key, http)
            if not names:
                raise BadRequest(f"the model {asked.model!r} does not exist", status=404, code="model_not_found")
            listed = facts.list_models(names)
            return next(value[0] for value in listed.values() if isinstance(value, list))
        body = await read_body(http, limits)
        if asked.kind == "fixed":
            given = json_object(body) if body else {}
            names = await _routed(router, given.get("model") or given.get("name"), key, http)
            return facts.fixed[asked.part or ""]([*router.names(key), *names], given)
        if asked.kind == "count" and facts.count is not None:
            request = await aside(len(body), read_count, asked, body)
            if facts.stored_route is not None:
                request, _ = await self._references.with_history(exchange, request)
                if ids := referred_ids(request.context.messages, asked.wire.base):
                    request, _ = await self._references.with_items(exchange, request, ids)
            if not request.context.messages:
                refuse_empty(asked, request)
            return facts.count.answer(await aside(len(body), taken, request.context))
        recall = self._references.recall
        kind = "conversation" if asked.kind == "conversation" else "response"
        await self._references.fetch(key.name, kind, asked.id)
        method, query = method_of(http), http.query
        if asked.kind == "stored":
            if asked.part == "cancel" or method == "DELETE":
                await self._background.cancel(key.name, asked.id)
            elif asked.part is None and wants_stream(query):
                await self._background.ended(key.name, asked.id)
        if asked.kind == "conversation":
            await self._references.fetch(key.name, "facts", asked.id)
            given = json_object(body) if body else {}
            answer = _conversation_answer(
                recall, key.name, method, asked, query, given, turn=exchange.id, now=exchange.started
            )
        else:
            answer = _response_answer(recall, key.name, method, asked, query)
        try:
            await recall.save()
        except StateError as error:
            raise unavailable(f"stored {kind}s cannot be changed", error) from None
        return answer


async def _routed(router: Router, name: Any, key: ClientKey, http: ClientRequest) -> list[str]:
    """Returns the name of a model if a call with it would be routed: no list has all models of a provider."""
    if not isinstance(name, str):
        return []
    try:
        await router.plan(name, key, NO_CONVERSATION, http.headers, 0)
    except InterlinguaError:
        return []
    return [name]


def _response_answer(recall: Recall, key: str, method: str, asked: GatewayOperation, query: Mapping[str, str]) -> Any:
    """A stored response: itself, or as the bytes of its stream; its input, or its end."""
    codec = asked.wire.codec
    stored = recall.stored(key, asked.id)
    if stored is None:
        raise BadRequest(f"response with id {asked.id!r} not found", status=404)
    answer = replace(stored.answer, response_id=asked.id)
    if stored.until is not None and not is_pending(stored):
        answer = failed(answer, "the gateway that generated the response has ended; send the request again")
    match method, asked.part:
        case "DELETE", None:
            find = asked.wire.http.item_blocks
            recall.delete(key, asked.id, find(answer) if find is not None else ())
            return {"id": asked.id, "object": "response", "deleted": True}
        case "GET", None:
            if wants_stream(query):
                encoder = codec.StreamEncoder(request=stored.request)
                return _after(b"".join(map(encoder.feed, unfold(answer))) + encoder.close(), query)
            return codec.encode_response(answer, request=stored.request).body
        case "GET", "input_items":
            return _page(_items(asked, stored.request, stored.given), query)
        case "POST", "cancel":
            if stored.request.extra.get(asked.wire.base, {}).get("background") is True:
                return codec.encode_response(answer, request=stored.request).body
            # platform.openai.com/docs/api-reference/responses/cancel: only responses created with `background`.
            raise BadRequest("only background responses can be cancelled; close the connection instead", status=400)
    raise BadRequest(f"{method} is not supported here", status=404)


def wants_stream(query: Mapping[str, str]) -> bool:
    return query.get("stream", "false").lower() not in ("false", "0", "")


def first_event(query: Mapping[str, str]) -> int:
    """The number of the first event that is asked for: the one after `starting_after`, else 0."""
    # …/responses/get: `starting_after` is the sequence number of the last event that the client has.
    number = query.get("starting_after")
    if number is None:
        return 0
    if not re.fullmatch("[0-9]{1,9}", number):
        raise BadRequest(f"starting_after: expected a sequence number, got {number[:20]!r}", status=400)
    return int(number) + 1


def _after(stream: bytes, query: Mapping[str, str]) -> bytes:
    start = first_event(query)
    return b"".join(itertools.islice(cut_frames(stream, SSE), start, None)) if start else stream


def _conversation_answer(
    recall: Recall,
    key: str,
    method: str,
    asked: GatewayOperation,
    query: Mapping[str, str],
    body: Mapping[str, Any],
    *,
    turn: str,
    now: float,
) -> dict[str, Any]:
    """A conversation that responses are added to, or its items. `turn` names what this request adds."""
    id = asked.id
    if method == "POST" and not id:
        id, facts = f"conv_{secrets.token_hex(16)}", ConversationFacts(created=now, metadata=_metadata(body))
        recall.create(key, id, _given_items(asked, body))
        recall.describe(key, id, facts)
        return _described(id, facts)
    messages = recall.conversation(key, id)
    if messages is None:
        raise BadRequest(f"conversation with id {id!r} not found", status=404)
    facts = recall.facts(key, id) or ConversationFacts(created=now, metadata={})
    match method, asked.part:
        case "GET", None:
            return _described(id, facts)
        case "POST", None:
            facts = replace(facts, metadata=_metadata(body))
            recall.describe(key, id, facts)
            return _described(id, facts)
        case "DELETE", None:
            recall.delete_conversation(key, id)
            # platform.openai.com/docs/api-reference/conversations/delete.
            return {"id": id, "object": "conversation.deleted", "deleted": True}
        case "GET", "items":
            return _page(_items(asked, _NO_REQUEST, messages), query)
        case "POST", "items":
            added, before = _given_items(asked, body), len(_items(asked, _NO_REQUEST, messages))
            recall.extend(key, id, turn, added)
            return _listed(_items(asked, _NO_REQUEST, (*messages, *added))[before:])
        case "GET", str(part):
            name = part.partition("/")[2]
            for item in _items(asked, _NO_REQUEST, messages):
                if item["id"] == name:
                    return item
            raise BadRequest(f"item with id {name!r} not found", status=404)
    raise BadRequest(f"{method} is not supported here; the items of a conversation only grow", status=404)


def _described(id: str, facts: ConversationFacts) -> dict[str, Any]:
    return {"id": id, "object": "conversation", "created_at": int(facts.created), "metadata": facts.metadata}


def _metadata(body: Mapping[str, Any]) -> dict[str, Any]:
    metadata = body.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise BadRequest(f"$.metadata: expected an object, got {type(metadata).__name__}", status=400)
    return metadata


def _given_items(asked: GatewayOperation, body: Mapping[str, Any]) -> tuple[Message, ...]:
    items = body.get("items") or []
    if not isinstance(items, list):
        raise BadRequest(f"$.items: expected a list of items, got {type(items).__name__}", status=400)
    try:
        return asked.wire.codec.decode_request({"model": "-", "input": items}).context.messages if items else ()
    except DialectError as error:
        raise BadRequest(str(error).replace("$.input", "$.items"), status=400) from None


def _items(asked: GatewayOperation, request: Request, messages: tuple[Message, ...]) -> list[dict[str, Any]]:
    """Messages as items, each with an id."""
    context = replace(request.context, messages=messages)
    items = asked.wire.codec.encode_request(replace(request, context=context)).body.get("input") or []
    if isinstance(items, str):
        items = [{"role": "user", "content": items}]
    return [{"id": f"item_{asked.id}_{at}", **_full(item)} for at, item in enumerate(items)]


def _full(item: dict[str, Any]) -> dict[str, Any]:
    """An item as it is listed: a message that was given in short form has its type, and parts instead of text."""
    content = item.get("content")
    if "role" not in item or not isinstance(content, str):
        return item
    kind = "output_text" if item["role"] == "assistant" else "input_text"
    part = {"type": kind, "text": content, **({"annotations": []} if kind == "output_text" else {})}
    return {"type": "message", "status": "completed", **item, "content": [part]}


def _page(items: list[dict[str, Any]], query: Mapping[str, str]) -> dict[str, Any]:
    """The items that are asked for: the newest first unless `order` is `asc`, those after the id `after`."""
    limit = query.get("limit", str(_PAGE))
    if not limit.isascii() or not limit.isdigit() or not 1 <= int(limit) <= _MAX_PAGE:
        raise BadRequest(f"limit: expected a number from 1 to {_MAX_PAGE}, got {limit!r}", status=400)
    if (order := query.get("order", "desc")) not in ("asc", "desc"):
        raise BadRequest(f"order: expected asc or desc, got {order!r}", status=400)
    # …/conversations/list-items: `order` is `desc` by default.
    items = items if order == "asc" else items[::-1]
    if (after := query.get("after")) is not None:
        places = [at for at, item in enumerate(items) if item["id"] == after]
        if not places:
            raise BadRequest(f"after: item with id {after!r} not found", status=400)
        items = items[places[0] + 1 :]
    return _listed(items[: int(limit)], more=len(items) > int(limit))


def _listed(items: list[dict[str, Any]], *, more: bool = False) -> dict[str, Any]:
    ends = {"first_id": items[0]["id"], "last_id": items[-1]["id"]} if items else {"first_id": None, "last_id": None}
    return {"object": "list", "data": items, "has_more": more, **ends}
