"""Attacks on session files: links and FIFOs in their place, hostile indexes and catalogues, names, full disks."""

import contextlib
import os
import random
import socket
import stat
import struct
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import interlingua as il
from interlingua.sessions import (
    Session,
    SessionError,
    delete_sessions,
    deleted_sessions,
    export_session,
    files,
    fork_session,
    index,
    list_sessions,
    read_session,
    restore_sessions,
    search_sessions,
)
from interlingua.sessions.files import FileStore
from interlingua.sessions.gc import collect_blobs, purge

from .making import answer, fill, texts, user


@pytest.fixture(autouse=True)
def _small_sessions_have_an_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_INDEXED", 1)


PRECIOUS = b"precious\n" * 3


def fifo(path: Path, _: Path) -> None:
    os.mkfifo(path)


def unix_socket(path: Path, _: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        before = Path.cwd()
        os.chdir(path.parent)  # the path of a socket has at most 108 bytes
        try:
            server.bind(path.name)
        finally:
            os.chdir(before)


def folder(path: Path, _: Path) -> None:
    path.mkdir()


def link(path: Path, target: Path) -> None:
    path.symlink_to(target)


def dangling_link(path: Path, target: Path) -> None:
    path.symlink_to(target.with_name("not-there"))


def hard_link(path: Path, target: Path) -> None:
    os.link(target, path)


def link_to_a_device(path: Path, _: Path) -> None:
    path.symlink_to("/dev/zero")


def link_to_itself(path: Path, _: Path) -> None:
    path.symlink_to(path)


def other_file(path: Path, target: Path) -> None:
    path.write_bytes(target.read_bytes())


Plant = Callable[[Path, Path], None]
IRREGULAR: tuple[Plant, ...] = (fifo, unix_socket, folder, link, dangling_link, link_to_a_device, link_to_itself)


def state(path: Path) -> Any:
    """What must stay as it is: kind, target, content and time of a path."""
    found = path.lstat()
    content = path.read_bytes() if stat.S_ISREG(found.st_mode) else None
    return stat.S_IFMT(found.st_mode), found.st_ino, content, path.is_symlink() and path.readlink()


def session_with(tmp_path: Path, *messages: str) -> Path:
    path = tmp_path / "chat.jsonl"
    with Session.open(path) as session:
        fill(session, *map(user, messages))
    return path


def target_beside(tmp_path: Path) -> Path:
    target = tmp_path / "precious.txt"
    target.write_bytes(PRECIOUS)
    return target


# --- what lies in the place of a file -------------------------------------------------------------------------------


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("plant", IRREGULAR)
def test_what_is_no_regular_file_is_no_session(tmp_path: Path, plant: Plant, read_only: bool) -> None:
    """It is refused at once, nothing is written through it, and no lock is left beside it."""
    target, path = target_beside(tmp_path), tmp_path / "chat.jsonl"
    plant(path, target)
    before = state(path)
    with pytest.raises(SessionError):
        Session.open(path, read_only=read_only)
    with pytest.raises(SessionError):
        Session.open(path, create=False, read_only=read_only)
    assert (before, PRECIOUS) == (state(path), target.read_bytes())
    assert not (tmp_path / "not-there").exists() and not (tmp_path / "chat.lock").exists()


@pytest.mark.parametrize("plant", [*IRREGULAR, hard_link, other_file])
def test_what_is_no_lock_of_ours_is_not_used_as_one(tmp_path: Path, plant: Plant) -> None:
    """Taking the lock neither empties nor removes another file; reading goes on without it."""
    target, path = target_beside(tmp_path), session_with(tmp_path, "one")
    lock = path.with_suffix(".lock")
    plant(lock, target)
    before = state(lock)
    with pytest.raises(SessionError):
        Session.open(path)
    with Session.open(path, read_only=True) as session:
        assert ["one"] == texts(session.messages)
    assert (before, PRECIOUS) == (state(lock), target.read_bytes())
    assert not (tmp_path / "not-there").exists()


@pytest.mark.parametrize("plant", [*IRREGULAR, hard_link, other_file])
def test_what_is_no_index_of_ours_is_left_alone(tmp_path: Path, plant: Plant) -> None:
    """The session is read and written without an index, and deleted without deleting the other file."""
    target, path = target_beside(tmp_path), session_with(tmp_path, "one")
    place = path.with_suffix(".idx")
    place.unlink()
    plant(place, target)
    before = state(place)
    with Session.open(path) as session:
        fill(session, *(user(str(at)) for at in range(600)))
        assert 601 == len(session.messages)
    FileStore(folder=tmp_path).trash("main", "chat")
    assert (before, PRECIOUS) == (state(place), target.read_bytes())
    assert not (tmp_path / "not-there").exists()


@pytest.mark.parametrize("plant", [*IRREGULAR, other_file])
def test_what_lies_in_the_place_of_the_catalogue_is_not_read(tmp_path: Path, plant: Plant) -> None:
    """Sessions are listed all the same, and nothing is written through a link."""
    target, store = target_beside(tmp_path), FileStore(tmp_path)
    with Session.open("s", home=tmp_path) as session:
        session.append(user("hello"))
    plant(store.folder("main") / files.CATALOGUE, target)
    assert ["hello"] == [info.title for info in store.sessions("main")]
    assert PRECIOUS == target.read_bytes() and not (tmp_path / "not-there").exists()


@pytest.mark.parametrize("plant", IRREGULAR)
def test_a_folder_with_anything_in_it_is_listed_searched_and_purged(tmp_path: Path, plant: Plant) -> None:
    """What is no regular file is no session in a list, and no text in a collection."""
    store = FileStore(tmp_path)
    with Session.open("good", home=tmp_path) as session:
        session.append(user("hello"))
    for name in ("x.jsonl", "y.torn-1", "z.jsonl.before-gc-1"):
        plant(store.folder("main") / name, target_beside(tmp_path))
    assert ["good"] == [info.id for info in store.sessions("main")]
    assert b"precious" not in b"".join(store.texts("main"))
    collect_blobs(store, "main")
    purge(store, undo=0)


@pytest.mark.parametrize("name", ["chat.lock", "chat.idx"])
def test_a_session_cannot_have_the_name_of_a_lock_or_an_index(tmp_path: Path, name: str) -> None:
    """It would be its own lock, or be overwritten by its own index."""
    path = tmp_path / name
    path.write_bytes(PRECIOUS)
    for read_only in (False, True):
        with pytest.raises(SessionError, match="the name of"):
            Session.open(path, read_only=read_only)
    assert PRECIOUS == path.read_bytes()


def test_a_session_swapped_for_a_link_is_not_written_through(tmp_path: Path) -> None:
    """A writer that has it open notices; so does a reader that refreshes."""
    target, path = target_beside(tmp_path), session_with(tmp_path, "one")
    with Session.open(path, read_only=True) as reader, Session.open(path) as session:
        path.unlink()
        path.symlink_to(target)
        with pytest.raises(SessionError, match="removed or replaced"):
            session.append(user("two"))
        with pytest.raises(SessionError, match="a link"):
            reader.refresh()
    assert PRECIOUS == target.read_bytes()


def test_new_files_and_folders_are_for_their_owner_alone(tmp_path: Path) -> None:
    """Whatever the umask says."""
    before = os.umask(0)
    try:
        image = il.ImageBlock(data="A" * 100_000, mime_type="image/png")
        with Session.open("s", home=tmp_path / "home") as session:
            session.append(il.UserMessage(content=(image,)))
        FileStore(tmp_path / "home").sessions("main")
        with Session.open("s", store=f"sqlite:{tmp_path}/db/s.db") as session:
            session.append(user("one"))
        made = [*(tmp_path / "home").rglob("*"), *(tmp_path / "db").rglob("*"), tmp_path / "home", tmp_path / "db"]
        assert 8 < len(made)
        assert [] == [path for path in made if path.stat().st_mode & 0o077]
    finally:
        os.umask(before)


# --- the index ------------------------------------------------------------------------------------------------------


def views(path: Path) -> Any:
    """All that a reader shows of a session."""
    with Session.open(path, read_only=True) as session:
        tree = [(node.number, node.parent, node.on_path, node.entry.id) for node in session.nodes()]
        leaves, labels = session.leaf_ids(), session.labels()
        return session.head, texts(session.messages), tree, leaves, labels, session.title, session.line_count


def branched(tmp_path: Path) -> Path:
    path = tmp_path / "chat.jsonl"
    with Session.open(path) as session:
        ids = fill(session, *(user(str(at)) for at in range(20)))
        session.rewind(ids[3])
        fill(session, user("other"), answer("way"))
        session.label(ids[5], "five")
        session.label(None, "title")
    return path


def test_a_changed_index_never_changes_what_is_read(tmp_path: Path, record_property: Any) -> None:
    """2,500 indexes: bytes changed, cut, doubled, moved, and records that fit each other but not the file."""
    path = branched(tmp_path)
    place, right = path.with_suffix(".idx"), views(path)
    good, source = place.read_bytes(), random.Random(7)
    for _ in range(2500):
        place.write_bytes(_mutated(good, source))
        assert right == views(path)
    record_property("tried", 2500)


def _mutated(good: bytes, source: random.Random) -> bytes:
    wrong = bytearray(good)
    for _ in range(source.randint(1, 4)):
        at, length = source.randrange(len(wrong) + 1), source.randint(1, 24)
        match source.randrange(6):
            case 0:
                wrong[at : at + 1] = bytes([source.randrange(256)])
            case 1:
                del wrong[at:]
            case 2:
                wrong[at : at + length] = source.randbytes(length)
            case 3:
                wrong += wrong[at : at + 24]
            case 4:  # the number of records
                wrong[8:16] = struct.pack("<Q", source.choice([0, 1, 2**31, 2**62, 2**64 - 1, source.randrange(40)]))
            case _:  # the kind or the parent of a record
                record = max(0, len(wrong) - 24 * source.randint(1, 20))
                field = record + source.choice([12, 20, 21])
                wrong[field : field + 1] = source.randbytes(1)
        wrong = wrong or bytearray(1)
    return bytes(wrong)


def test_an_index_of_another_user_is_not_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is well made, and says what the file does not; only its key is another."""
    path = branched(tmp_path)
    right, place = views(path), path.with_suffix(".idx")
    monkeypatch.setenv("INTERLINGUA_HOME", str(tmp_path / "stranger"))
    log = files.FileLog(path)
    for number in range(log._index.lines):
        log._index._tail[number * 24 + 20] = 0  # every line is blank
    log._index._on_disk = 0
    place.unlink()
    log._index.save(place, log._file)
    log.close()
    monkeypatch.undo()
    assert right == views(path)


def test_a_key_that_others_can_read_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor one that is a link or a FIFO; sessions are then read without an index."""
    for number, plant in enumerate((*IRREGULAR, other_file)):
        home = tmp_path / f"home-{number}"
        home.mkdir()
        plant(home / "index.key", target_beside(tmp_path))
        monkeypatch.setenv("INTERLINGUA_HOME", str(home))
        with Session.open("s", home=tmp_path / f"sessions-{number}") as session:
            session.append(user("hello"))
        assert ["hello"] == [info.title for info in FileStore(tmp_path / f"sessions-{number}").sessions("main")]
    key = tmp_path / "open" / "index.key"
    key.parent.mkdir()
    key.write_bytes(bytes(32))
    key.chmod(0o644)
    assert index._key(key.parent, create=True) is None


def test_an_index_or_a_session_cut_under_a_reader_ends_no_process(tmp_path: Path) -> None:
    """A mapped file would end it with SIGBUS; here the reader sees what is left, or a typed error."""
    path = tmp_path / "chat.jsonl"
    with Session.open(path) as session:
        ids = fill(session, *(user("x" * 100) for _ in range(2000)))
    with Session.open(path, read_only=True) as session:
        os.truncate(path.with_suffix(".idx"), 0)
        assert (ids[-1], 2000, 1) == (session.head, len(session.messages), len(session.leaves()))
        os.truncate(path, path.stat().st_size // 2)
        assert session.messages and len(session.messages) < 2000
        os.truncate(path, 0)
        session.refresh()
        assert () == session.messages
        with pytest.raises(SessionError):
            session.raw(5)


def test_a_hostile_catalogue_shows_no_other_titles(tmp_path: Path) -> None:
    """It is believed only if this user made it."""
    store = FileStore(tmp_path)
    with Session.open("s", home=tmp_path) as session:
        session.append(user("hello"))
    assert ["hello"] == [info.title for info in store.sessions("main")]
    place = store.folder("main") / files.CATALOGUE
    place.write_bytes(place.read_bytes().replace(b"hello", b"other"))
    assert ["hello"] == [info.title for info in store.sessions("main")]


# --- names, and what is in the lines --------------------------------------------------------------------------------

ODD_NAMES = (
    "\0", "a\0b", "a\0b.jsonl", "/a\0b", "\ud800", "/\ud800.jsonl", "/" + "x" * 300, "x" * 5000, "..",
    "../x", "a/../../x", "", " ", ".", "/", "//", "~nobody-here/x", "~\0/x", "x\n", "\u202e", "CON", "-rf", "a\\b",
    "%2e%2e%2f", ".jsonl", "/dev/null", "/dev/zero", "/proc/self/mem", "/proc/self/environ", "/etc", "x/" * 3000 + "y",
)  # fmt: skip


@pytest.mark.parametrize("kind", ["files", "sqlite"])
@pytest.mark.parametrize("name", ODD_NAMES)
def test_any_name_opens_a_session_or_is_a_typed_error(
    tmp_path: Path, name: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As id and as agent; and nothing appears outside the home, but for a path in the current folder."""
    home = tmp_path / "deep" / "home"
    current = tmp_path / "deep" / "current"
    current.mkdir(parents=True)
    monkeypatch.chdir(current)
    where: dict[str, Any] = {"home": home} if kind == "files" else {"store": f"sqlite:{home}/s.db"}
    for id, agent in ((name, "main"), ("s", name), (name, name)):
        if os.sep in id and id.lstrip("/").startswith(("x", "\ud800")):
            continue  # a path that the user named, which may be made
        try:
            with Session.open(id, agent=agent, read_only=id.startswith(("/", "~")), **where) as session:
                session.append(user("x"))
        except il.InterlinguaError:
            pass
    assert {"deep"} >= {path.name for path in tmp_path.iterdir()}


@pytest.mark.parametrize("name", ODD_NAMES)
def test_any_name_given_to_an_operation_is_a_session_or_a_typed_error(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As name, agent and home of whatever lists, reads, exports, forks, deletes and restores."""
    monkeypatch.chdir(tmp_path)
    home = str(tmp_path / "home")
    calls: list[Callable[[], object]] = [
        *(partial(call, name, home=home) for call in (read_session, fork_session, delete_sessions, restore_sessions)),
        partial(export_session, name, "openai-completions", home=home),
        *(
            partial(list_sessions, **wrong)
            for wrong in ({"home": name}, {"agent": name, "home": home}, {"store": name})
        ),
        *(partial(deleted_sessions, **wrong) for wrong in ({"home": name}, {"agent": name, "home": home})),
        partial(search_sessions, name, home=home),
    ]
    for call in calls:
        with contextlib.suppress(il.InterlinguaError):
            call()


@given(st.text(max_size=30), st.booleans())
def test_any_text_is_a_path_or_a_typed_error(text: str, read_only: bool) -> None:
    """Only what the package raises on purpose comes out of `Session.open`."""
    with tempfile.TemporaryDirectory() as place, contextlib.suppress(il.InterlinguaError):
        Session.open(f"{place}/{text.replace('..', '')}", read_only=read_only).close()


@pytest.mark.parametrize("value", [5, 5.0, b"x", ["x"], {"a": 1}, object(), True])
def test_an_id_that_is_no_text_is_a_typed_error(tmp_path: Path, value: Any) -> None:
    """As id, agent and durability."""
    for wrong in ({"id_or_path": value}, {"id_or_path": "s", "agent": value}, {"durability": value}, {"sync": value}):
        with pytest.raises(il.InterlinguaError):
            Session.open(**{"home": tmp_path, **wrong})


@pytest.mark.parametrize("name", ["../../precious.txt", "/dev/zero", "/etc/passwd", "..", "", "\0", "A" * 64, "f" * 63])
def test_a_line_that_names_another_file_as_its_blob_reads_no_file(tmp_path: Path, name: str) -> None:
    """The data of a block are looked up by a hash, and by nothing else."""
    block = il.ImageBlock(url=f"blob:sha256:{name}", mime_type="image/png", extra={"transcript": {"blob": {"size": 1}}})
    with Session.open("s", home=tmp_path) as session:
        session.append(il.UserMessage(content=(block,)))
        (found,) = session.messages
        assert found.content[0].data is None  # type: ignore[union-attr]
        assert session.blob(name) is None


@pytest.mark.parametrize("plant", [fifo, link, link_to_a_device, unix_socket, folder])
def test_a_blob_that_is_no_regular_file_is_missing(tmp_path: Path, plant: Plant) -> None:
    """It is not waited for, and not followed."""
    name = "a" * 64
    plant_at = tmp_path / "agents" / "main" / "blobs" / name
    plant_at.parent.mkdir(parents=True)
    plant(plant_at, target_beside(tmp_path))
    with Session.open("s", home=tmp_path) as session:
        assert session.blob(name) is None


# --- bombs ----------------------------------------------------------------------------------------------------------


def test_a_file_of_blank_lines_is_refused_in_bounded_memory(tmp_path: Path) -> None:
    """20 million blank lines would be an index of half a gigabyte."""
    path = tmp_path / "chat.jsonl"
    path.write_bytes(b"\n" * 20_000_000)
    for read_only in (True, False):
        with pytest.raises(SessionError, match="blank lines"):
            Session.open(path, read_only=read_only)
    assert 20_000_000 == path.stat().st_size


def test_a_sparse_file_of_a_terabyte_is_refused_in_bounded_memory(tmp_path: Path) -> None:
    """A line has an end; the file is left as it is."""
    path = session_with(tmp_path, "one")
    size = path.stat().st_size
    os.truncate(path, 1 << 40)
    for read_only in (True, False):
        with pytest.raises(SessionError, match="more than 256 MB"):
            Session.open(path, read_only=read_only)
    os.truncate(path, size)
    with Session.open(path, read_only=True) as session:
        assert ["one"] == texts(session.messages)


# --- full disks -----------------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 512 KB."""
    place = tmp_path / "disk"
    place.mkdir()
    made = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(place)]
    if subprocess.run(made, capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a small file system")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.mark.parametrize("size", [10, 5_000, 60_000, 200_000])
@pytest.mark.parametrize("durability", ["full", "process"])
@pytest.mark.parametrize("kind", ["files", "sqlite"])
def test_on_a_full_disk_a_line_is_saved_once_or_not_at_all(
    small_disk: Path, kind: str, durability: Any, size: int
) -> None:
    """Each failure is typed; what failed is not there, and is there once after a retry with room."""
    where: dict[str, Any] = {"home": small_disk} if kind == "files" else {"store": f"sqlite:{small_disk}/s.db"}
    where["durability"] = durability
    reserve = small_disk / "reserve"
    reserve.write_bytes(bytes(256 * 1024))
    saved: list[str] = []
    failures = 0
    with Session.open("s", **where) as session:
        while failures < 4:
            text = f"{len(saved)}:" + "y" * size
            try:
                session.append(user(text))
            except SessionError as error:
                assert "not saved" in str(error)
                failures += 1
                with Session.open("s", read_only=True, **where) as reader:
                    assert saved == texts(reader.messages)
            else:
                saved.append(text)
        reserve.unlink()
        session.append(user(text))
    with Session.open("s", read_only=True, **where) as reader:
        assert [*saved, text] == texts(reader.messages)
