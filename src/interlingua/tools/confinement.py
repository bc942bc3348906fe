"""Confines this process and its children: files (Landlock), system calls (seccomp), capabilities.

It runs standalone, as `python -I -S -c <this file> OPTION… -- PROGRAM ARGUMENT…`, so it imports nothing from this
package. It is started inside the sandbox of bubblewrap, after the mounts: Landlock forbids mounting.
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct
import sys

TYPE_CHECKING = False  # typing takes as long to import as the rest, and each command waits for this program
if TYPE_CHECKING:
    from typing import Any, NoReturn

PR_SET_SECCOMP, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT = 22, 24, 38, 47

# Landlock (landlock(7), Documentation/userspace-api/landlock.rst of the kernel). The numbers of its system calls are
# the same on every machine. What a kernel does not know must not be asked of it, hence the versions of its interface.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_MAKE_DEVICES = 1 << 6 | 1 << 11
_RIGHTS = ((1, (1 << 13) - 1), (2, 1 << 13), (3, 1 << 14), (5, 1 << 15))  # all; REFER, TRUNCATE, IOCTL_DEV
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | 1 << 14 | 1 << 15  # the other rights are those of directories
_SOCKETS, _SIGNALS = 1 << 0, 1 << 1  # scopes that stay inside: abstract UNIX sockets, signals
SCOPES = 6  # the version from which they can be confined

# The system calls that a sandboxed command may not make (seccomp(2)), by machine. The session keyring is shared with
# the rest of the session; a set-uid file would outlive the sandbox; a user namespace gives all capabilities inside it;
# the rest is of no use to a command and of much to an attack. io_uring opens files past this filter, and openat2 and
# clone3 hide their mode and flags from it: they are answered as unknown, and programs fall back.
_MACHINES = {
    "x86_64": {
        "audit": 0xC000003E,
        "refused": (248, 249, 250, 321, 298, 323, 246, 320, 304, 175, 313, 176),
        "unknown": (435, 437, 425, 426, 427),
        "namespace": (272, 56),
        "mode": ((90, 1), (91, 1), (268, 2), (452, 2), (85, 1), (133, 1), (259, 2)),
        "open": ((2, 1, 2), (257, 2, 3)),
        "socket": 41,
        "ioctl": 16,
    },
    "aarch64": {
        "audit": 0xC00000B7,
        "refused": (217, 218, 219, 280, 241, 282, 104, 294, 265, 105, 273, 106),
        "unknown": (435, 437, 425, 426, 427),
        "namespace": (97, 220),
        "mode": ((52, 1), (53, 2), (452, 2), (33, 2)),
        "open": ((56, 2, 3),),
        "socket": 198,
        "ioctl": 29,
    },
}
_LOAD, _EQUAL, _SET, _LEAST, _RETURN = 0x20, 0x15, 0x45, 0x35, 0x06
_ALLOW, _EPERM, _ENOSYS, _EAFNOSUPPORT = 0x7FFF0000, 0x00050001, 0x00050026, 0x00050061
_SETUID = 0o6000
_NEW_USER = 0x10000000  # CLONE_NEWUSER, in the first argument of unshare and clone
_CREATES = 0o100 | 0o20000000  # O_CREAT, __O_TMPFILE: only with these, open has a mode
_INJECTING = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX: typing into the terminal
# Sockets that may be made. Inside bubblewrap: AF_UNIX, AF_INET, AF_INET6 and AF_NETLINK, which a network namespace
# confines; not AF_VSOCK, for one, which reaches the host of a virtual machine from every namespace.
FAMILIES = {"none": (), "inet": (2, 10), "confined": (1, 2, 10, 16)}


def seccomp_filter(machine: str, families: tuple[int, ...] = FAMILIES["confined"]) -> bytes | None:
    """Returns the filter for a machine, as BPF instructions; None for an unknown one.

    `families` are the allowed socket families.
    """
    facts: Any = _MACHINES.get(machine)
    if facts is None:
        return None
    code: list[tuple[int, int, int, int]] = [
        *(
            (_LOAD, 0, 0, 4),
            (_EQUAL, 1, 0, facts["audit"]),
            (_RETURN, 0, 0, _ENOSYS),
        ),  # not by another calling convention
        (_LOAD, 0, 0, 0),
        *(((_LEAST, 0, 1, 0x40000000), (_RETURN, 0, 0, _ENOSYS)) if machine == "x86_64" else ()),  # nor by x32
    ]
    for answer, numbers in ((_EPERM, facts["refused"]), (_ENOSYS, facts["unknown"])):
        for number in numbers:
            code += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, answer)]
    last = [(_RETURN, 0, 0, _EPERM), (_RETURN, 0, 0, _ALLOW)]
    for number in facts["namespace"]:
        code += [(_EQUAL, 0, 4, number), (_LOAD, 0, 0, 16), (_SET, 0, 1, _NEW_USER), *last]
    for number, mode in facts["mode"]:
        code += [(_EQUAL, 0, 4, number), (_LOAD, 0, 0, 16 + 8 * mode), (_SET, 0, 1, _SETUID), *last]
    for number, flags, mode in facts["open"]:
        code += [(_EQUAL, 0, 6, number), (_LOAD, 0, 0, 16 + 8 * flags), (_SET, 0, 3, _CREATES)]
        code += [(_LOAD, 0, 0, 16 + 8 * mode), (_SET, 0, 1, _SETUID), *last]
    code += [(_EQUAL, 0, len(families) + 3, facts["socket"]), (_LOAD, 0, 0, 16)]
    code += [(_EQUAL, len(families) - at, 0, family) for at, family in enumerate(families)]
    code += [(_RETURN, 0, 0, _EAFNOSUPPORT), (_RETURN, 0, 0, _ALLOW)]
    code += [(_EQUAL, 0, 5, facts["ioctl"]), (_LOAD, 0, 0, 24)]
    code += [(_EQUAL, 1, 0, _INJECTING[0]), (_EQUAL, 0, 1, _INJECTING[1]), *last, (_RETURN, 0, 0, _ALLOW)]
    return b"".join(struct.pack("HBBI", *one) for one in code)


def landlock_abi() -> int:
    """Returns the version of Landlock's interface in this kernel; 0 if it has none, or it is disabled."""
    if sys.platform != "linux":
        return 0
    # LANDLOCK_CREATE_RULESET_VERSION
    return max(0, int(ctypes.CDLL(None).syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint(1))))


def confine_files(readable: list[str], writable: list[str]) -> None:
    """Restricts this process to the files below `readable` and `writable`; without any path it keeps all files.

    In both cases it can mount nothing, and can neither inspect nor signal a process outside.
    """
    version = landlock_abi()
    known = sum(rights for since, rights in _RIGHTS if version >= since)
    handled = known if readable or writable else _MAKE_DEVICES  # which no program here may do anyway
    scoped = _SIGNALS if handled == _MAKE_DEVICES else _SIGNALS | _SOCKETS
    attributes = struct.pack("QQQ", handled, 0, scoped)[: 24 if version >= SCOPES else 16 if version >= 4 else 8]
    ruleset = _syscall(_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0)
    reading = _EXECUTE | _READ_FILE | _READ_DIR
    for paths, rights in ((readable, reading), (writable, known & ~_MAKE_DEVICES)):
        for path in paths:
            _allow_below(ruleset, path, rights)
    _prctl(PR_SET_NO_NEW_PRIVS, 1)
    _syscall(_RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)


def _allow_below(ruleset: int, path: str, rights: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return  # a missing path needs no permission
    try:
        if not stat.S_ISDIR(os.fstat(place).st_mode):
            rights &= _OF_FILES
        # LANDLOCK_RULE_PATH_BENEATH; its struct is packed
        _syscall(_ADD_RULE, ruleset, 1, struct.pack("=Qi", rights, place), 0)
    finally:
        os.close(place)


def confine_calls(families: tuple[int, ...]) -> None:
    """Installs the filter of system calls. An unknown machine has none; a kernel without seccomp raises."""
    code = seccomp_filter(os.uname().machine, families)
    if code is None:
        return
    buffer = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(buffer))
    _prctl(PR_SET_NO_NEW_PRIVS, 1)
    _prctl(PR_SET_SECCOMP, 2, program)


_IGNORED = (13, 25)  # SIGPIPE and SIGXFSZ, by Python; programs expect to be ended by them (`signal` is slow to import)


def drop_capabilities() -> None:
    """Drops root's capabilities: the started program has none (capabilities(7))."""
    libc = ctypes.CDLL(None)
    libc.prctl(PR_CAP_AMBIENT, 4, 0, 0, 0)
    for capability in range(64):
        libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)


def _syscall(*arguments: Any) -> int:
    found = int(ctypes.CDLL(None, use_errno=True).syscall(*arguments))
    return found if found >= 0 else _refused()


def _prctl(option: int, value: int, more: Any = 0) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, more, 0, 0):
        _refused()


def _refused() -> NoReturn:
    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def main(arguments: list[str]) -> NoReturn:
    """Applies the options (`files`, `read=PATH`, `write=PATH`, `calls=confined|inet|none`, `drop`), then executes."""
    end = arguments.index("--")
    options, argv = [one.partition("=") for one in arguments[:end]], arguments[end + 1 :]
    try:
        names = {name for name, _, _ in options}
        if "drop" in names:
            drop_capabilities()
        if "files" in names:
            confine_files(*([value for name, _, value in options if name == kind] for kind in ("read", "write")))
        for name, _, value in options:
            if name == "calls":
                confine_calls(FAMILIES[value])
        for number in _IGNORED:
            ctypes.CDLL(None).signal(number, None)  # SIG_DFL
        os.execv(argv[0], argv)
    except OSError as error:
        os.write(2, f"cannot start {argv[0]}: {error.strerror}\n".encode(errors="replace"))
    os._exit(126)


if __name__ == "__main__":
    main(sys.argv[1:])
