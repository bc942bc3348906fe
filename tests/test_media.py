"""adapt and media: true types, allowed sources, sizes and numbers."""

import base64
import io
import json
import sys
from typing import Any

import pytest
from msgspec.structs import replace

import interlingua as il
from interlingua.connect.providers import PROVIDERS
from interlingua.conversion import resizing
from interlingua.dialects import WIRES
from interlingua.values.messages import AudioBlock, DocumentBlock, ImageBlock, TextBlock, UserMessage
from interlingua.values.messages import blocks_of as content_of
from interlingua.values.request import Context, ModelDescriptor, Request
from strategies import PNG
from test_handover import (
    ALL,
    BEDROCK_CLAUDE,
    CHAT,
    CLAUDE,
    GEMINI,
    GPT,
    HI,
    LLAMA,
    answer_from,
    blocks_of,
    call,
    every_target,
    faults,
    png,
    repaired,
    request,
    result,
)

Image = pytest.importorskip("PIL.Image")


def saved(width: int, height: int, kind: str = "PNG") -> str:
    file = io.BytesIO()
    Image.new("RGB", (width, height), "teal").save(file, format=kind)
    return base64.b64encode(file.getvalue()).decode()


JPEG, WEBP, GIF = saved(2, 2, "JPEG"), saved(2, 2, "WEBP"), saved(2, 2, "GIF")
PDF = base64.b64encode(b"%PDF-1.7\n").decode()
WAV = base64.b64encode(b"RIFF\x24\0\0\0WAVEfmt ").decode()
MP3 = base64.b64encode(b"ID3\x04\0\0\0\0\0\0").decode()


def sent(block: Any, target: ModelDescriptor) -> tuple[Any, Any]:
    """How a block of the user's reaches the target, and the losses."""
    adapted = il.adapt(request(UserMessage(content=(TextBlock(text="See"), block))), target)
    return content_of(adapted.request.context.messages[0].content)[1], adapted.losses


# --- types -----------------------------------------------------------------------------------------------------------

LABELS = ["image/png", "image/gif", "application/octet-stream", "IMAGE/PNG;q=1", "application/pdf", "text/plain", None]


@every_target
@pytest.mark.parametrize("label", LABELS)
def test_a_picture_is_sent_as_what_its_bytes_are(target: ModelDescriptor, label: str | None) -> None:
    """
    A JPEG with any label, or with none, is a JPEG on every wire; the change is reported, and the source keeps its own.
    """
    source = request(UserMessage(content=(ImageBlock(data=JPEG, mime_type=label),)))
    assert blocks_of(repaired(source, target)) == [ImageBlock(data=JPEG, mime_type="image/jpeg")]
    assert ("warning", "$.messages[0].content[0].mimeType") in faults(source, target)
    assert blocks_of(source) == [ImageBlock(data=JPEG, mime_type=label)]


WIRE_PICTURES: dict[str, Any] = {
    "anthropic-messages": {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": JPEG}},
    "openai-completions": {
        "type": "image_url",
        "image_url": {"url": f"data:image/png;charset=binary;base64,{JPEG}"},
    },
    "openai-responses": {"type": "input_image", "image_url": f"data:image/png;base64,{JPEG}", "detail": "auto"},
    "google-generative-ai": {"inline_data": {"mime_type": "image/png", "data": JPEG}},
    "bedrock-converse-stream": {"image": {"format": "png", "source": {"bytes": JPEG}}},
}


def wire_body(name: str, part: Any) -> dict[str, Any]:
    if name == "openai-responses":
        return {"model": "gpt-5", "input": [{"role": "user", "content": [part]}]}
    if name == "google-generative-ai":
        return {"contents": [{"role": "user", "parts": [part]}]}
    return {"model": "m", "max_tokens": 10, "messages": [{"role": "user", "content": [part]}]}


@pytest.mark.parametrize("name", WIRE_PICTURES)
def test_a_wrong_label_that_came_over_the_wire_does_not_go_back_over_it(name: str) -> None:
    """
    The residual of the wire's own spelling does not bring it back either.
    """
    wire = il.dialect(name)
    decoded = wire.decode_request(wire_body(name, WIRE_PICTURES[name]), model="m")
    body = json.dumps(wire.encode_request(il.adapt(decoded, name).request).body)
    assert "jpeg" in body
    assert "png" not in body


KINDS: list[tuple[Any, Any]] = [
    (
        DocumentBlock(data=PNG, mime_type="application/octet-stream", title="a"),
        ImageBlock(data=PNG, mime_type="image/png"),
    ),
    (DocumentBlock(data=JPEG, mime_type="application/pdf"), ImageBlock(data=JPEG, mime_type="image/jpeg")),
    (ImageBlock(data=PDF, mime_type="image/png"), DocumentBlock(data=PDF, mime_type="application/pdf")),
    (ImageBlock(data=WAV, mime_type="image/png"), AudioBlock(data=WAV, mime_type="audio/wav")),
    (AudioBlock(data=MP3, mime_type="audio/wav"), AudioBlock(data=MP3, mime_type="audio/mpeg")),
    (AudioBlock(data=MP3), AudioBlock(data=MP3, mime_type="audio/mpeg")),
    (DocumentBlock(data=MP3, title="song"), AudioBlock(data=MP3, mime_type="audio/mpeg")),
    (
        DocumentBlock(data=PDF, mime_type="application/octet-stream"),
        DocumentBlock(data=PDF, mime_type="application/pdf"),
    ),
    (DocumentBlock(data=PDF, title="a.pdf"), DocumentBlock(data=PDF, mime_type="application/pdf", title="a.pdf")),
]


@pytest.mark.parametrize(("block", "expected"), KINDS)
def test_a_file_in_the_wrong_kind_of_block_changes_its_kind(block: Any, expected: Any) -> None:
    """
    Pictures, sound and PDF are known by their bytes, whatever block they came in.
    """
    got, losses = sent(block, GEMINI)
    assert expected == got
    assert any(loss.what == "media type" for loss in losses)


@pytest.mark.parametrize(
    "block",
    [
        AudioBlock(data=base64.b64encode(b"\0\0\0\x18ftypisom\0\0\0\0").decode(), mime_type="audio/mp4"),
        AudioBlock(data=base64.b64encode(b"OggS\0\x02").decode(), mime_type="audio/opus"),
        DocumentBlock(data=base64.b64encode(b"\0\0\0\x18ftypM4A \0\0").decode(), mime_type="video/mp4"),
        ImageBlock(data=base64.b64encode(b"\0\0\0\x18ftypmif1\0\0").decode(), mime_type="image/heic"),
        DocumentBlock(data=base64.b64encode(b"a,b\n1,2").decode(), mime_type="text/csv"),
    ],
)
def test_a_label_that_may_be_the_truer_name_is_believed(block: Any) -> None:
    """
    Containers do not say in their first bytes what they hold, and text has no signature.
    """
    assert (block, ()) == sent(block, GEMINI)


SPELLINGS: list[Any] = [
    ImageBlock(url=f"data:image/png;base64,{JPEG}"),
    ImageBlock(url=f"DATA:image/jpeg;name=a.jpg;base64,{JPEG}"),
    ImageBlock(url=f"data:;base64,{JPEG.replace('=', '%3D')}"),
    ImageBlock(data=f"data:image/jpeg;base64,{JPEG}", mime_type="image/jpeg"),
    ImageBlock(data=base64.encodebytes(base64.b64decode(JPEG)).decode(), mime_type="image/jpeg"),
    ImageBlock(data=f"{JPEG}\n", mime_type="image/jpeg"),
]


@every_target
@pytest.mark.parametrize("block", SPELLINGS, ids=range(len(SPELLINGS)))
def test_a_data_url_and_broken_lines_become_plain_data(target: ModelDescriptor, block: Any) -> None:
    """
    Wherever the data URL was put: providers take base64 without a prefix and without line breaks.
    """
    source = request(UserMessage(content=(block,)))
    assert blocks_of(repaired(source, target)) == [ImageBlock(data=JPEG, mime_type="image/jpeg")]
    assert faults(source, target)


def test_a_data_url_of_text_is_a_document_of_text() -> None:
    """
    It need not be base64.
    """
    got, _ = sent(DocumentBlock(url="data:text/csv,a%2Cb"), CLAUDE)
    assert TextBlock(text="a,b") == got


# --- sources ---------------------------------------------------------------------------------------------------------


@every_target
@pytest.mark.parametrize("url", ["blob:sha256:" + "0" * 64, "file:///etc/passwd", "", "C:\\a.png"])
def test_an_address_that_the_target_cannot_read_is_a_note(target: ModelDescriptor, url: str) -> None:
    """
    A blob that the session has lost, a file of this machine, no address at all.
    """
    got, losses = sent(ImageBlock(url=url), target)
    assert isinstance(got, TextBlock)
    assert got.text.startswith("(image omitted: ")
    assert any(loss.severity == "dropped" for loss in losses)


@pytest.mark.parametrize(
    ("target", "url", "taken"),
    [
        (CLAUDE, "https://x.example/a.png", True),
        (CLAUDE, "gs://bucket/a.png", False),
        (GEMINI, "gs://bucket/a.png", True),
        (BEDROCK_CLAUDE, "s3://bucket/a.png", True),
        (BEDROCK_CLAUDE, "https://x.example/a.png", False),
        (CHAT, "s3://bucket/a.png", False),
    ],
)
def test_each_target_reads_from_its_own_places(target: ModelDescriptor, url: str, taken: bool) -> None:
    """
    Buckets are the business of the cloud that has them.
    """
    block = ImageBlock(url=url, mime_type="image/png")
    got, _ = sent(block, target)
    assert taken == (got == block)


# --- sizes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", [CLAUDE, BEDROCK_CLAUDE], ids=lambda t: t.id)
@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
def test_a_picture_that_is_too_large_is_made_smaller(target: ModelDescriptor, kind: str) -> None:
    """
    Within the target's pixels, with a loss that says from what to what; nothing is left to do the second time.
    """
    source = request(UserMessage(content=(ImageBlock(data=saved(9000, 30, kind)),)))
    (made,) = blocks_of(repaired(source, target))
    seen = resizing.look(made.data)
    assert seen is not None
    assert seen.width == (2000 if target is CLAUDE else 8000)
    loss = next(loss for loss in il.adapt(source, target).losses if loss.what == "media")
    assert ("$.messages[0].content[0]", "weakened") == (loss.path, loss.severity)
    assert f"9000 by 30 pixels: sent as image/{kind.lower()} of {seen.width} by {seen.height}" in loss.why


def test_the_limit_for_many_pictures_is_kept_from_the_first_on() -> None:
    """
    The 21st picture finds the first twenty within the limit that it brings.
    """
    large = ImageBlock(data=saved(2100, 10), mime_type="image/png")
    few, many = (blocks_of(repaired(request(UserMessage(content=(large,) * n)), CLAUDE)) for n in (1, 21))
    assert many == few * 21
    seen = resizing.look(few[0].data)
    assert seen is not None
    assert seen.width == 2000


def test_a_file_that_is_too_long_is_made_shorter() -> None:
    """
    Vertex takes seven megabytes a picture, the Gemini API more.
    """
    noise = Image.effect_noise((2600, 2600), 100)
    file = io.BytesIO()
    noise.save(file, format="PNG")
    block = ImageBlock(data=base64.b64encode(file.getvalue()).decode() + "", mime_type="image/png")
    small = ModelDescriptor(id="gemini-2.5-pro", api="google-vertex", compat={"imageBytes": 1_000_000})
    got, losses = sent(block, small)
    assert len(got.data) <= 1_000_000 < len(block.data or "")
    assert ["weakened"] == [loss.severity for loss in losses]
    assert (block, ()) == sent(block, GEMINI)


@pytest.mark.parametrize("kind", ["BMP", "TIFF", "GIF"])
def test_a_type_that_the_target_does_not_take_is_converted(kind: str) -> None:
    """
    Where Pillow can read it, it is sent as a PNG.
    """
    target = GEMINI if kind == "GIF" else CLAUDE
    got, losses = sent(ImageBlock(data=saved(3, 2, kind)), target)
    assert "image/png" == got.mime_type
    assert resizing.Picture("image/png", 3, 2) == resizing.look(got.data)
    assert "weakened" in {loss.severity for loss in losses}


@pytest.mark.parametrize("target", [GPT, CHAT], ids=lambda t: t.id)
def test_of_a_picture_that_moves_openai_gets_the_first_frame(target: ModelDescriptor) -> None:
    """
    It takes GIF files, but none that move.
    """
    frames = [Image.new("RGB", (4, 4), colour) for colour in ("red", "blue")]
    file = io.BytesIO()
    frames[0].save(file, format="GIF", save_all=True, append_images=frames[1:], loop=0)
    moving = ImageBlock(data=base64.b64encode(file.getvalue()).decode(), mime_type="image/gif")
    got, losses = sent(moving, target)
    assert "image/png" == got.mime_type
    assert ["weakened"] == [loss.severity for loss in losses]
    assert "the first of 2 frames" in losses[0].why
    assert (moving, ()) == sent(moving, CLAUDE)
    still = ImageBlock(data=GIF, mime_type="image/gif")
    assert (still, ()) == sent(still, target)


def test_without_pillow_a_note_says_so_and_the_loss_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    The model reads the size; the remedy is for people.
    """
    block = ImageBlock(data=saved(9000, 30), mime_type="image/png")
    monkeypatch.setitem(sys.modules, "PIL", None)
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    got, losses = sent(block, CLAUDE)
    assert TextBlock(text="(image omitted: 9000 by 30 pixels, where 8000 are the most)") == got
    assert ['pip install "interlingua[images]"' in loss.why for loss in losses] == [True]
    smaller = ImageBlock(data=png(3000, 30), mime_type="image/png")
    assert (smaller, ()) == sent(smaller, CLAUDE)


# --- numbers ---------------------------------------------------------------------------------------------------------

COUNTS = [(CLAUDE, 100), (BEDROCK_CLAUDE, 20), (GPT, 500), (CHAT, 500)] + [
    (ModelDescriptor(id="m", api=row.api, provider=row.id, compat=row.compat), most)
    for row, most in ((PROVIDERS["groq"], 5), (PROVIDERS["mistral"], 8), (PROVIDERS["fireworks"], 30))
]


@pytest.mark.parametrize(("target", "most"), COUNTS, ids=lambda value: getattr(value, "provider", None) or str(value))
def test_media_over_the_limit_become_text(target: ModelDescriptor, most: int) -> None:
    """
    The first ones stay as they were, however many follow; each later one is a note with a loss.
    """
    picture = ImageBlock(data=PNG, mime_type="image/png")
    source = request(*(UserMessage(content=(picture,)) for _ in range(most + 2)))
    adapted = il.adapt(source, target)
    got = blocks_of(adapted.request)
    assert [picture] * most == got[:most]
    assert [f"(image omitted: the target takes {most} images in a request, and they came before it)"] * 2 == [
        block.text for block in got[most:]
    ]
    assert [(f"$.messages[{most + n}].content[0]", "dropped") for n in (0, 1)] == [
        (loss.path, loss.severity) for loss in adapted.losses if loss.what == "media"
    ]


def test_pictures_of_results_count_too() -> None:
    """
    Wherever they stand, they are in one request.
    """
    picture = ImageBlock(data=PNG, mime_type="image/png")
    source = request(
        UserMessage(content=(picture,) * 15),
        answer_from(BEDROCK_CLAUDE, call("c1")),
        result("c1", content=(picture,) * 10),
    )
    kept = [isinstance(block, ImageBlock) for block in blocks_of(repaired(source, BEDROCK_CLAUDE))]
    assert kept == [True] * 15 + [False] + [True] * 5 + [False] * 5


def test_bedrock_takes_five_documents_of_four_and_a_half_megabytes() -> None:
    """
    The sixth and the too large are told in words, or by their own.
    """
    file = DocumentBlock(data=base64.b64encode(b"a,b").decode(), mime_type="text/csv")
    got = blocks_of(repaired(request(UserMessage(content=(TextBlock(text="See"), *(file,) * 6))), BEDROCK_CLAUDE))
    assert [DocumentBlock] * 5 == [type(block) for block in got[1:6]]
    assert TextBlock(text="a,b") == got[6]
    large = base64.b64encode(b"%PDF-" + bytes(4_600_000)).decode()
    sheet = DocumentBlock(data=large[8:], mime_type="application/vnd.ms-excel")
    got, _ = sent(sheet, BEDROCK_CLAUDE)
    assert TextBlock(text="(document omitted: larger than 6000000 bytes as sent)") == got
    pdf = DocumentBlock(data=large, mime_type="application/pdf", title="a")
    assert (pdf, ()) == sent(pdf, BEDROCK_CLAUDE)
    assert isinstance(sent(pdf, ModelDescriptor(id="claude-3-haiku", api="bedrock-converse-stream"))[0], TextBlock)


def test_a_document_alone_is_accompanied_by_a_text_where_that_is_the_rule() -> None:
    """
    Bedrock refuses a message that has a document and no text.
    """
    file = DocumentBlock(data=PDF, mime_type="application/pdf", title="a")
    source = request(UserMessage(content=(file,)))
    assert [TextBlock(text="(see the documents)"), file] == blocks_of(repaired(source, BEDROCK_CLAUDE))
    assert ("error", "$.messages[0].content") in faults(source, BEDROCK_CLAUDE)
    assert [file] == blocks_of(repaired(source, CLAUDE))


def test_what_is_too_much_for_one_request_is_left_out() -> None:
    """
    Groq takes four megabytes in all.
    """
    target = ModelDescriptor(id="m", api="openai-completions", compat={"mediaBytes": 1_000})
    picture, more = (ImageBlock(data=PNG + "A" * n, mime_type="image/png") for n in (500, 600))
    source = request(UserMessage(content=(picture, more, replace(picture, data=PNG))))
    first, note, last = blocks_of(il.adapt(source, target).request)
    assert (picture, PNG) == (first, last.data)
    assert "(image omitted: with those before it, more than 1000 bytes as sent)" == note.text


@pytest.mark.parametrize("kind", ["application/zip", "application/octet-stream", "application/x-report"])
@every_target
def test_a_file_that_no_model_reads_is_a_note(target: ModelDescriptor, kind: str) -> None:
    """
    As a tool of an MCP server may give it: providers refuse the whole conversation over it.
    """
    got, losses = sent(DocumentBlock(data=base64.b64encode(b"PK\3\4").decode(), mime_type=kind, title="a"), target)
    why = "documents" if target is LLAMA else kind
    assert TextBlock(text=f"(document omitted: the target takes no {why})") == got
    assert ["dropped"] == [loss.severity for loss in losses]


@every_target
@pytest.mark.parametrize("kind", ["text/csv", "application/json", "application/atom+xml"])
def test_a_file_of_text_is_a_document_or_its_text(target: ModelDescriptor, kind: str) -> None:
    """
    What a target does not take as a file, it reads as text.
    """
    block = DocumentBlock(data=base64.b64encode(b"[1]").decode(), mime_type=kind, title="a")
    assert sent(block, target)[0] in (block, TextBlock(text="[1]"))


# --- sound in results ------------------------------------------------------------------------------------------------


@every_target
def test_sound_in_a_result_is_sent_or_noted_with_a_loss(target: ModelDescriptor) -> None:
    """
    Behind the results where the wire takes sound from the user; else as a note, or as its transcript.
    """
    sound = AudioBlock(data=WAV, mime_type="audio/wav")
    source = request(HI, answer_from(target, call("c1")), result("c1", content=(TextBlock(text="Listen"), sound)))
    adapted = il.adapt(source, target)
    got = blocks_of(repaired(source, target))
    assert "$.messages[2].content[1]" in [loss.path for loss in adapted.losses]
    if target in (CHAT, GEMINI) or target.id == "mistral-large":
        assert sound in got
    else:
        assert sound not in got
        assert any("(audio omitted: the target takes no audio" in getattr(block, "text", "") for block in got)


# --- cost ------------------------------------------------------------------------------------------------------------


def test_a_conversation_without_media_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Nothing is sniffed, decoded or resized.
    """
    monkeypatch.setattr(resizing, "sniff", None)
    monkeypatch.setattr(resizing, "look", None)
    source = request(HI, answer_from(CLAUDE, TextBlock(text="Yes?")), UserMessage(content=(TextBlock(text="Go on"),)))
    for target in ALL:
        il.adapt(source, target)


def test_large_media_are_not_decoded_to_be_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Whatever the wire, a picture within the limits costs a few bytes.
    """
    decoded: list[int] = []
    real = base64.b64decode

    def counting(data: Any, *how: Any, **more: Any) -> bytes:
        decoded.append(len(data))
        return real(data, *how, **more)

    monkeypatch.setattr(base64, "b64decode", counting)
    data = base64.b64encode(base64.b64decode(png(100, 100)) + bytes(3_000_000)).decode()
    decoded.clear()
    source = request(UserMessage(content=(ImageBlock(data=data, mime_type="image/jpeg"),)))
    for target in ALL:
        il.adapt(source, target)
    assert sum(decoded) < 10_000


def test_every_wire_can_be_asked() -> None:
    """
    Variants too have limits.
    """
    block = ImageBlock(data=JPEG, mime_type="image/png")
    for name in WIRES:
        source = Request(model=ModelDescriptor(id=""), context=Context(messages=(UserMessage(content=(block,)),)))
        (message,) = il.adapt(source, name).request.context.messages
        assert message.content == (replace(block, mime_type="image/jpeg"),)
