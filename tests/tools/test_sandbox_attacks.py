"""Hostile programs: nothing gets through the walls, and the caller gets a plain result. Each test is a real attack."""

from __future__ import annotations

import errno
import os
import resource
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from footfall.tools import Limits, Sandbox, why_no_walls
from tests.tools.attacking import LIBC, QUICK, attack, refused

pytestmark = pytest.mark.skipif(why_no_walls() is not None, reason=f"no sandbox here: {why_no_walls()}")

SECRET = "correct-horse-battery-staple"


def marked(code: str) -> tuple[str, str]:
    """The program with a name of its own that its children inherit, so that one left behind can be found."""
    name = f"ff-{secrets.token_hex(5)}"
    return f"import ctypes; ctypes.CDLL(None).prctl(15, b'{name}')\n{code}", name


def left_behind(name: str, seconds: float = 1.0) -> list[str]:
    """The processes of that name that are still there after a moment: the kernel ends a namespace in its own time."""
    deadline = time.monotonic() + seconds
    while True:
        found = [path.parent.name for path in Path("/proc").glob("[0-9]*/comm") if _comm(path) == name.encode()]
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(0.02)


def _comm(path: Path) -> bytes:
    """A process's name as bytes: the hostile programs of other tests give themselves names that are no text."""
    try:
        return path.read_bytes().strip()
    except OSError:
        return b""


@pytest.fixture
def secret_file() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "secret"
        path.write_text(SECRET)
        path.chmod(0o644)
        yield path


def test_a_file_of_the_caller_cannot_be_read(secret_file: Path) -> None:
    refused(f"print(open({str(secret_file)!r}).read())")


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "/etc/shadow", "/etc/hostname", "~/.ssh/id_rsa", "~/.bashrc", "/proc/self/environ"]
)
def test_system_and_home_files_are_not_there(path: str) -> None:
    home = str(Path(path.replace("~", str(Path.home()))))
    refused(f"open({home!r}).read()")


def test_the_home_folder_shows_at_most_the_way_to_python() -> None:
    result = attack(
        "import os, sys\n"
        f"for folder, folders, files in os.walk({str(Path.home())!r}):\n"
        "    if folder.startswith(os.path.realpath(sys.base_prefix)): folders.clear()\n"
        "    else: print(*files, sep='')"
    )
    assert result.ok and result.stdout.strip() == ""


def test_environment_variables_of_the_caller_are_not_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOOTFALL_TEST_SECRET", SECRET)
    assert SECRET not in attack("import os; print(dict(os.environ))").stdout


@pytest.mark.parametrize("process", ["1", "self", "2"])
def test_no_process_tells_its_environment(process: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOOTFALL_TEST_SECRET", SECRET)
    refused(f"print(open('/proc/{process}/environ').read())")


def test_the_file_descriptors_of_the_caller_are_closed(secret_file: Path) -> None:
    with secret_file.open() as file:
        os.set_inheritable(file.fileno(), True)
        result = attack(
            "import os\nfor fd in range(3, 60):\n    try: print(os.read(fd, 100))\n    except OSError: pass"
        )
    assert result.ok and result.stdout == ""


@pytest.mark.parametrize(
    "folder", ["/", "/usr/lib", "/dev", "/etc", "/packages", os.path.realpath(sys.base_prefix) + "/lib"]
)
def test_nothing_can_be_written_outside_the_private_folder(folder: str) -> None:
    refused(f"open({folder + '/footfall_was_here'!r}, 'w')")
    assert not Path(folder, "footfall_was_here").exists()


def test_the_private_folder_is_private_and_gone_afterwards() -> None:
    assert attack("open('/tmp/footfall_was_here', 'w').write('x')").ok
    assert not Path("/tmp/footfall_was_here").exists()
    assert attack("import os; print(os.listdir('/tmp'))").stdout == "[]\n"


def test_the_network_cannot_be_reached() -> None:
    refused("import socket; socket.create_connection(('1.1.1.1', 53), timeout=0.5)")


def test_a_server_on_the_callers_loopback_cannot_be_reached() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        refused(f"import socket; socket.create_connection(('127.0.0.1', {server.getsockname()[1]}), timeout=0.5)")


def test_a_unix_socket_of_the_caller_cannot_be_reached() -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("\0footfall-test")  # abstract: it has no file that could be hidden
        server.listen()
        refused("import socket; socket.socket(socket.AF_UNIX).connect('\\0footfall-test')")


def test_a_fork_bomb_stays_within_the_limit() -> None:
    result = attack(
        "import os\n"
        "children = 0\n"
        "try:\n"
        "    while children < 500:\n"
        "        if os.fork() == 0:\n"
        "            import time; time.sleep(5); os._exit(0)\n"
        "        children += 1\n"
        "except BlockingIOError: print(children)"
    )
    assert result.ok and int(result.stdout) <= QUICK.processes


def test_a_fork_bomb_that_catches_errors_ends_with_the_clock() -> None:
    code, name = marked("import os\nwhile True:\n    try: os.fork()\n    except OSError: pass")
    result = attack(code)
    assert result.exit_code is None and result.killed_by in ("time", "processes")
    assert not left_behind(name)


def test_threads_stay_within_the_limit() -> None:
    code = "import threading, time\nfor _ in range(100): threading.Thread(target=time.sleep, args=(5,), daemon=True).start()"
    assert "can't start new thread" in attack(code).stderr


def test_memory_cannot_be_filled_by_one_process() -> None:
    result = attack("x = bytearray(1 << 30)")
    assert result.exit_code == 1 and "MemoryError" in result.stderr


def test_memory_cannot_be_filled_by_many_processes() -> None:
    result = attack(
        "import os, time\nfor _ in range(3): os.fork()\nx = bytearray(os.urandom(1 << 20)) * 60\ntime.sleep(5)"
    )
    assert result.killed_by == "memory" and result.exit_code is None


def test_the_disk_cannot_be_filled() -> None:
    for folder in ("/tmp", "/dev/shm"):
        refused(f"for n in range(50): open(f'{folder}/{{n}}', 'wb').write(bytes(1 << 20))")


def test_one_file_cannot_grow_past_the_limit() -> None:
    result = attack("import os\nfd = os.open('/tmp/x', os.O_CREAT | os.O_WRONLY)\nos.ftruncate(fd, 1 << 40)")
    assert result.exit_code != 0


@pytest.mark.parametrize(
    "code",
    [
        "import time; time.sleep(60)",
        "import signal\nfor n in range(1, 32):\n"
        "    try: signal.signal(n, signal.SIG_IGN)\n    except (OSError, ValueError): pass\n"
        "import time; time.sleep(60)",
        "import sys\nsys.stdout.close(); sys.stderr.close()\nimport os; os.close(1); os.close(2)\nimport time; time.sleep(60)",
        "import threading, time\nthreading.Thread(target=time.sleep, args=(60,)).start()",
    ],
    ids=["sleep", "ignores-signals", "closes-its-output", "thread"],
)
def test_a_program_that_hangs_is_ended(code: str) -> None:
    result = attack(code, Limits(seconds=0.3))
    assert result.timed_out and result.killed_by == "time" and result.exit_code is None


def test_a_busy_loop_is_ended_by_processor_time() -> None:
    result = attack("while True: pass", Limits(seconds=10, cpu_seconds=1))
    assert result.timed_out and result.killed_by == "cpu"


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_flood_of_output_is_cut(stream: str) -> None:
    result = attack(f"import sys\nwhile True: sys.{stream}.write('x' * 10000)")
    assert result.killed_by == "output" and result.truncated
    assert len(getattr(result, stream)) == QUICK.output_bytes


def test_output_a_little_over_the_cap_is_cut_and_the_program_goes_on() -> None:
    result = attack("print('x' * 100_000)\nimport sys\nsys.exit(3)")
    assert result.exit_code == 3 and result.truncated and len(result.stdout) == QUICK.output_bytes


@pytest.mark.parametrize("target", ["os.getppid()", "1", "-1", str(os.getpid())], ids=["parent", "1", "all", "caller"])
def test_killing_others_harms_nobody_outside(target: str) -> None:
    result = attack(f"import os\ntry: os.kill({target}, 9)\nexcept OSError: pass\nprint('alive')")
    assert result.stdout == "alive\n" and result.ok


def test_no_process_of_the_caller_can_be_seen() -> None:
    refused(f"import os; os.kill({os.getpid()}, 0)")


def test_a_daemon_does_not_outlive_its_program() -> None:
    code, name = marked(
        "import os, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0:\n"
        "        time.sleep(60)\n"
        "    os._exit(0)\n"
        "os.wait(); print('parent done')"
    )
    result = attack(code)
    assert result.ok and result.stdout == "parent done\n" and not left_behind(name)


def test_a_process_left_behind_would_be_found() -> None:
    code, name = marked("import time; print(flush=True); time.sleep(60)")
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline()
        assert left_behind(name, seconds=0) == [str(process.pid)]
        process.kill()


def test_endless_recursion_gives_an_error() -> None:
    result = attack("def f(): f()\nf()")
    assert result.exit_code == 1 and "RecursionError" in result.stderr


def test_recursion_without_a_limit_harms_only_itself() -> None:
    result = attack("import sys\nsys.setrecursionlimit(10**9)\ndef f(n): return [f(n + 1)]\nf(0)")
    assert result.exit_code != 0


def test_a_crash_of_the_interpreter_is_a_plain_result() -> None:
    result = attack("import ctypes\nctypes.string_at(0)")
    assert result.killed_by == "SIGSEGV" and result.exit_code == 128 + 11


def test_reading_stdin_forever_meets_its_end() -> None:
    result = attack(
        "import sys\nn = 0\nfor line in sys.stdin: n += 1\nprint(n)\nprint(repr(sys.stdin.read()))", stdin="a\nb\n"
    )
    assert result.stdout == "2\n''\n"


def test_a_program_that_never_reads_its_stdin_does_not_block_us() -> None:
    assert attack("print('done')", stdin="x" * 1_000_000).stdout == "done\n"


def test_bytes_that_are_not_text_are_replaced() -> None:
    result = attack("import sys\nsys.stdout.buffer.write(b'a\\xff\\xfeb')")
    assert result.stdout == "a\ufffd\ufffdb"


@pytest.mark.parametrize("code", ["\0", "x = '\ud800'", "(" * 5000, "-" * 100_000 + "1", "print('\ud800')"])
def test_text_that_is_no_program_is_a_plain_failure(code: str) -> None:
    assert attack(code).exit_code not in (0, None)


@pytest.mark.parametrize(
    "call",
    [
        "os.setuid(0)", "os.setgid(0)", "os.chroot('/tmp')", "os.mknod('/tmp/d', 0o60600, 0x0801)",
        "libc('unshare', 0x10000000)", "libc('mount', b'none', b'/tmp', b'tmpfs', 0, 0)", "libc('ptrace', 0, 0, 0, 0)",
        "libc('sethostname', b'x', 1)", "os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))", "os.nice(-5)",
    ],
)  # fmt: skip
def test_rights_cannot_be_regained(call: str) -> None:
    refused(LIBC + call)


def shown_package(folder: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of the host that the sandbox shows as /packages/shown_package."""
    package = Path(folder) / "shown_package"
    package.mkdir()
    package.chmod(0o755)
    (package / "__init__.py").touch()
    monkeypatch.syspath_prepend(folder)
    return package


def test_a_setuid_file_of_the_host_gives_no_rights(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory() as folder:
        door = shown_package(folder, monkeypatch) / "python"
        shutil.copy(sys._base_executable, door)  # type: ignore[attr-defined]
        door.chmod(0o6755)
        code = (
            "import os, subprocess, sys\n"
            "ids = 'import os; print(os.getresuid(), os.getresgid())'\n"
            "command = ['/packages/shown_package/python', '-S', '-c', ids]\n"
            f"environment = {{'PYTHONHOME': {os.path.realpath(sys.base_prefix)!r}}}\n"
            "print(subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True).stdout, end='')\n"
            "print(os.getresuid(), os.getresgid())"
        )
        result = Sandbox(QUICK, packages=("shown_package",)).run(code)
        through_the_door, own = result.stdout.splitlines()
        assert through_the_door == own, result


def test_the_kernel_gives_no_rights_for_a_setuid_bit() -> None:
    assert attack(LIBC + "print(libc('prctl', 39, 0, 0, 0, 0))").stdout == "1\n"  # PR_GET_NO_NEW_PRIVS


def test_a_crash_writes_no_core_and_wakes_no_handler_of_the_host() -> None:
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    most = 1 if hard == resource.RLIM_INFINITY else min(1, hard)
    assert attack("import resource; print(resource.getrlimit(resource.RLIMIT_CORE))").stdout == f"({most}, {most})\n"


@pytest.mark.parametrize(
    "path",
    ["/proc", "/sys", "/proc/sys/kernel/core_pattern", "/dev/mem", "/dev/kmsg", "/dev/vsock", "/dev/fuse", "/dev/ptmx"],
)
def test_the_doors_of_the_kernel_are_not_there(path: str) -> None:
    assert refused(f"import os; os.stat({path!r})") == errno.ENOENT


def test_there_is_no_terminal_to_type_into() -> None:
    refused("import os; os.openpty()")
    assert refused("import fcntl; fcntl.ioctl(0, 0x5412, b'x')") == errno.EPERM  # TIOCSTI
    refused("open('/dev/tty')")


def test_only_the_three_streams_are_open_at_the_start() -> None:
    result = attack(
        "import os\ndef is_open(fd):\n    try: os.fstat(fd); return True\n    except OSError: return False\n"
        "print([fd for fd in range(1024) if is_open(fd)])"
    )
    assert result.stdout == "[0, 1, 2]\n"


def test_a_sibling_cannot_be_looked_into() -> None:
    sibling = "import time\nsibling = os.fork()\nif sibling == 0:\n    time.sleep(5)\n    os._exit(0)\n"
    for call in ("libc('ptrace', 16, sibling, 0, 0)", "libc('process_vm_readv', sibling, 0, 0, 0, 0, 0)"):
        assert refused(LIBC + sibling + call) == errno.EPERM


def test_a_unix_socket_in_a_folder_that_is_shown_cannot_be_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as server:
        package = shown_package(folder, monkeypatch)
        server.bind(str(package / "door"))
        (package / "door").chmod(0o777)
        server.listen()
        code = "import socket; socket.socket(socket.AF_UNIX).connect('/packages/shown_package/door')"
        result = Sandbox(QUICK, packages=("shown_package",)).run(code)
        assert "PermissionError" in result.stderr, result


def test_limits_cannot_be_raised_again() -> None:
    code = "import resource\nresource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)"
    assert "ValueError" in attack(code).stderr or "not allowed" in attack(code).stderr


def test_many_attacks_at_once_leave_no_thread_and_no_process_behind() -> None:
    before = threading.active_count()
    hangs, name = marked("while True: pass")
    results = Sandbox(Limits(seconds=0.5)).run_many([hangs, "import os; os._exit(7)", "print(1)"] * 2, workers=3)
    assert [result.exit_code for result in results] == [None, 7, 0] * 2
    assert threading.active_count() == before and not left_behind(name)
