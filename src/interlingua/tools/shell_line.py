"""A shell parser that finds the commands of a line, and reports where it cannot be certain.

Nothing is expanded. A word is *fixed* if its text is known before the shell runs, and open if it depends on variables,
globs, braces or other commands. The contents of `$(…)`, backticks and `<(…)` are parsed as commands, and so are the
arguments of programs that run other commands (`sh -c`, `eval`, `sudo`, `xargs`, `find -exec`). A line with anything
that may hide a command, or that changes the meaning of later arguments, is not certain.
"""

import re
from collections.abc import Iterator

from msgspec import Struct

MAX_LENGTH = 20_000
MAX_READINGS = 200
MAX_READ = 4 * MAX_LENGTH  # characters in all: text within brackets is read again for each bracket around it
MAX_EXECUTED = 50

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\[[^\]]*\])?\+?=")
_OPERATORS = re.compile(r"&&|\|\||;;&|;;|;&|\|&|[;&|\n()]")
_REDIRECTION = re.compile(r"(?:\d+|\{\w+\})?(?:&>>|&>|<<<|<<-|<<|<>|>>|>\||>&|<&|>|<)")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u00a0\u2000-\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]")

_TANGLED = re.compile(r"""["'\\()#`$\n<>]""")


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Keywords before a command, and keywords that are not followed.
_LEADING = frozenset({"if", "then", "elif", "else", "while", "until", "do", "{", "!", "time", "coproc"})
_RESERVED = _LEADING | {"fi", "done", "esac", "}", "for", "case", "select", "function", "in", "[[", "]]", "((", "))"}
# Commands that run text as shell commands, or change the meaning of later arguments.
_SHELLS = _names(
    "sh bash dash zsh ksh mksh ash fish csh tcsh busybox toybox eval source . trap alias su ssh script watch parallel "
    "at batch screen tmux expect"
)
_CHANGERS = _names(
    "export declare typeset local readonly set shopt unset enable hash bind complete mapfile readarray read getopts "
    "unalias pushd popd"
)
# Commands that run their arguments as a command.
_WRAPPERS = _names(
    "sudo doas env nice ionice chrt taskset nohup setsid timeout xargs command builtin exec time stdbuf unbuffer "
    "chroot unshare nsenter setarch linux32 linux64 flock strace ltrace gdb valgrind perf runuser setpriv capsh "
    "prlimit systemd-run firejail bwrap proot fakeroot faketime rlwrap dbus-run-session xvfb-run pkexec sg newgrp entr "
    "find fd fdfind git-bisect hyperfine direnv poetry pipenv uv npx bunx pnpx docker podman kubectl nerdctl lxc jobs "
    "run-parts start-stop-daemon chronic catchsegv uname26 i386 x86_64 cpulimit numactl chpst softlimit setuidgid "
    "envdir gosu su-exec tini dumb-init torsocks torify proxychains proxychains4 machinectl systemd-nspawn "
    "systemd-inhibit ip dtach abduco tsp ts coproc lldb rr heaptrack memusage sem pexec dbus-launch gtk-launch "
    "xdg-open uvx pipx pdm rye hatch conda mamba micromamba bundle mise asdf rbenv pyenv nodenv opam stack cabal nix "
    "guix nix-shell ssh-agent aa-exec logsave choom sshpass autossh mosh ssh-copy-id i3-msg swaymsg xdotool byobu "
    "zellij fc ansible vagrant gem composer kitten open scriptreplay ssh-add distrobox toolbox flatpak snap apptainer "
    "singularity sudoedit setterm eatmydata catchsegv with-contenv s6-setuidgid runcon newrole"
)
# Programs that take commands of their own language, some of which run others, from arguments, files or their input.
_COMMANDED = _names(
    "vi vim view ex nvim vimdiff rvim ed red emacs emacsclient nano less more most man info mail mailx mutt m4 dc "
    "gnuplot "
    "octave sqlite3 psql mysql mariadb mongo mongosh redis-cli socat nc ncat netcat telnet ftp sftp lftp xterm rxvt "
    "gnome-terminal konsole alacritty kitty gdb lldb compgen jshell irb iex erl ghci guile sbcl clisp racket swipl "
    "maxima sage ipython crontab xonsh nu gjs wish smbclient sqlcmd visudo vipw login chsh vlc mpv "
    "history at mc ranger nnn vifm tig gitk sox cscript mshta rundll32 wscript insmod modprobe kexec"
)
_JOINED = re.compile(r"^-\w")  # an option and its value in one word
_LOADER = re.compile(r"ld(-linux[\w.-]*|64|-musl[\w.-]*)?\.so(\.\d+)*$")
# Options that make a program run another one, or read settings that do: of any program, by the last part of their
# names, which may be cut short, as getopt_long allows; and of programs that spell them in other ways.
_EXECUTING_NAMES = _names(
    "exec execpath execdir exec-batch exec-path sh-exec cmd eval pre prog rsh hook hooks proxycommand proxy-command "
    "upload-pack receive-pack ext-diff textconv open-files-in-pager diff-program checkpoint-action load loader import "
    "init-file rcfile startup-file use-askpass hostname-bin to-command action handler callback config-env config-file "
    "configfile settings-file viewer executable parser escape shell-escape rulesdir globalsetup globalteardown "
    "setup-file modprobe bazelrc kubeconfig userconfig globalconfig native-file cross-file override-ini "
    "auto-prepend-file engine provider template strip-program photo-viewer plugins wrapper"
)
_CUT_SHORT = _names(
    "execute command program filter script shell pager editor askpass launcher runner plugin preload require "
    "interpreter config settings"
)
_EXECUTING = re.compile(
    r"-{1,2}(?:[\w-]*-)?(?:"
    + "|".join(sorted(_EXECUTING_NAMES | {word[:length] for word in _CUT_SHORT for length in range(4, len(word) + 1)}))
    + r")(?:=.*)?$",
    re.DOTALL | re.IGNORECASE,
)
# Long options of programs that take any beginning of them.
_ABBREVIATED = {
    name: tuple(options.split())
    for names, options in (
        (
            "tar bsdtar gtar cpio pax",
            "to-command use-compress-program checkpoint-action rsh-command rmt-command info-script new-volume-script",
        ),
        ("make gmake bmake", "eval file makefile directory include-dir"),
        ("sort gsort", "compress-program"),
        ("split gsplit", "filter"),
        ("env", "split-string"),
        ("install ginstall", "strip-program"),
        ("diff3 sdiff", "diff-program"),
        ("wget", "execute use-askpass config output-document output-file input-file"),
        ("zip", "unzip-command"),
        ("rg", "pre hostname-bin"),
        ("fd fdfind", "exec exec-batch"),
        (
            "git",
            "upload-pack receive-pack exec extcmd open-files-in-pager ext-diff textconv config template upload-archive "
            "sendmail-cmd to-cmd cc-cmd output access-hook",
        ),
        ("gpg gpg2", "photo-viewer agent-program dirmngr-program keyboxd-program pinentry-mode exec-path options"),
    )
    for name in names.split()
}
_OPTIONS = {
    **dict.fromkeys(
        ("git",),
        r"-c|-C|--exec-path.*|--git-dir.*|--work-tree.*|--config-env.*|-O.*|-\w*x.*|--extcmd.*|ext::.*|foreach|bisect"
        r"|filter-branch|difftool|mergetool|send-email|instaweb|-c\w+.*|config|remote-\w+|hook|p4|svn|credential.*|gui"
        r"|web--browse|help|citool|shell|daemon|upload-archive|filter-repo|maintenance|cvs\w*|archimport|quiltimport"
        r"|submodule--helper",
    ),
    **dict.fromkeys(("make", "gmake", "bmake"), r"[\w.]+[:?+]?=.*|-\w*[fCEI].*|--file.*|--makefile.*|--directory.*"),
    **dict.fromkeys(
        ("npm", "pnpm", "yarn"),
        r"--script-shell.*|--node-options.*|exec|x|explore|dlx|set|config|init|create|-C.*|--prefix.*|--cwd.*",
    ),
    **dict.fromkeys(
        ("go", "cargo", "rustc"),
        r"-exec.*|-toolexec.*|-vettool.*|generate|tool|-C.*|--config.*|-ldflags.*|--?overlay.*|env|\+.*|-Z.*|-modfile.*",
    ),
    **dict.fromkeys(
        ("apt", "apt-get", "dpkg", "rpm", "dnf", "yum"), r"-o.*|-c.*|--eval.*|--setopt.*|-E|--define.*|-D.*"
    ),
    **dict.fromkeys(
        ("tar", "bsdtar", "gtar", "star"),
        r"-\w*[IF].*|[a-zA-Z]*[IF]\w*|--info-script.*|--new-volume-script.*|[^/=]+:.*",
    ),
    **dict.fromkeys(("rsync",), r"-\w*e.*|--rsh.*|--rsync-path.*"),
    **dict.fromkeys(("scp", "sshfs"), r"-\w*[FJSo].*"),
    **dict.fromkeys(("ssh-keygen", "ssh-keyscan"), r"-D.*|-\w*w.*"),
    **dict.fromkeys(("sort", "gsort"), r"--compress.*"),
    **dict.fromkeys(("split", "gsplit"), r"--fil.*"),
    **dict.fromkeys(("zip",), r"-\w*T.*|--unzip-command.*"),
    **dict.fromkeys(("tcpdump", "dumpcap", "tshark"), r"-\w*z.*|-X.*"),
    **dict.fromkeys(("curl", "wget", "wget2"), r"-[a-zA-Z#]*[KoO].*|--on-.*|-e.*|--output.*|--use-.*"),
    **dict.fromkeys(("aria2c", "yt-dlp", "ffmpeg"), r"-o|-O|--on-.*|-e|--output.*|--use-.*"),
    **dict.fromkeys(("openssl",), r"-engine|-provider.*|engine|-loadeach.*"),
    **dict.fromkeys(
        ("gcc", "g++", "cc", "c++", "clang", "clang++", "ld", "as"),
        r"-wrapper.*|-B.*|-fplugin.*|-specs.*|@.*|-Wl,.*plugin.*|-Xlinker|-fuse-ld.*|--ld-path.*|-pgm\w+.*",
    ),
    **dict.fromkeys(("java", "javac", "kotlin", "scala"), r"-agent.*|-javaagent.*|-XX:On.*|-J.*|@.*|-processor.*"),
    **dict.fromkeys(("pytest", "py.test"), r"-[pc].*|-o.*|--rootdir.*|--confcutdir.*|-W.*|--pyargs"),
    **dict.fromkeys(("cmake",), r"-[EPC].*|\w+=.*|-D\w*(?:COMPILER|LAUNCHER|PROGRAM|COMMAND|TOOLCHAIN).*"),
    **dict.fromkeys(("ctest", "ninja", "meson", "bazel"), r"-[SfC].*|\w+=.*"),
    **dict.fromkeys(("mvn", "gradle", "gradlew", "ant", "sbt"), r"-[fIDPbs].*|exec:.*|--init.*|--build-file.*"),
    **dict.fromkeys(("pandoc",), r"-[FL].*|--lua.*|--pdf-engine.*|-d.*|--defaults.*"),
    **dict.fromkeys(("eslint", "jest", "mocha", "webpack", "vite", "rollup", "tsc", "tsx"), r"-[crp].*|--resolve.*"),
    **dict.fromkeys(("tox", "nox", "rake", "just", "task", "invoke", "fab"), r"-[cfeRrt].*|exec|x"),
    **dict.fromkeys(("mix", "dotnet", "deno", "bun", "swift"), r"-e|exec|eval|run|x|repl|script|fsi"),
    **dict.fromkeys(("jq", "yq"), r"-L.*|-\w*f.*|--from-file.*"),
    **dict.fromkeys(("tex", "latex", "pdftex", "pdflatex", "xelatex", "lualatex"), r".*write18.*|-.*shell.*"),
    **dict.fromkeys(
        ("convert", "magick", "mogrify", "identify", "gs"), r".*(?:msl|ephemeral|@).*|-d(?:NO|DELAY).*|\|.*"
    ),
    **dict.fromkeys(("ldd",), r"[^-].*"),
    **dict.fromkeys(("patch",), r"-\w*e.*|--ed"),
    **dict.fromkeys(("systemctl", "journalctl"), r"edit|link|enable|set-environment|import-environment|-M.*|-H.*"),
    **dict.fromkeys(("hg", "svn", "bzr", "fossil"), r"--config.*|--diff-cmd.*|--editor-cmd.*|-R"),
    **dict.fromkeys(("logrotate", "logger", "dig", "rndc", "rg", "ag", "ack"), r"-s|--pager.*|--pre.*|--search-zip|-z"),
    **dict.fromkeys(("bat", "delta", "fzf", "sk"), r"--preview.*|--bind.*|--pager.*|--lessopen.*"),
    **dict.fromkeys(("file", "troff", "groff", "pic", "xdvi"), r"-z|-Z|-U|-\w*[Ux]\w*"),
    **dict.fromkeys(("ctags", "etags", "gtags"), r"--options.*|--_?echo.*"),
}
_OPTION_PATTERNS = {name: re.compile(pattern, re.DOTALL) for name, pattern in _OPTIONS.items()}
# A sed script that only prints, deletes and substitutes, without the flags `e` (execute) and `w` (write).
_HARMLESS_SED = re.compile(
    r"-[nErsuz]+|-i?|--(?:quiet|silent|regexp-extended|separate|null-data|posix|debug|help|version)"
    r"|(?:\d*|\$)(?:,(?:\d+|\$))?[pdqP=]|s(?P<mark>[/|#,:])(?:(?!(?P=mark))[^\n\\]|\\.)*(?P=mark)"
    r"(?:(?!(?P=mark))[^\n\\]|\\.)*(?P=mark)[gIip\d]*"
)
_INTERPRETERS = re.compile(
    r"(python|pypy|perl|ruby|node|nodejs|deno|bun|php|lua|luajit|tclsh|osascript|pwsh|julia|r|rscript|groovy|scala|scala-cli"
    r"|clojure|clj|ghc|runghc|ocaml|elixir|nim|crystal|raku|kotlinc|jruby|rakudo|zx|tsx|ts-node)[\d.]*$"
)
_CODE_OPTIONS = re.compile(r"-\w*[ceErRpnMd]\w*$|-$|-pgm\w+$|--(eval|execute|command|print|run|loader)\b")
# Builtins that evaluate a word as an array element, including its subscript: `[ -v 'a[$(rm)]' ]`.
_EVALUATING = _names("test [ printf let wait")
_AWKS = frozenset({"awk", "gawk", "mawk", "nawk"})
_FIND_ACTIONS = re.compile(r"-(exec|execdir|ok|okdir|delete|fprint|fprint0|fprintf|fls)$")
_FD_ACTIONS = re.compile(r"-[a-zA-Z0-9]*[xX]|--ex?e?c?-?b?a?t?c?h?(=|$)")


class Word(Struct, frozen=True):
    """A word of a command: its text without quotes, and whether the command receives exactly that."""

    text: str
    fixed: bool = True


class ShellCommand(Struct, frozen=True):
    """A simple command. `inner`: found in the arguments of another command that may run it, as `rm` in `sudo rm`."""

    argv: tuple[Word, ...]
    inner: bool = False

    @property
    def name(self) -> str:
        """The program's name without its directory; empty when it is not fixed."""
        return self.argv[0].text.rpartition("/")[2] if self.argv and self.argv[0].fixed else ""

    @property
    def text(self) -> str:
        return " ".join(word.text for word in self.argv)


class ShellLine(Struct, frozen=True):
    """The commands of a line, and its redirection targets. `doubt` is the reason for uncertainty; empty if certain."""

    commands: tuple[ShellCommand, ...]
    doubt: str = ""
    files: tuple[Word, ...] = ()


def read_shell_line(text: str) -> ShellLine:
    """The commands found in a line, and whether these are all."""
    if len(text) > MAX_LENGTH:
        return ShellLine((), doubt="the line is too long to be judged")
    reader = _Reader()
    reader.read(text)
    return ShellLine(tuple(reader.commands), doubt=reader.doubt, files=tuple(reader.files))


SEARCHERS = ("find", "fd", "fdfind")  # they run others only with some options


def runs_others(command: ShellCommand) -> bool:
    """Whether a command's arguments are, or may be, another command."""
    if command.name in SEARCHERS:
        actions = _FIND_ACTIONS if command.name == "find" else _FD_ACTIONS
        return any(not word.fixed or actions.match(word.text) for word in command.argv[1:])
    return command.name in _WRAPPERS


def executing_option(command: ShellCommand) -> str | None:
    """The argument that may make a program run another one; None if there is none.

    An allow rule for a command grants the program, not what its arguments make it execute.
    """
    name, arguments = command.name.casefold(), command.argv[1:]
    if name in _COMMANDED or _LOADER.match(name):
        return name if arguments or name in _COMMANDED else None
    own, long_options = _OPTION_PATTERNS.get(name), _ABBREVIATED.get(name, ())
    for word in arguments:
        if _EXECUTING.match(word.text) or _abbreviates(word.text, long_options):
            return word.text
        if own is not None and own.fullmatch(word.text):
            return word.text
        if name == "git" and word.text.startswith("-u") and arguments[0].text in ("clone", "ls-remote"):
            return word.text  # there it is short for --upload-pack
    return _script_of_sed(arguments) if name in ("sed", "gsed", "ssed") else None


def _script_of_sed(arguments: tuple[Word, ...]) -> str | None:
    """The argument of sed that may be a script with `e` or `w`; files, which follow the script, may have any name."""
    in_options = any(re.match(r"-\w*[ef]|--(?:exp|file)", word.text) for word in arguments)
    has_script = False
    for word in arguments:
        is_plain = not word.text.startswith("-")
        is_file = is_plain and has_script and not in_options
        has_script |= is_plain
        if not word.fixed or not (is_file or _HARMLESS_SED.fullmatch(word.text)):
            return word.text
    return None


def _abbreviates(text: str, options: tuple[str, ...]) -> bool:
    """Whether a word is the beginning of a long option, with or without a value."""
    begin = text[2:].partition("=")[0]
    return text.startswith("--") and bool(begin) and any(option.startswith(begin) for option in options)


class _Reader:
    """Collects the commands, files and doubts of a line and of nested lines."""

    def __init__(self) -> None:
        self.readings = 0
        self.read_length = 0
        self.commands: list[ShellCommand] = []
        self.files: list[Word] = []
        self.doubt = ""

    def read(self, text: str, *, inner: bool = False) -> None:
        self.readings += 1
        self.read_length += len(text)
        if self.readings > MAX_READINGS or self.read_length > MAX_READ:
            self.doubts("it is too tangled to be judged")
            return
        if _CONTROLS.search(text):
            self.doubts("it contains control or invisible characters")
        argv: list[Word] = []
        at = 0
        while at < len(text):
            if text[at] in " \t":
                at += 1
            elif text.startswith("\\\n", at):
                at += 2
            elif text[at] == "#":
                at = _line_end(text, at)
            elif text.startswith(("<(", ">("), at):
                word, at = self._word(text, at)
                argv.append(word)
            elif redirection := _REDIRECTION.match(text, at):
                at = self._redirected(text, redirection)
            elif operator := _OPERATORS.match(text, at):
                at = operator.end()
                if operator[0] == "(" and argv:
                    self.doubts("it defines a function or an array, or uses a pattern")
                self._finish(argv, inner)
                argv = []
            else:
                word, end = self._word(text, at)
                at = max(end, at + 1)
                argv.append(word)
        self._finish(argv, inner)

    def doubts(self, why: str) -> None:
        self.doubt = self.doubt or why

    def _redirected(self, text: str, operator: re.Match[str]) -> int:
        at = operator.end()
        while at < len(text) and text[at] in " \t":
            at += 1
        target, end = self._word(text, at)
        sign = operator[0].lstrip("0123456789")
        if sign.startswith("<<") and sign != "<<<":
            self.doubts("it has a here-document")
        elif sign in (">&", "<&") and target.fixed and re.fullmatch(r"\d+-?|-", target.text):
            pass
        elif not (target.fixed and target.text == "/dev/null"):
            self.doubts("it redirects to or from a file")
            self.files.append(target)
        return max(end, at)

    def _finish(self, argv: list[Word], inner: bool) -> None:
        """Completes a simple command: strips keywords and assignments, and inspects it."""
        rest = list(argv)
        while rest and ((rest[0].text in _RESERVED and rest[0].fixed) or _ASSIGNMENT.match(rest[0].text)):
            if rest[0].text not in _RESERVED:
                self.doubts("it sets a variable, which may change what commands do")
            else:
                self.doubts(f"it uses the shell's {rest[0].text!r}")
            rest.pop(0)
        if not rest:
            return
        command = ShellCommand(tuple(rest), inner)
        self.commands.append(command)
        self._look_inside(command)

    def _look_inside(self, command: ShellCommand) -> None:
        name, arguments = command.name, command.argv[1:]
        if not name:
            self.doubts("the name of a command is known only when it runs")
        elif name.casefold() in _SHELLS:
            self.doubts(f"{name} runs other commands")
            for word in arguments:
                self.read(word.text, inner=True)
        elif name.casefold() in _CHANGERS:
            self.doubts(f"{name} changes what later commands mean")
        elif name in _EVALUATING and any("$(" in word.text or "`" in word.text for word in arguments):
            self.doubts(f"{name} may run commands in its arguments")
        elif name in _AWKS or (
            _INTERPRETERS.match(name.casefold()) and any(_CODE_OPTIONS.match(word.text) for word in arguments)
        ):
            self.doubts(f"{name} runs code that is not a command")
        option = executing_option(command)
        if option is not None:
            self.doubts(f"{name} can run another program ({option[:40]})")
        if option is not None or (runs_others(command) and name not in SEARCHERS):
            for word in arguments[:MAX_EXECUTED]:  # one word may be a command line: `env -S`, `--to-command=`
                forms = (word.text, word.text.rpartition("=")[2], word.text.lstrip("!"), _JOINED.sub("", word.text))
                for text in dict.fromkeys(forms):
                    if " " in text or "\t" in text or text != word.text:
                        self._embedded(text)
        if runs_others(command) or name.casefold() in _SHELLS:
            if len(command.argv) > MAX_EXECUTED:
                self.doubts("it has too many arguments to be judged")
            for at in range(1, min(len(command.argv), MAX_EXECUTED)):
                self._suffix(ShellCommand(command.argv[at : at + MAX_EXECUTED], inner=True))

    def _embedded(self, text: str) -> None:
        """Reads a word that may be a command line, for rules that forbid; it leaves doubt for those that allow."""
        self.doubts("it may have a command line in an argument")
        self.read(text, inner=True)

    def _suffix(self, command: ShellCommand) -> None:
        """A possible command within a command: any of the following arguments may be its name."""
        self.commands.append(command)
        if command.name.casefold() in _SHELLS and command.name != ".":
            self.doubts(f"{command.name} runs other commands")
            for word in command.argv[1:]:
                self.read(word.text, inner=True)

    def _word(self, text: str, at: int) -> tuple[Word, int]:
        """The word that begins at `at`, and where it ends."""
        parts: list[str] = []
        fixed = True
        start = at
        while at < len(text):
            char = text[at]
            if char in " \t\n;&|()" or (char in "<>" and not text.startswith(("<(", ">("), at)):
                if char == "(" and parts:
                    self.doubts("it defines a function or an array, or uses a pattern")
                break
            if char == "\\":
                if at + 1 == len(text):
                    self.doubts("it ends in a backslash")
                parts.append(text[at + 1 : at + 2].replace("\n", ""))
                at += 2
            elif char == "'":
                end = text.find("'", at + 1)
                if end < 0:
                    self.doubts("a quote is not closed")
                    end = len(text)
                parts.append(text[at + 1 : end])
                at = end + 1
            elif char == '"':
                quoted, open_, at = self._double_quoted(text, at + 1)
                parts.append(quoted)
                fixed = fixed and not open_
            elif char in "$`" or text.startswith(("<(", ">("), at):
                end = self._expansion(text, at)
                fixed = fixed and end == at + 1 and char == "$" and _is_literal_dollar(text, at)
                parts.append(text[at:end])
                at = end
            else:
                if char in "*?[{" or (char == "~" and (at == start or text[at - 1] in ":=")):
                    fixed = fixed and _is_literal_bracket(text, at, start)
                parts.append(char)
                at += 1
        return Word("".join(parts), fixed), at

    def _double_quoted(self, text: str, at: int) -> tuple[str, bool, int]:
        """The text up to the closing quote, whether it depends on something, and where it ends."""
        parts: list[str] = []
        open_ = False
        while at < len(text):
            char = text[at]
            if char == '"':
                return "".join(parts), open_, at + 1
            if char == "\\" and text[at + 1 : at + 2] in ("$", "`", '"', "\\", "\n"):
                parts.append(text[at + 1].replace("\n", ""))
                at += 2
            elif char in "$`" and not (char == "$" and text[at + 1 : at + 2] in ("", '"', " ", "\t")):
                end = self._expansion(text, at)
                parts.append(text[at:end])
                open_ = True
                at = end
            else:
                parts.append(char)
                at += 1
        self.doubts("a quote is not closed")
        return "".join(parts), open_, at

    def _expansion(self, text: str, at: int) -> int:
        """The end of the expansion that starts with `$`, a backtick or `<(`; collects the commands in it."""
        if text[at] == "`":
            return self._backticks(text, at)
        opener = text[at : at + 2]
        if text.startswith("$((", at) or text.startswith("$[", at):
            self.doubts("it computes, and computing may run commands")
        if opener in ("$(", "<(", ">("):
            self.read_length += len(text) - at
            end = _closing(text, at + 2) if self.read_length <= MAX_READ else -1
            if end < 0:
                self.doubts("a bracket is not closed")
                end = len(text)
            inside = text[at + 2 : end]
            if _TANGLED.search(inside):
                self.doubts("commands within commands are quoted")
            self.read(inside)
            return end + 1
        if opener == "${":
            return self._braced(text, at)
        if opener in ("$'", '$"'):
            self.doubts("it spells text in a way that hides it")
            return at + 1
        name = _NAME.match(text, at + 1)
        if name:
            return name.end()
        return at + 2 if text[at + 1 : at + 2] in tuple("0123456789@*#?$!-") and at + 1 < len(text) else at + 1

    def _braced(self, text: str, at: int) -> int:
        end = text.find("}", at)
        if end < 0 or not _NAME.fullmatch(text, at + 2, end):
            self.doubts("it uses an expansion that may run commands")
            self.read(text[at + 2 :], inner=True)
        return at + 2 if end < 0 else end + 1

    def _backticks(self, text: str, at: int) -> int:
        end = at + 1
        while end < len(text) and text[end] != "`":
            end += 2 if text[end] == "\\" else 1
        if end >= len(text):
            self.doubts("a backtick is not closed")
        inside = text[at + 1 : end]
        if _TANGLED.search(inside):
            self.doubts("commands within commands are quoted")
        self.read(re.sub(r"\\([\\`$])", r"\1", inside))
        return end + 1


def _is_literal_dollar(text: str, at: int) -> bool:
    """Whether a `$` stands for itself: at the end of a word."""
    return text[at + 1 : at + 2] in ("", " ", "\t", "\n")


def _is_literal_bracket(text: str, at: int, start: int) -> bool:
    """Whether a bracket is the command `[`, the word `{` or the `{}` of find, and no pattern or subscript."""
    following = text[at + 1 : at + 2]
    return (text[at] == "[" and at == start and following in ("", " ", "\t", "\n")) or (
        text[at] == "{" and following in ("", " ", "\t", "\n", "}")
    )


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def _closing(text: str, at: int) -> int:
    """Where the bracket that was opened before `at` closes, over quotes and inner brackets; -1 if it does not."""
    depth = 1
    for place, char in _unquoted(text, at):
        if char == "(":
            depth += 1
        elif char == ")":
            depth -= 1
            if depth == 0:
                return place
    return -1


def _unquoted(text: str, at: int) -> Iterator[tuple[int, str]]:
    """The characters outside quotes. Inside double quotes brackets still count when `$(` opened them: then all do."""
    while at < len(text):
        char = text[at]
        if char == "\\":
            at += 2
            continue
        if char == "'":
            end = text.find("'", at + 1)
            at = len(text) if end < 0 else end + 1
            continue
        if char == '"':
            end = at + 1
            while end < len(text) and text[end] != '"':
                end += 2 if text[end] == "\\" else 1
            if "$(" in text[at:end] or "`" in text[at:end]:
                at += 1
                continue
            at = end + 1
            continue
        yield at, char
        at += 1
