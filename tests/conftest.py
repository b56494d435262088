"""What holds for every Python test: signals as a login shell has them, and a limit of time.

A program inherits ignored and blocked signals, so a suite that is started by nohup or by some CI runners would hand them
to everything it tests. The limit holds for each phase of a test (set-up, call, clean-up): a test that reaches it fails by
name, and the processes that it started are killed, including those that have detached themselves. A test that needs more
says so: @pytest.mark.limit(SECONDS). A test that does not react, because it is stuck in native code, takes its process
with it; pytest-xdist names the test and carries on in a new process.
"""

import contextlib
import faulthandler
import os
import shutil
import signal
import tempfile
from hashlib import sha256
from pathlib import Path

import pytest

# Far more than any test takes on an idle machine.
LIMIT = 300
# How long a test that reached its limit has to react before its whole process is ended.
GRACE = 30
# Names the test in the environment of the processes that it starts.
MARK = "TEST_THAT_STARTED_THIS"


def pytest_addoption(parser):
    parser.addoption("--limit", type=float, default=LIMIT, metavar="SECONDS", help="what each phase of a test may take")


# Oracles compute as they are written: compiling them takes longer than the little that they compute.
os.environ["TORCH_COMPILE_DISABLE"] = "1"
# In torch and in the programs that tests start: threads of models as small as theirs mostly wait for each other, and keep processors
# from the tests beside them.
os.environ["OMP_NUM_THREADS"] = "1"


def pytest_configure(config):
    config.addinivalue_line("markers", "limit(seconds): what each phase of this test may take, in place of --limit")
    set_usual_signals()
    shared = getattr(config, "workerinput", {})  # what the controlling process of pytest-xdist hands to this one
    config.limit_session = shared.get("limit_session") or tempfile.mkdtemp(prefix="test-session-")
    with config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        config.limit_messages = os.fdopen(os.dup(2), "w")  # standard error as it is outside of tests


def pytest_unconfigure(config):
    config.limit_messages.close()
    if not hasattr(config, "workerinput"):
        shutil.rmtree(config.limit_session, ignore_errors=True)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node):
    node.workerinput["limit_session"] = node.config.limit_session


@pytest.hookimpl(optionalhook=True)
def pytest_handlecrashitem(crashitem, sched):
    kill_started(mark_of(sched.config, crashitem), before=set(children()))


def set_usual_signals():
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM, signal.SIGALRM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    # Python ignores SIGPIPE itself, and gives it back to the programs that it starts.


def mark_of(config, test: str) -> str:
    return f"{config.limit_session} {test}"


def begun_file(item) -> Path:
    """There while the test runs, and for the rest of the session where it has ended its process."""
    return Path(item.config.limit_session, sha256(item.nodeid.encode()).hexdigest())


def marked_processes(mark: str) -> list[int]:
    entry = f"{MARK}={mark}".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if entry in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return found


def children() -> list[int]:
    """Of this process, at any depth."""
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
    found, seen = [], [os.getpid()]
    while seen:
        parent = seen.pop()
        below = [pid for pid, its in parents.items() if its == parent]
        found += below
        seen += below
    return found


def kill_started(mark: str, before: set[int]):
    """Until none is left: a process may start another while it is being killed."""
    for _ in range(100):
        left = [pid for pid in {*marked_processes(mark), *children()} - before - {os.getpid()} if not is_zombie(pid)]
        if not left:
            return
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@contextlib.contextmanager
def limited(item, phase: str):
    """Fails the test where the phase takes too long."""
    marker = item.get_closest_marker("limit")
    seconds = marker.args[0] if marker else item.config.getoption("--limit")
    mark, before = mark_of(item.config, item.nodeid), set(children())

    def reached(*_):
        kill_started(mark, before)
        pytest.fail(f"{item.nodeid}: {phase} took longer than {seconds:g} s; its processes were killed")

    previous = signal.signal(signal.SIGALRM, reached)
    os.environ[MARK] = mark
    faulthandler.dump_traceback_later(seconds + GRACE, exit=True, file=item.config.limit_messages)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        faulthandler.cancel_dump_traceback_later()
        signal.signal(signal.SIGALRM, previous)
        os.environ.pop(MARK, None)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item):
    set_usual_signals()  # whatever the last test made of them
    if begun_file(item).exists():
        pytest.skip("it has ended a process already, which counts as its failure")  # pytest-xdist tries it again
    begun_file(item).touch()
    with limited(item, "its set-up"):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    with limited(item, "it"):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item):
    with limited(item, "its clean-up"):
        result = yield
    begun_file(item).unlink(missing_ok=True)
    return result
