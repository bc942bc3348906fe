"""Media in adapted requests: within the target's limits, under their true types, and decided once and for all."""

import base64
import io
from typing import Any

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

import interlingua as il
from interlingua.conversion.resizing import look, sniff
from interlingua.dialects.registry import limits_of
from interlingua.values.messages import (
    AssistantMessage,
    AudioBlock,
    DocumentBlock,
    ImageBlock,
    TextBlock,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    blocks_of,
)
from interlingua.values.request import Context, ModelDescriptor, Request
from laws.differences import is_under
from laws.wires import every_dialect
from test_handover import png

Image = pytest.importorskip("PIL.Image")


def saved(width: int, height: int, kind: str) -> str:
    file = io.BytesIO()
    Image.effect_noise((width, height), 80).save(file, format=kind)
    return base64.b64encode(file.getvalue()).decode()


FILES = [
    *(saved(*size, kind) for size in ((3, 3), (60, 20), (2100, 4)) for kind in ("PNG", "JPEG", "GIF", "WEBP", "BMP")),
    *(png(side, 10) for side in (50, 2500, 9000)),  # heads of pictures that nothing can decode
    *(
        base64.b64encode(head).decode()
        for head in (b"%PDF-1.7", b"RIFF....WAVEfmt ", b"ID3\x04....", b"a,b", b"OggS..")
    ),
]
TYPES = [None, "image/png", "image/jpeg", "image/bmp", "audio/wav", "application/pdf", "text/csv", "application/x"]


@st.composite
def media(draw: st.DrawFn) -> Any:
    kind = draw(st.sampled_from([ImageBlock, ImageBlock, ImageBlock, DocumentBlock, AudioBlock]))
    if draw(st.integers(0, 9)) == 0:
        return kind(url=draw(st.sampled_from(["https://x.example/a", "gs://b/a", "s3://b/a", "blob:sha256:00"])))
    return kind(data=draw(st.sampled_from(FILES)), mime_type=draw(st.sampled_from(TYPES)))


@st.composite
def histories(draw: st.DrawFn) -> list[Any]:
    """Turns with media in them, of the user's and in results, now and then more than targets take."""
    messages: list[Any] = []
    for turn in range(draw(st.integers(1, 4))):
        blocks = draw(st.lists(media(), max_size=4)) * draw(st.sampled_from([1, 1, 1, 8, 40]))
        messages.append(UserMessage(content=(TextBlock(text="Look"), *blocks)))
        calls = tuple(ToolCall(id=f"c{turn}{n}", name="shot", arguments={}) for n in range(draw(st.integers(0, 2))))
        messages.append(AssistantMessage(content=(TextBlock(text="Yes"), *calls)))
        messages += [
            ToolResultMessage(
                tool_call_id=one.id,
                tool_name="shot",
                content=(TextBlock(text="Here"), *draw(st.lists(media(), max_size=3))),
                is_error=False,
            )
            for one in calls
        ]
        if calls:
            messages.append(AssistantMessage(content=(TextBlock(text="Seen"),)))
    return messages


@st.composite
def targets(draw: st.DrawFn, name: str) -> ModelDescriptor:
    tight = {
        "maxImages": st.integers(0, 3),
        "imageSide": st.sampled_from([16, 40]),
        "imagePixels": st.sampled_from([100, 1000]),
        "imageBytes": st.sampled_from([300, 2000]),
        "maxDocuments": st.integers(0, 2),
        "documentBytes": st.just(10),
        "mediaBytes": st.sampled_from([1000, 10_000]),
        "imageTypes": st.just(["image/jpeg", "image/png"]),
    }
    compat = draw(st.one_of(st.just({}), st.fixed_dictionaries({}, optional=tight)))
    return ModelDescriptor(id=draw(st.sampled_from(["m", "claude-opus-4-5", "gemini-3-pro"])), api=name, compat=compat)


def request_of(messages: list[Any]) -> Request:
    return Request(model=ModelDescriptor(id=""), context=Context(messages=tuple(messages)))


def in_request(request: Request, kind: type) -> list[Any]:
    return [b for message in request.context.messages for b in blocks_of(message.content) if isinstance(b, kind)]


@every_dialect
@given(data=st.data())
def test_what_follows_never_changes_how_media_before_it_are_sent(name: str, data: st.DataObject) -> None:
    """
    Whatever pictures come later, and however many: the request up to the last turn of the model stays as it was.
    """
    messages, target = data.draw(histories()), data.draw(targets(name))
    cut = data.draw(st.integers(0, len(messages)))
    early, late = (il.adapt(request_of(part), target).request.context.messages for part in (messages[:cut], messages))
    spoken = [at for at, message in enumerate(early) if isinstance(message, AssistantMessage)]
    settled = spoken[-1] if spoken else 0
    assert early[:settled] == late[:settled]


@every_dialect
@given(data=st.data())
def test_media_that_are_sent_are_within_the_limits_of_the_target(name: str, data: st.DataObject) -> None:
    """
    In number, size, type and source; and nothing is left to do or to report the second time.
    """
    source, target = request_of(data.draw(histories())), data.draw(targets(name))
    adapted, rules = il.adapt(source, target), limits_of(target)
    images, documents, sounds = (in_request(adapted.request, kind) for kind in (ImageBlock, DocumentBlock, AudioBlock))
    note(f"losses: {adapted.losses}")
    assert len(images) <= (rules.max_images if rules.max_images is not None else len(images))
    assert len(documents) <= (rules.max_documents if rules.max_documents is not None else len(documents))
    side = rules.image_side
    if rules.many_images is not None and len(images) > rules.many_images[0]:
        side = rules.many_images[1]
    for image in images:
        if image.data is not None:
            assert image.mime_type in rules.image_types
            seen = look(image.data)
            assert rules.image_bytes is None or len(image.data) <= rules.image_bytes
            assert seen is None or side is None or max(seen.width, seen.height) <= side
            assert seen is None or rules.image_pixels is None or seen.width * seen.height <= rules.image_pixels
    for block in (*images, *documents, *sounds):
        if block.data is not None:
            assert sniff(block.data) in (None, block.mime_type, "audio/ogg")
        elif block.url is not None:
            assert block.url.partition(":")[0] in rules.url_schemes
    total = sum(len(block.data or "") for block in (*images, *documents, *sounds))
    assert rules.media_bytes is None or total <= rules.media_bytes
    again = il.adapt(adapted.request, target)
    assert (adapted.request, ()) == (again.request, again.losses)


@every_dialect
@given(data=st.data())
def test_no_picture_sound_or_file_goes_without_a_word(name: str, data: st.DataObject) -> None:
    """
    Each block of the source is sent as it is, or a loss says what was done; what is not sent has a text in its place.
    """
    source, target = request_of(data.draw(histories())), data.draw(targets(name))
    adapted = il.adapt(source, target)
    dropped = {loss.path for loss in adapted.losses if loss.severity == "dropped"}
    places = {
        adapted.source(f"$.messages[{at}].content[{n}]"): block
        for at, message in enumerate(adapted.request.context.messages)
        for n, block in enumerate(blocks_of(message.content))
    }
    for at, message in enumerate(source.context.messages):
        for n, block in enumerate(blocks_of(message.content)):
            path = f"$.messages[{at}].content[{n}]"
            if isinstance(block, ImageBlock | AudioBlock | DocumentBlock):
                there = places[path]
                assert isinstance(there, TextBlock) == (path in dropped)
                assert there == block or any(is_under(loss.path, path) for loss in adapted.losses)
