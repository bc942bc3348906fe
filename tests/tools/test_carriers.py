"""Programs that can be told to run another one: an allow rule grants the program, not what it is told to execute."""

import pytest

from interlingua.tools.policy import Policy, Rule

NAMES = """
env flock capsh sg runuser gdb compgen jobs git tar sed rg split make sort rsync zip find xargs timeout nice
tcpdump curl openssl gcc pytest npm cargo go vim less man sqlite3 psql socat nc m4 gnuplot scp wget ld.so
/lib64/ld-linux-x86-64.so.2 /lib/ld.so ffmpeg bat fzf hg ctags java apt script unshare systemd-run ip parallel
watch ssh awk python3 perl ruby node setpriv busybox start-stop-daemon run-parts strace lldb dc ed
"""
ALLOWED = tuple(NAMES.split())
POLICY = Policy((Rule(action="allow", command=ALLOWED), Rule(action="deny", command="rm")), default="ask")

CARRIERS = [
    "env -S 'rm x'",
    "env --split-string='rm x'",
    "env -S'rm x'",
    "env -vS 'rm x'",
    "flock -c 'rm x' l",
    "flock l -c 'rm x'",
    "capsh -- -c 'rm x'",
    "sg root -c 'rm x'",
    "runuser -c 'rm x'",
    "runuser -u x -- rm x",
    "gdb -ex 'shell rm x'",
    "gdb -x f",
    "compgen -W '$(rm x)'",
    "compgen -C 'rm x'",
    "jobs -x rm x",
    "ld.so /bin/rm x",
    "/lib64/ld-linux-x86-64.so.2 /bin/rm x",
    "/lib/ld.so ./x",
    "git -c alias.x='!rm x' x",
    "git -c core.pager='rm x' log",
    "git --exec-path=. x",
    "git -calias.x='!rm' x",
    "git fetch --upload-pack='rm x' .",
    "git clone -u 'rm x' .",
    "git clone 'ext::sh -c rm'",
    "git rebase --exec 'rm x' a",
    "git rebase -x 'rm x' a",
    "git grep -O'rm x' a",
    "git grep --open-files-in-pager='rm x' a",
    "git submodule foreach 'rm x'",
    "git bisect run rm x",
    "git config alias.x '!rm x'",
    "git --git-dir=evil status",
    "git -C evil status",
    "git difftool -x 'rm x'",
    "git ls-remote --upload-pack='rm x' .",
    "git push --receive-pack='rm x' .",
    "git diff --ext-diff",
    "git log --textconv",
    "tar --to-command='rm x' -xf a",
    "tar -I 'rm x' -xf a",
    "tar --use-compress-program='rm x' -cf a b",
    "tar -xf a -I'rm x'",
    "tar --checkpoint=1 --checkpoint-action=exec='rm x' -cf a b",
    "tar -F 'rm x' -cf a b",
    "tar --rsh-command='rm x' -xf a:b",
    "tar --info-script='rm x' -cf a b",
    "tar cIf 'rm x' a b",
    "tar --rmt-command='rm x' -xf a:b",
    "sed '1e rm x' a",
    "sed 1erm\\ x",
    "sed 's/a/rm x/e' a",
    "sed -n '1w out' a",
    "sed -e '1e rm x' a",
    "sed --expression='1e rm' a",
    "sed -f script a",
    "sed 'e' a",
    "sed 'e' e",
    "sed '1e rm x' '1e rm x'",
    "sed 's/a/b/w out' a",
    "sed '/x/e' a",
    "sed -s '1{e rm x\n}' a",
    "rg --pre 'rm x' a",
    "rg --pre=rm a",
    "rg --hostname-bin=rm a",
    "split --filter='rm x' a",
    "split --fil='rm x' a",
    "make --eval='$(shell rm x)'",
    "make SHELL=./x",
    "make -f evil",
    "make -C evil",
    "make CC='rm x'",
    "make -E x",
    "sort --compress-program=rm a",
    "sort --compress-prog=rm a",
    "rsync -e 'rm x' a b:",
    "rsync --rsh=rm a b:",
    "rsync --rsync-path='rm x' a b:",
    "zip -T -TT 'rm x' a b",
    "zip --unzip-command='rm x' -T a b",
    "find . -exec rm {} +",
    "find . -ok rm {} ;",
    "find . -execdir rm {} ;",
    "xargs rm",
    "xargs sh -c 'rm x'",
    "timeout 5 sh -c 'rm x'",
    "nice -n 5 rm x",
    "tcpdump -z ./x -w a",
    "curl -K evil",
    "curl -o /x http://y",
    "openssl req -engine ./x",
    "gcc -wrapper ./x a.c",
    "gcc -fplugin=./x a.c",
    "gcc -B. a.c",
    "gcc @evil",
    "pytest -p evil",
    "pytest -c evil",
    "npm --script-shell=./x test",
    "npm exec rm x",
    "cargo --config 'build.rustc=\"./x\"' b",
    "go test -exec ./x",
    "go generate",
    "vim -c '!rm x'",
    "vim -es '+!rm x' +q",
    "less a",
    "man -P 'rm x' a",
    "sqlite3 :memory: '.shell rm x'",
    "psql -c '\\! rm x'",
    "socat - EXEC:./x",
    "nc -e ./x h 1",
    "m4 a",
    "gnuplot -e 'system \"rm x\"'",
    "scp -S ./x a b:",
    "scp -oProxyCommand='rm x' a b:",
    "wget --use-askpass=./x u",
    "ffmpeg --on-x rm",
    "bat --pager='rm x' a",
    "fzf --preview 'rm x'",
    "fzf --bind 'x:execute(rm x)'",
    "hg --config hooks.x='rm x' st",
    "ctags --options=evil a",
    "java -XX:OnOutOfMemoryError='rm x' A",
    "java -javaagent:x A",
    "apt -o APT::x='rm x' update",
    "script -c 'rm x'",
    "unshare rm x",
    "systemd-run rm x",
    "ip netns exec x rm x",
    "parallel rm ::: x",
    "watch 'rm x'",
    "ssh -o ProxyCommand='rm x' h",
    "awk 'BEGIN{}'",
    "python3 -c x",
    "perl -e x",
    "ruby -e x",
    "node -e x",
    "setpriv rm x",
    "busybox rm x",
    "start-stop-daemon --exec ./x",
    "run-parts .",
    "strace rm x",
    "lldb -o 'platform shell rm x'",
    "dc -e '!rm x'",
    "ed a",
    "git instaweb",
    "git send-email --sendmail-cmd=rm",
]


# Long options cut short, short ones joined with their value or with others, and programs beside the named ones.
SIBLINGS = (
    """
tar --to-comm=rm -xf a | tar xf a --use-compress=rm | tar -xf a --checkpoint-act=exec=rm | tar --rsh-comm=rm -xf a
tar -xf user@host:a | make --eva=x | sort --compr=rm a | split --filte=rm a | cpio --rsh-comm=rm | env --split=rm
install --strip=rm -s a b | diff3 --diff-prog=rm a b c | sdiff --diff-program=rm a b | wget --exec=x y | rg --pr=rm a
git fetch --upload-p=rm . | git rebase --exe=rm a | git rebase -xrm a | git grep --open=rm a | git push --receive=rm .
git clone --template=evil a | git init --templ=evil | git remote-ext a rm | git hook run x
git log --output=.git/hooks/x
git credential fill | git help -w x | git difftool --extc=rm | git p4 sync | git daemon | git archive --exec=rm HEAD
fd -xrm | fd -Xrm | fd -Hx rm | fd --exec=rm | fd --exec-b rm | fdfind -X rm | find . -fls x
pytest -pevil | pytest -cevil | pytest --override-ini=x | pytest --config-file x | curl -sKx | curl -ox y | curl -sSO y
curl --engine x y | wget -Ox y | scp -F evil a b: | scp -J x a b: | ssh-keygen -D ./x.so | ssh-add -s x
ssh-agent rm | ssh-agent sh -c rm | ssh-copy-id -o ProxyCommand=rm h | sshpass ssh h | autossh h | mosh --ssh=rm h
gpg --photo-viewer rm | ldd ./evil | patch -e | iptables --modprobe=rm | modprobe -C x | insmod x | systemctl edit x
cmake -P x | cmake -E env rm | cmake --build x -- SHELL=rm | cmake -DCMAKE_C_COMPILER=rm . | ctest -S x | ninja -f x
meson setup --native-file x | bazel --bazelrc=x | mvn exec:exec | mvn -f x | gradle -I x | gradle --init-script x
ant -f x
mypy --python-executable=rm | eslint --rulesdir x | eslint -c x | eslint --parser ./x | jest --globalSetup=./x
mocha -r x
webpack -c x | tox -c x | tox exec | nox -f x | rake -f x | rake -e x | just -f x | task -t x | npm -C evil test
npm --prefix evil test | npm --userconfig=x test | npm init x | yarn --cwd evil test | go env -w CC=rm | cargo +x b
go build -ldflags=-extld=rm | cargo -Zx b | gcc -Wl,-plugin,x a.c | gcc -Xlinker x a.c | clang -fuse-ld=rm a.c
uvx rm | pipx run rm | pdm run rm | hatch run rm | conda run rm | bundle exec rm | gem exec rm | composer exec rm
mise exec -- rm | asdf exec rm | opam exec rm | stack exec rm | cabal exec rm | nix run x | nix-shell --run rm
guix shell -- rm | aa-exec rm | logsave x rm | choom -n 0 rm | xdotool exec rm | i3-msg exec rm | byobu rm
zellij run rm
flatpak run x | snap run x | eatmydata rm | ansible all -m shell | vagrant ssh -c rm | dotnet exec x | mix run -e x
deno eval x | deno run -A x | bun x y | node --loader ./x f | node --import ./x f | perl -Mx f | php -d a=x y
python3 -
julia -e x | Rscript -e x | R -e x | groovy -e x | scala -e x | clojure -e x | ghc -e x | ghc -pgmF rm x | elixir -e x
xonsh -c x | nu -c x | gjs -c x | wish x | smbclient -c rm | sqlcmd x | sox a b | mpv x | login x | visudo | fc -s rm
history -r x | pandoc -F rm a | pandoc -Lx a | pandoc --lua-filter=x a | latex -shell-escape x
pdflatex --shell-escape x
pdftex '\\write18{rm}' | convert x msl:y | gs -dNOSAFER x | jq -L x . | sudoedit x
""".replace(" | ", "\n")
    .strip()
    .split("\n")
)


@pytest.mark.parametrize("line", SIBLINGS)
def test_no_other_spelling_and_no_other_program_carries_a_command(line: str) -> None:
    """Each program is allowed by its name alone."""
    policy = Policy((Rule(action="allow", command=line.split()[0]),), default="ask")
    assert "ask" == policy.decide("exec", {"command": line}).action


@pytest.mark.parametrize("line", CARRIERS)
def test_what_a_listed_program_executes_is_not_allowed(line: str) -> None:
    """Options, scripts, settings, loaders: a person is asked, or a rule that forbids applies."""
    assert "allow" != POLICY.decide("exec", {"command": line}).action


@pytest.mark.parametrize(
    "line", [line for line in CARRIERS if "'rm x'" in line and "psql" not in line and "java" not in line]
)
def test_a_denied_command_inside_a_word_is_denied(line: str) -> None:
    """A command line in one word of a carrier is read like a command line."""
    action = POLICY.decide("exec", {"command": line}).action
    assert "deny" == action or (
        "ask" == action and line.split()[0] in ("tar", "zip", "find", "git", "scp", "hg", "ssh")
    )


@pytest.mark.parametrize(
    "line",
    [
        "git status",
        "git log --oneline -5",
        "git log -p",
        "git diff --stat",
        "git add -u",
        "git commit -m 'rm x'",
        "git push -u o m",
        "tar -czf a.tgz src",
        "tar xf a.tar",
        "tar -xzvf a.tgz",
        "sed -n '1,20p' a",
        "sed 's/a/b/g' a",
        "sed -E 's|x|y|' a b",
        "rg -n TODO src",
        "sort -u a",
        "split -l 100 a",
        "make",
        "make test",
        "make -j4 all",
        "find . -name '*.py'",
        "curl -s https://x.example",
        "gcc -O2 -o a a.c",
        "pytest -q tests",
        "npm test",
        "npm run build",
        "cargo test",
        "go test ./...",
        "go build",
        "rsync -av a b",
        "env",
        "zip -r a.zip b",
    ],
)
def test_ordinary_use_of_allowed_programs_stays_allowed(line: str) -> None:
    """What is asked about is the option, not the program."""
    assert "allow" == POLICY.decide("exec", {"command": line}).action


ORDINARY = """
git clean -n
git log --pretty=%h -5
git fetch --prune --tags
git branch --set-upstream-to=origin/x
git rebase origin/main
git show HEAD:src/a.py
git log --format=%s --no-merges
git diff --check
git stash list
git rev-parse --show-toplevel
git commit -am message
git push --force-with-lease
git log --exclude=x
fd -e py
fd -H -t f name
fd --extension py
find . -name x -type f
cmake -S . -B build
cmake -DCMAKE_BUILD_TYPE=Release .
curl -sSfL https://x.example
curl -H 'Accept: json' https://x.example
curl -I https://x.example
wget -q https://x.example
ffmpeg -i a.mp4 -vcodec copy b.mkv
ls -la --color
grep -rn --include=*.py x .
rg --glob '*.py' x
sort -k2 -n a
base64 --wrap=0 a
mktemp --tmpdir
cargo build --release
cargo clippy --all-targets
go vet ./...
npm ci
npm run lint
pnpm install
pytest -x -q tests
pytest -k name --tb=short
pytest -n 2 --maxfail=1
ruff check src
mypy src
python3 script.py --verbose
node server.js --port 80
java -version
tar tf a.tar
tar -C out -xf a.tgz
rsync -a --delete a/ b/
make -j8 V
jq .a file.json
eslint src
tsc --noEmit
tox
ninja
mvn test
gradle build
pandoc a.md -o b.html
dig x.example
ssh-keygen -l
openssl x509 -noout -text
zip -r a.zip src
patch -p1
unzip a.zip
head -n 5 a
tail -f a
diff -u a b
wc -l a
""".strip().split("\n")


@pytest.mark.parametrize("line", ORDINARY)
def test_ordinary_lines_are_covered_by_the_name_of_their_program(line: str) -> None:
    """Options that only look like those that execute are none."""
    policy = Policy((Rule(action="allow", command=line.split()[0]),), default="ask")
    assert "allow" == policy.decide("exec", {"command": line}).action
