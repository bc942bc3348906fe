"""The sandbox's second layer: system calls that are refused, and limits of memory and temporary files."""

import sys
from pathlib import Path
from typing import Any

import pytest

from interlingua.tools.confinement import seccomp_filter
from interlingua.tools.sandbox import Sandbox, sandbox_status, sandboxed

pytestmark = [
    pytest.mark.skipif(not sandbox_status().available, reason=f"NOT TESTED: {sandbox_status().reason}"),
    pytest.mark.parametrize("sandboxed", [True]),
]
PYTHON = sys.executable if sys.executable.startswith("/usr") else "/usr/bin/python3"
CALLS = f"{PYTHON} -c 'import ctypes,os,sys; c=ctypes.CDLL(None,use_errno=True); {{}}; sys.exit(0 if r >= 0 else 1)'"


@pytest.mark.parametrize("attempt", [
    *("chmod 4755 f", "chmod u+s f", "chmod 2755 f", "chmod g+s f", "chmod 6777 f", "chmod -R u+s .", "chmod a+s f"),
    *("install -m 4755 f g", "mkdir d && chmod u+s d && test -u d", "cp /bin/true t && chmod 04711 t", "chmod +s f"),
    *(CALLS.format(call) for call in (
        "r=c.syscall(250,0,-3,0)",  # keyctl(KEYCTL_GET_KEYRING_ID, session)
        "r=c.syscall(250,11,-3,0,0)",  # keyctl(KEYCTL_READ)
        'r=c.syscall(248,b"user",b"x",b"y",1,-3)',  # add_key
        'r=c.syscall(249,b"user",b"x",0,-3)',  # request_key
        'r=c.open(b"s",0o101,0o4755)',
        'r=c.syscall(2,b"s",0o101,0o6755)',
        'r=c.syscall(257,-100,b"s",0o101,0o2755)',
        'r=c.syscall(85,b"s",0o4755)',
        'r=c.syscall(133,b"s",0o104755,0)',
        'r=c.syscall(259,-100,b"s",0o104755,0)',
        'r=c.syscall(90,b"f",0o4755)',
        'r=c.syscall(268,-100,b"f",0o4755)',
        'r=c.syscall(452,-100,b"f",0o4755,0)',
        'r=c.fchmod(os.open("f",0),0o4755)',
        "r=c.syscall(425,8,ctypes.create_string_buffer(256))",  # io_uring_setup
        "r=c.syscall(0x40000000+250,0,-3,0)",  # x32
        'r=c.ioctl(0,0x5412,b"x")',  # TIOCSTI
        "r=c.syscall(321,0,0,0)",  # bpf
        "r=c.syscall(323,0)",  # userfaultfd
    )),
])  # fmt: skip
async def test_no_keyring_and_no_set_uid_file(place: Any, attempt: str) -> None:
    """By programs and by system calls, in every form of the call: refused, and no such file is left behind."""
    (place.root / "f").write_text("x")
    result = await place.run(f"({attempt}) 2>/dev/null && echo GOT THROUGH")
    assert "GOT THROUGH" not in result.text
    assert [] == [path.name for path in place.root.rglob("*") if path.is_file() and path.stat().st_mode & 0o6000]


@pytest.mark.parametrize("attempt", [
    *("unshare -U true", "unshare -Ur true", "unshare -Urm true", "unshare -Urn true", "bwrap --ro-bind / / true"),
    *(CALLS.format(call) for call in (
        "r=c.unshare(0x10000000)",  # CLONE_NEWUSER
        "r=c.unshare(0x10000000|0x20000|0x40000000)",  # with CLONE_NEWNS, CLONE_NEWNET
        "r=c.syscall(56,0x10000011,0,0,0,0); r or os._exit(0)",  # clone
        "r=c.syscall(435,ctypes.create_string_buffer((0x10000000).to_bytes(8,sys.byteorder),88),88); r or os._exit(0)",
    )),
    *(CALLS.format(f"r=max(c.socket({one},kind,0) for kind in range(1,6))") for one in (40, 17, 38, 29, 31, 21, 30)),
])  # fmt: skip
async def test_no_user_namespace_and_no_socket_past_the_network_namespace(place: Any, attempt: str) -> None:
    """A command gets no capabilities in a namespace of its own, and no socket (vsock, packet, …) that leads outside."""
    result = await place.run(f"({attempt}) 2>/dev/null && echo GOT THROUGH")
    assert "GOT THROUGH" not in result.text


async def test_ordinary_work_goes_on(place: Any) -> None:
    """Files, modes, directories, threads and pipes are as they were."""
    line = "umask 022; echo a > a; chmod 755 a; mkdir -p d; cp -p a d; ls d | cat; stat -c %a a; "
    threads = 'import threading; t=threading.Thread(target=print,args=(1,)); t.start(); t.join(); r=os.system("exit 0")'
    sockets = "import socket; [socket.socket(family) for family in (1, 2)]; socket.socketpair(); r=0"
    line += " && ".join(CALLS.format(call) for call in ("r=c.getpid()", threads, sockets))
    result = await place.run(line + " && echo asked")
    assert "a\n755\n1\nasked" == result.text


@pytest.mark.parametrize("settings", [{"memoryMb": 256, "tmpMb": 8}])
@pytest.mark.parametrize("attempt", [
    f"{PYTHON} -c 'x = bytearray(1 << 30); print(len(x))'",
    *(f"head -c 20000000 /dev/zero > {place}/big" for place in ("/tmp", "/var/tmp", "/dev/shm", "~")),
])  # fmt: skip
async def test_memory_and_temporary_files_have_limits(place: Any, attempt: str) -> None:
    """A process that takes more than its memory fails, and so does a file larger than its temporary directory."""
    result = await place.run(f"{attempt} && echo GOT THROUGH")
    assert "GOT THROUGH" not in result.text


def test_the_folder_of_keys_is_hidden_in_the_sandbox(
    sandboxed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the root contains it, an empty directory lies over it."""
    home = tmp_path / "me/.interlingua"
    home.mkdir(parents=True)
    monkeypatch.setenv("INTERLINGUA_HOME", str(home))
    argv = sandboxed_line(tmp_path)
    assert ["--tmpfs", str(home)] == argv[argv.index(str(home)) - 1 : argv.index(str(home)) + 1]
    assert argv.index(str(home)) > argv.index("--bind")


def sandboxed_line(root: Path) -> list[str]:
    return sandboxed(["/bin/true"], "/usr/bin/bwrap", Sandbox(root=str(root)), str(root))


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_filter_is_whole_instructions(sandboxed: bool, machine: str) -> None:
    """For both machines; an unknown one has none."""
    assert 0 == len(seccomp_filter(machine) or b"x") % 8
    assert seccomp_filter("vax") is None
