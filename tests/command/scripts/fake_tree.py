"""A small copy of the repository's front door with fake tools, so that the scripts can be tried in milliseconds."""

import os
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]

# Seconds after which a command that should have ended counts as hanging; far more than any of them takes.
PATIENCE = 120

# What every machine has; nothing else of the real machine is on the fake one's PATH.
ORDINARY_COMMANDS = """bash cat chmod cp date dirname echo env find flock id kill ln ls mkdir mkfifo mv nproc readlink rm sed
sha256sum sleep stty tail tee touch true""".split()

FAKE_CMAKE = """#!/usr/bin/env bash
set -eu
case "$*" in
  --version) echo "cmake version ${FAKE_CMAKE_VERSION:-3.28.3}" ;;
  "--fresh --preset "*)
    echo "configure $3" >>"$FAKE_CALLS"
    mkdir -p "build/$3"
    echo "CMAKE_HOME_DIRECTORY:INTERNAL=$PWD" >"build/$3/CMakeCache.txt"
    touch "build/$3/build.ninja"
    ;;
  "--build --preset "*)
    echo "build $3" >>"$FAKE_CALLS"
    if [[ -e src/endless.cpp ]]; then
      echo "building $$" >"$FAKE_CALLS.waiting"
      sleep 1000
    fi
    if [[ -e src/broken.cpp ]]; then
      echo "src/broken.cpp:1: error: expected a declaration"
      exit 1
    fi
    if [[ -n ${FAKE_EDIT:-} ]]; then
      # An edit in the middle of the build: later than its beginning, earlier than its end.
      until [[ src/layer.cpp -nt build/release/.muster-build-started ]]; do touch src/layer.cpp; done
      until [[ build/clock -nt src/layer.cpp ]]; do touch build/clock; done
    fi
    mkdir -p "build/$3/apps/cli" "build/$3/apps/worker"
    cp src/program "build/$3/apps/cli/muster"
    if [[ $3 == worker ]]; then cp src/program "build/$3/apps/worker/muster-worker"; fi
    ;;
  *) echo "fake cmake does not know: $*" >&2; exit 64 ;;
esac
"""

FAKE_COMPILER = """#!/usr/bin/env bash
case "$*" in
  *-dM*) echo "#define __GNUC__ ${FAKE_GCC_VERSION:-12}"; echo "#define __GNUC_MINOR__ 2" ;;
  *-E*) [[ -z ${FAKE_MISSING_PACKAGE:-} ]] || echo "\\"$FAKE_MISSING_PACKAGE\\"" ;;
esac
"""

# Tells what it was called with; its arguments and status show that ./muster passes both through.
FAKE_PROGRAM = """#!/usr/bin/env bash
printf '<%s>' "$@"
echo " in $PWD"
if [[ -e /proc/self/fd/9 ]]; then echo "holds the build lock"; fi
exit "${FAKE_STATUS:-0}"
"""


def write_command(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)


def set_age(path: Path, hours: int) -> None:
    time = path.stat().st_ctime - 3600 * hours
    os.utime(path, (time, time))


class FakeTree:
    """A tree under `folder` with ./muster, the scripts, sources, and a PATH on which only ordinary and fake commands are."""

    def __init__(self, folder: Path):
        self.root = folder / "a tree"
        self.commands = folder / "commands"
        self.calls_file = folder / "calls"
        self.root.mkdir()
        self.commands.mkdir()
        self.calls_file.touch()
        for name in ("muster", "test"):
            shutil.copy2(REPOSITORY / name, self.root / name)
        shutil.copytree(REPOSITORY / "scripts", self.root / "scripts", ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("src", "apps", "cmake", "tests"):
            (self.root / name).mkdir()
        shutil.copy2(REPOSITORY / "tests/conftest.py", self.root / "tests")
        for name in ("CMakeLists.txt", "CMakePresets.json", "src/layer.cpp", "src/forgotten.cpp"):
            (self.root / name).touch()
        write_command(self.root / "src/program", FAKE_PROGRAM)
        for name in ORDINARY_COMMANDS:
            (self.commands / name).symlink_to(shutil.which(name))
        write_command(self.commands / "python3", f'#!/usr/bin/env bash\nexec "{sys.executable}" "$@"\n')
        write_command(self.commands / "cmake", FAKE_CMAKE)
        write_command(self.commands / "ninja", "#!/usr/bin/env bash\necho 1.11.1\n")
        write_command(self.commands / "c++", FAKE_COMPILER)
        self.environment = {
            "PATH": str(self.commands),
            "HOME": str(folder),
            "FAKE_CALLS": str(self.calls_file),
        }
        self.age_sources()

    def age_sources(self) -> None:
        for name in ("src", "apps", "cmake", "CMakeLists.txt", "CMakePresets.json"):
            for path in (self.root / name, *(self.root / name).rglob("*")):
                set_age(path, hours=2)

    def age_build(self) -> None:
        """Puts the build's marks an hour back, so that whatever is touched next is newer however coarse the clock is."""
        for mark in (self.root / "build").glob("*/.muster-*ed"):
            set_age(mark, hours=1)

    @property
    def stamp(self) -> Path:
        return self.root / "build/release/.muster-built"

    def calls(self) -> list[str]:
        return self.calls_file.read_text().split("\n")[:-1]

    def start(self, *command: str, folder: Path | None = None, **variables: str) -> subprocess.Popen:
        return subprocess.Popen(
            command,
            cwd=folder or self.root,
            env=self.environment | variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def end_build(self) -> None:
        """Ends a fake build that never ends by itself, where one is left."""
        try:
            os.killpg(os.getpgid(self.builder()), signal.SIGKILL)
        except (FileNotFoundError, ProcessLookupError):
            pass

    def builder(self) -> int:
        """The process id of a fake build that never ends."""
        return int(Path(f"{self.calls_file}.waiting").read_text().split()[1])

    def run(self, *command: str, folder: Path | None = None, **variables: str) -> subprocess.CompletedProcess:
        process = self.start(*command, folder=folder, **variables)
        output, errors = process.communicate(timeout=PATIENCE)
        return subprocess.CompletedProcess(command, process.returncode, output, errors)

    def muster(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess:
        return self.run(str(self.root / "muster"), *arguments, **variables)

    def setup(self, *components: str, **variables: str) -> subprocess.CompletedProcess:
        return self.run(str(self.root / "scripts/setup.sh"), *components, **variables)
