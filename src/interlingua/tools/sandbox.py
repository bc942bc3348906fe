"""The sandbox of commands: bubblewrap and Landlock, as far as available and permitted, and the reason if not.

Inside, a command sees the root (writable), the system's programs and libraries (read-only), a private /tmp and home, a
/proc of its own processes, and no network unless allowed. It sees no home directory, no /run, no /var, no other
process, and of /etc only what programs need to run. It has no capabilities and cannot gain privileges.

Bubblewrap creates that view; inside it, the program of confinement.py drops access to files (Landlock) and system calls
before it becomes the command. Without bubblewrap, Landlock alone restricts a command to the same files.
"""

import functools
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from msgspec import Struct

from ..values.errors import ToolAuthorizationError, ToolInputError
from ..values.places import home
from . import confinement
from .access import home_below

# The environment of commands: only what they need, no credentials.

BASE = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_*", "TZ", "TMPDIR", "TERM", "COLORTERM"),
    *("NO_COLOR", "VIRTUAL_ENV", "CONDA_PREFIX", "SSL_CERT_FILE", "SSL_CERT_DIR", "NIX_SSL_CERT_FILE"),
)
QUIET = {"PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0", "DEBIAN_FRONTEND": "noninteractive"}

_SECRET_NAME = re.compile(
    r"KEY|TOKEN|SECRET|PASS|PWD|CRED|AUTH|COOKIE|BEARER|PRIVATE|SIGNATURE|^AWS_|^AZURE_|^GOOGLE_|^GCP_|_PAT$|DSN|DATABASE_URL"
)
_SECRET_VALUE = re.compile(r"://[^/\s:@]*:[^/\s@]+@|-----BEGIN|^(sk|pk|ghp|gho|ghs|xox[a-z]|AKIA|glpat|hf)[-_A-Z0-9]")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

# Variables that make a program load or run something else than its command line; allowing them would turn a permission
# for one command into a permission for any.
_HIJACKING = (
    *(
        "PATH",
        "LD_*",
        "DYLD_*",
        "_RLD*",
        "GCONV_PATH",
        "LOCPATH",
        "NLSPATH",
        "GLIBC_TUNABLES",
        "MALLOC_*",
        "HOSTALIASES",
    ),
    *(
        "BASH_ENV",
        "ENV",
        "BASH_FUNC_*",
        "SHELLOPTS",
        "BASHOPTS",
        "PS4",
        "PROMPT_COMMAND",
        "IFS",
        "CDPATH",
        "GLOBIGNORE",
    ),
    *("ZDOTDIR", "BASH_LOADABLES_PATH", "BASH_XTRACEFD", "SHELL", "HOME", "TMPDIR", "XDG_CONFIG_*"),
    *("PYTHON*", "PERL5*", "PERLLIB", "RUBYOPT", "RUBYLIB", "NODE_OPTIONS", "NODE_PATH", "LUA_INIT*", "LUA_*PATH"),
    *("JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "CLASSPATH", "PHPRC", "PHP_INI_SCAN_DIR", "R_PROFILE*"),
    *("DOTNET_STARTUP_HOOKS", "COR_*", "CORECLR_*", "ELECTRON_RUN_AS_NODE", "RUSTC_WRAPPER", "MAKEFLAGS", "MAKEFILES"),
    *(
        "GIT_*",
        "SSH_*",
        "SUDO_*",
        "EDITOR",
        "VISUAL",
        "PAGER",
        "BROWSER",
        "LESSOPEN",
        "LESSCLOSE",
        "MANPAGER",
        "MANOPT",
    ),
    *("TAR_OPTIONS", "RSYNC_RSH", "CVS_RSH", "LESS*", "GREP_OPTIONS", "RIPGREP_CONFIG_PATH", "INTERLINGUA_*"),
)


def looks_secret(name: str, value: str) -> bool:
    """Whether a variable looks like a credential, by its name or value."""
    return bool(_SECRET_NAME.search(name.upper()) or _SECRET_VALUE.search(value))


def scrubbed(environ: Mapping[str, str], allowed: Sequence[str] = ()) -> dict[str, str]:
    """The variables of `environ` that a command inherits: the base and those in `allowed`.

    A pattern such as `NODE_*` never matches a variable that looks like a secret; an exact name always does.
    """
    inherited = {
        name: value
        for name, value in environ.items()
        if name in allowed or (_matches(name, (*BASE, *allowed)) and not looks_secret(name, value))
    }
    return {**QUIET, **inherited, "PATH": _absolute_path(inherited.get("PATH", ""))}


def requested(env: Any) -> dict[str, str]:
    """The variables of a call. Raises for those that change what a command line means."""
    if not isinstance(env, Mapping):
        raise ToolInputError('exec: env must be an object of strings, such as {"CI": "1"}')
    for name, value in env.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ToolInputError(f"exec: invalid variable name {name!r}; use letters, digits and _")
        if not isinstance(value, str) or "\0" in value:
            raise ToolInputError(f"exec: env.{name} must be a string without NUL")
        if _matches(name.upper(), _HIJACKING):
            raise ToolAuthorizationError(
                f"exec: env.{name} may not be set: it changes which programs run. Set it in the command"
            )
    return dict(env)


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _absolute_path(path: str) -> str:
    """PATH without relative and empty parts, which mean the working directory."""
    parts = [part for part in path.split(":") if part.startswith("/")]
    return ":".join(parts) or "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


HOME = "/tmp/home"  # inside the sandbox, where /tmp is private
# Under Landlock alone, files that bubblewrap hides exist and are forbidden: git fails on its settings.
LANDLOCK_ENV = {"GIT_CONFIG_NOSYSTEM": "1"}

_SYSTEM = ("/usr", "/nix/store", "/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d")
_NAMES = ("passwd", "group", "hosts", "host.conf", "nsswitch.conf", "resolv.conf", "protocols", "services", "networks")
_ETC_FILES = (
    "localtime",
    "timezone",
    "locale.alias",
    "mime.types",
    "magic",
    "terminfo",
    "os-release",
    "debian_version",
)
_CERTIFICATES = (
    "ssl/certs",
    "ssl/openssl.cnf",
    "ca-certificates",
    "ca-certificates.conf",
    "pki/tls/certs",
    "pki/ca-trust",
)
_KERNEL = ("/proc/sys", "/proc/sysrq-trigger", "/proc/acpi", "/proc/scsi")
_MERGED = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")


# The sandbox ends with its first process. This shell stays a moment if other processes are left (two entries in /proc
# are bubblewrap and itself), for what bash does not wait for, such as `>(sed …)`. It traps signals, since ignoring them
# would be inherited, and silences its own messages ("Terminated").
_LAST = (
    'trap : TERM INT HUP QUIT; exec 3>&2 2>/dev/null; (exec "$@" 2>&3 3>&-); code=$?; '
    "set -- /proc/[0-9]*; [ $# -gt 2 ] && sleep 0.3; exit $code"
)


class SandboxStatus(Struct, frozen=True, kw_only=True):
    """Whether commands can be sandboxed on this machine, and the reason if not.

    `program` is bubblewrap; without it, Landlock alone is the sandbox. `confined`: the second layer works inside.
    """

    available: bool
    reason: str
    program: str | None = None
    confined: bool = False


class Sandbox(Struct, frozen=True, kw_only=True):
    """What a sandboxed command may access beside its root; `temporary` is its own directory where /tmp is not."""

    root: str
    network: bool = False
    read_only: Sequence[str] = ()
    writable: Sequence[str] = ()
    tmp_bytes: int = 1 << 30
    temporary: str | None = None


@functools.cache
def sandbox_status() -> SandboxStatus:
    """Finds bubblewrap and tries it once: it may be installed and still forbidden, as in most containers."""
    program = shutil.which("bwrap", path="/usr/bin:/bin:/usr/local/bin:/run/current-system/sw/bin:/run/wrappers/bin")
    if sys.platform != "linux":
        return SandboxStatus(available=False, reason="not sandboxed: bubblewrap exists for Linux only")
    if program is None:
        return _landlock_status("bubblewrap is not installed")
    root = Sandbox(root="/tmp")
    if _refusal(_inside_bubblewrap(["/bin/sh", "-c", ":"], program, root, "/", confined=True)) is None:
        with_landlock = ", seccomp and Landlock" if confinement.landlock_abi() else " and seccomp"
        reason = f"sandboxed with bubblewrap{with_landlock}"
        return SandboxStatus(available=True, reason=reason, program=program, confined=True)
    refusal = _refusal(_inside_bubblewrap(["/bin/sh", "-c", ":"], program, root, "/", confined=False))
    if refusal is not None:
        return _landlock_status(refusal)
    return SandboxStatus(available=True, reason="sandboxed with bubblewrap", program=program)


def _landlock_status(problem: str) -> SandboxStatus:
    """Landlock as the only sandbox, if it confines signals and sockets can be refused; `problem` is why bubblewrap
    is not used.
    """
    known = confinement.seccomp_filter(os.uname().machine) is not None
    if confinement.landlock_abi() >= confinement.SCOPES and known:
        line = _confined([*_file_options(Sandbox(root="/tmp")), "calls=none", "drop"], ["/bin/sh", "-c", ":"])
        if _refusal(line) is None:
            return SandboxStatus(available=True, reason=f"sandboxed with Landlock ({problem})", confined=True)
    return SandboxStatus(available=False, reason=f"not sandboxed: {problem}")


def _refusal(argv: Sequence[str]) -> str | None:
    """Why bubblewrap does not run a program here; None if it does."""
    try:
        tried = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=20, env={}, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"bubblewrap does not run here: {error}"
    if tried.returncode == 0:
        return None
    text = tried.stderr.decode(errors="replace").strip() or f"exit code {tried.returncode}"
    return f"bubblewrap is not allowed here: {text}"


def sandboxed(argv: Sequence[str], program: str | None, sandbox: Sandbox, directory: str) -> list[str]:
    """The command line that runs `argv` inside the sandbox, in `directory`; without a `program` by Landlock alone."""
    if program is None:
        sockets = "inet" if sandbox.network else "none"
        return _confined([*_file_options(sandbox), f"calls={sockets}", "drop"], argv)
    return _inside_bubblewrap(argv, program, sandbox, directory, confined=sandbox_status().confined)


def _inside_bubblewrap(
    argv: Sequence[str], program: str, sandbox: Sandbox, directory: str, *, confined: bool
) -> list[str]:
    readable = [part for path in (*_interpreter(), *sandbox.read_only) for part in ("--ro-bind-try", path, path)]
    writable = [part for path in (sandbox.root, *sandbox.writable) for part in ("--bind", path, path)]
    places = (*_interpreter(), *sandbox.read_only, sandbox.root, *sandbox.writable)
    hidden = _hidden_home() if any(home_below(place) is not None for place in places) else []
    command = ["/bin/sh", "-c", _LAST, "sh", *argv]
    if confined:
        written = (sandbox.root, *sandbox.writable, "/tmp", "/var/tmp", "/dev", "/proc")
        # Below the root of this view is nothing else; a file outside, however it is reached, is below another root.
        files = ["files", "read=/", *(f"write={path}" for path in written)] if confinement.landlock_abi() else []
        command = _confined([*files, "calls=confined"], command)
    base = _base_arguments(sandbox.network, sandbox.tmp_bytes)
    return [program, *base, *readable, *writable, *hidden, "--remount-ro", "/", "--chdir", directory, "--", *command]


def _file_options(sandbox: Sandbox) -> list[str]:
    """The files of a command that Landlock alone confines: those that it has inside bubblewrap."""
    system = (*_SYSTEM, *_MERGED, *(f"/etc/{name}" for name in (*_NAMES, *_ETC_FILES, *_CERTIFICATES)), "/proc")
    devices = (f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts"))
    written = (sandbox.root, *sandbox.writable, *devices, *([sandbox.temporary] if sandbox.temporary else ()))
    reading = (f"read={path}" for path in (*system, *_interpreter(), *sandbox.read_only))
    return ["files", *reading, *(f"write={path}" for path in written)]


def _confined(options: Sequence[str], argv: Sequence[str]) -> list[str]:
    """Returns the command line that applies the options and then runs `argv`; see confinement.py."""
    return [os.path.realpath(sys.executable), "-I", "-S", "-c", _confinement_source(), *options, "--", *argv]


@functools.cache
def _confinement_source() -> str:
    """Returns the program's source, since its file may be outside the sandbox."""
    return Path(confinement.__file__).read_text(encoding="utf-8")


def _hidden_home() -> list[str]:
    """Mounts an empty directory over Interlingua's own folder, if it exists."""
    place = os.path.realpath(home())
    return ["--tmpfs", place] if os.path.isdir(place) else []  # noqa: PTH112


def isolated_command(argv: Sequence[str]) -> list[str]:
    """Returns the command line that hides Interlingua's own folder and all other processes from an untrusted program.

    Otherwise it has the files and the network of this machine. Without bubblewrap, Landlock prevents it from inspecting
    other processes; without either it is `argv` itself.
    """
    status = sandbox_status()
    if confinement.landlock_abi() >= confinement.SCOPES and status.confined:
        argv = _confined(["files", "drop"], argv)  # with CAP_PERFMON, root can still read environments
    if status.program is None:
        return list(argv)
    view = ["--bind", "/", "/", "--dev-bind", "/dev", "/dev", "--proc", "/proc", *_hidden_home()]
    namespaces = ["--die-with-parent", "--unshare-pid", "--unshare-ipc", "--cap-drop", "ALL"]
    return [status.program, *namespaces, *view, "--", *argv]


def _base_arguments(network: bool, tmp_bytes: int = 1 << 30) -> list[str]:
    """The arguments of every sandbox. No --new-session: the command already has its own session and terminal."""
    parts = ["--die-with-parent", "--unshare-all", "--cap-drop", "ALL", "--hostname", "sandbox"]
    parts += ["--share-net"] if network else []
    for path in (*_SYSTEM, *(f"/etc/{name}" for name in (*_NAMES, *_ETC_FILES, *_CERTIFICATES))):
        parts += ["--ro-bind-try", path, path]
    for path in _MERGED:
        parts += _merged(Path(path))
    parts += ["--proc", "/proc", "--dev", "/dev"]
    for path in ("/tmp", "/var/tmp", "/dev/shm"):
        parts += ["--size", str(tmp_bytes), "--tmpfs", path]
    parts += ["--dir", HOME]
    # bubblewrap leaves these writable for root, and writing core_pattern escapes any sandbox.
    return [*parts, *(part for path in _KERNEL for part in ("--ro-bind-try", path, path))]


def _merged(path: Path) -> list[str]:
    """A top-level directory as on the host: today mostly a link into /usr."""
    if path.is_symlink():
        return ["--symlink", str(path.readlink()), str(path)]
    return ["--ro-bind", str(path), str(path)] if path.is_dir() else []


def _interpreter() -> list[str]:
    """The Python prefix, if it is in a home directory: virtual environments link to it, confinement.py runs on it."""
    prefix = Path(sys.base_prefix)
    if prefix.is_relative_to("/usr"):
        return []
    if Path.home().is_relative_to(prefix):  # not the whole home: the program and its modules
        return [
            os.path.realpath(sys.executable),
            sysconfig.get_path("stdlib"),
            *map(str, prefix.glob("lib*/libpython*")),
        ]
    return [str(prefix)]
