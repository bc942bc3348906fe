"""The environment of commands: what they need to work, and no key of ours."""

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from ..values.errors import ToolAuthorizationError, ToolInputError

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

# These make a program load or run something else than what its command line says; with them, a permission for one
# command would be a permission for any.
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
    """Whether a variable seems to hold a credential, by its name or by its value."""
    return bool(_SECRET_NAME.search(name.upper()) or _SECRET_VALUE.search(value))


def scrubbed(environ: Mapping[str, str], allowed: Sequence[str] = ()) -> dict[str, str]:
    """What a command inherits of `environ`: the base and what `allowed` names.

    A pattern such as `NODE_*` never passes what looks like a secret; a name written out passes whatever it holds.
    """
    kept = {
        name: value
        for name, value in environ.items()
        if name in allowed or (_matches(name, (*BASE, *allowed)) and not looks_secret(name, value))
    }
    return {**QUIET, **kept, "PATH": _absolute_path(kept.get("PATH", ""))}


def requested(env: Any) -> dict[str, str]:
    """The variables a call asks for. Raises for those that would change what a command line means."""
    if not isinstance(env, Mapping):
        raise ToolInputError('exec: env must be an object of strings, such as {"CI": "1"}')
    for name, value in env.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ToolInputError(f"exec: {name!r} is no name of a variable: letters, digits and _ only")
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
    """The search path without relative and empty parts, which would mean the working directory."""
    parts = [part for part in path.split(":") if part.startswith("/")]
    return ":".join(parts) or "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
