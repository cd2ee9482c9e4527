"""The sandbox for honest programs: what it runs, what it reports, when it refuses, and unit tests that cannot be faked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from footfall import tools
from footfall.tools import Limits, Result, Sandbox, SandboxError, why_no_walls
from footfall.tools.sandbox import read_report

needs_walls = pytest.mark.skipif(why_no_walls() is not None, reason=f"no sandbox here: {why_no_walls()}")
QUICK = Limits(seconds=2)


@needs_walls
def test_a_program_reads_stdin_and_its_files_and_reports_its_exit_code() -> None:
    code = "import sys, helper\nprint(helper.twice(int(input())), open('data/n.txt').read())\nsys.exit(3)"
    files = {"helper.py": "def twice(n): return 2 * n", "data/n.txt": "ü"}
    result = Sandbox(QUICK).run(code, stdin="21\n", files=files)
    assert (result.stdout, result.stderr, result.exit_code, result.killed_by) == ("42 ü\n", "", 3, None)
    assert not result.timed_out and not result.truncated and result.seconds < 2 and result.warning == ""


@needs_walls
def test_an_error_shows_the_usual_traceback_of_the_program_alone() -> None:
    result = Sandbox(QUICK).run("def f(x):\n    return 1 / x\nf(0)")
    assert result.exit_code == 1 and not result.ok
    assert result.stderr.splitlines()[:4] == [
        "Traceback (most recent call last):",
        '  File "main.py", line 3, in <module>',
        "    f(0)",
        '  File "main.py", line 2, in f',
    ]
    assert result.stderr.endswith("ZeroDivisionError: division by zero\n")


@needs_walls
def test_what_was_printed_before_the_end_of_time_is_kept() -> None:
    result = Sandbox(Limits(seconds=0.3)).run("print('first')\nwhile True: pass")
    assert result.timed_out and result.stdout == "first\n"


@needs_walls
def test_a_program_is_main_and_may_use_the_whole_standard_library() -> None:
    code = (
        "import dataclasses, decimal, fractions, json, multiprocessing, pickle, re, statistics, typing\n"
        "@dataclasses.dataclass\nclass P:\n    x: int\n"
        "if __name__ == '__main__':\n"
        "    assert pickle.loads(pickle.dumps(P(1))) == P(1)\n"
        "    with multiprocessing.Pool(2) as pool: print(pool.map(abs, [-1, 2]))\n"
        "    exit()"
    )
    result = Sandbox(QUICK).run(code)
    assert result.ok and result.stdout == "[1, 2]\n", result.stderr


HONEST = {
    "asyncio": "import asyncio\nasync def f(): return 'ok'\nprint(asyncio.run(f()))",
    "socketpair": "import socket\na, b = socket.socketpair()\na.settimeout(1)\nb.sendall(b'ok')\nprint(a.recv(2).decode())",
    "pipe": "import multiprocessing\na, b = multiprocessing.Pipe()\na.send('ok')\nprint(b.recv())",
    "queue": (
        "import multiprocessing\nq = multiprocessing.Queue()\np = multiprocessing.Process(target=q.put, args=('ok',))\n"
        "p.start()\nprint(q.get())\np.join()"
    ),
    "executor": (
        "from concurrent.futures import ProcessPoolExecutor\n"
        "with ProcessPoolExecutor(2) as pool: print(*pool.map(str.lower, ['OK']))"
    ),
    "subprocess": (
        "import subprocess, sys\n"
        "print(subprocess.run([sys.executable, '-S', '-c', 'print(\"ok\")'], capture_output=True, text=True).stdout.strip())"
    ),
    "copy": "import shutil\nopen('a', 'w').write('ok')\nshutil.copy2('a', 'b')\nprint(open(shutil.move('b', 'c')).read())",
    "threads": "import threading\nt = threading.Thread(target=print, args=('ok',))\nt.start()\nt.join()",
    "sqlite": "import sqlite3\nc = sqlite3.connect('x.db')\nc.execute('create table t (a)')\nc.commit()\nprint('ok')",
    "file-map": (
        "import mmap\nf = open('m', 'w+b')\nf.truncate(9)\nm = mmap.mmap(f.fileno(), 9)\nm[:2] = b'ok'\n"
        "print(m[:2].decode())"
    ),
    "private-map": "import mmap\nm = mmap.mmap(-1, 9, mmap.MAP_PRIVATE)\nm[:2] = b'ok'\nprint(m[:2].decode())",
    "zeros": "print('ok' if open('/dev/zero', 'rb').read(3) == bytes(3) else 'no')",
}


@needs_walls
@pytest.mark.parametrize("code", HONEST.values(), ids=HONEST.keys())
def test_what_honest_programs_use_works_behind_the_filter(code: str) -> None:
    result = Sandbox(QUICK).run(code)
    assert result.ok and result.stdout == "ok\n", result.stderr


@needs_walls
def test_installed_packages_are_there_only_if_asked_for() -> None:
    code = "import sympy\nprint(sympy.sqrt(8))"
    assert "ModuleNotFoundError" in Sandbox(QUICK).run(code).stderr
    result = Sandbox(Limits(seconds=20, cpu_seconds=20), packages=("sympy", "mpmath")).run(code)
    assert result.stdout == "2*sqrt(2)\n", result.stderr


@needs_walls
def test_many_programs_keep_their_order() -> None:
    results = Sandbox(QUICK).run_many([f"print({n})" for n in range(6)], workers=3)
    assert [result.stdout for result in results] == [f"{n}\n" for n in range(6)]


def test_a_package_that_is_not_installed_is_an_error_of_the_caller() -> None:
    with pytest.raises(SandboxError, match="'no_such_package' is not installed"):
        Sandbox(packages=("no_such_package",), allow_unsandboxed=True).run("")


@pytest.mark.parametrize("name", ["/etc/passwd", "../x", "a/../../x", ""])
def test_files_outside_the_programs_folder_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="inside the program's own folder"):
        Sandbox(allow_unsandboxed=True).run("", files={name: ""})


@pytest.mark.parametrize("field", ["seconds", "cpu_seconds", "memory_mb", "processes", "output_bytes", "disk_mb"])
def test_a_limit_must_be_above_zero(field: str) -> None:
    with pytest.raises(ValueError, match=field):
        Limits(**{field: 0})


@pytest.fixture
def no_bubblewrap(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("PATH", str(tmp_path))
    why_no_walls.cache_clear()
    yield
    why_no_walls.cache_clear()


@pytest.fixture
def broken_bubblewrap(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\necho 'bwrap: No permissions to create a new namespace' >&2; exit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    why_no_walls.cache_clear()
    yield
    why_no_walls.cache_clear()


RUNS: list[Callable[[Sandbox], object]] = [
    lambda box: box.run("print(1)"),
    lambda box: box.run_many(["print(1)"]),
    lambda box: box.run_tests("x = 1", ["assert x == 1"]),
    lambda box: box.session(),
]


@pytest.mark.usefixtures("no_bubblewrap")
@pytest.mark.parametrize("run", RUNS, ids=["run", "run_many", "run_tests", "session"])
def test_without_bubblewrap_nothing_runs_and_the_error_says_how_to_install_it(run: Callable[[Sandbox], object]) -> None:
    with pytest.raises(SandboxError, match=r"apt install bubblewrap.*allow_unsandboxed=True"):
        run(Sandbox())


@pytest.mark.usefixtures("broken_bubblewrap")
def test_where_namespaces_are_not_permitted_nothing_runs_and_the_error_says_why() -> None:
    with pytest.raises(SandboxError, match="No permissions to create a new namespace"):
        Sandbox().run("print(1)")


@pytest.mark.usefixtures("no_bubblewrap")
def test_told_so_it_runs_with_limits_alone_and_warns() -> None:
    box = Sandbox(Limits(seconds=0.5), allow_unsandboxed=True)
    result = box.run("import os; print(len(os.environ), os.listdir('.'))", files={"a": ""})
    assert result.ok and result.stdout.endswith("['a']\n") and "without a sandbox" in result.warning
    hangs = box.run("while True: pass")
    assert hangs.timed_out and "without a sandbox" in hangs.warning
    assert box.run_tests("def f(n): return n + 1", ["assert f(1) == 2"])[0].passed
    with box.session() as session:
        assert session.run("x = 2").ok and session.run("print(x)").stdout == "2\n"


@needs_walls
def test_the_walls_are_used_even_if_going_without_is_allowed() -> None:
    result = Sandbox(QUICK, allow_unsandboxed=True).run("print(open('/etc/passwd').read())")
    assert result.exit_code == 1 and result.warning == ""


PROGRAM = """
import math
def double(n): return 2 * n
def crash(n): raise ValueError("no " + str(n))
def order(values): values.sort()
def apply(function, value): return function(value)
def squares(n): return (k * k for k in range(n))
class Stack:
    def __init__(self): self.items = []
    def push(self, item): self.items.append(item)
    def __len__(self): return len(self.items)
"""
TESTS = {
    "assert double(4) == 8": "pass",
    "assert double(4) == 9, 'wrong'": "fail",
    "assert crash(1) == 1": "error",
    "try: crash(1)\nexcept ValueError as error: assert str(error) == 'no 1'\nelse: assert False": "pass",
    "values = [3, 1, 2]\norder(values)\nassert values == [1, 2, 3]": "pass",
    "assert apply(lambda n: double(n) + 1, 3) == 7": "pass",
    "assert list(squares(4)) == [0, 1, 4, 9]": "pass",
    "stack = Stack()\nstack.push('a')\nassert stack.items == ['a'] and len(stack) == 1": "pass",
    "assert math.isclose(double(0.1), 0.2) and isinstance(double(1), int)": "pass",
    "assert double({'a'} if False else (1, 'x')) == (1, 'x', 1, 'x')": "pass",
    "assert double(10**50) == 2 * 10**50 and double(float('inf')) == float('inf')": "pass",
    "assert missing(1)": "error",
    "assert double(": "error",
}


@needs_walls
def test_each_test_gets_its_own_verdict() -> None:
    results = Sandbox(QUICK).run_tests(PROGRAM, list(TESTS))
    assert {result.test: result.status for result in results} == TESTS
    details = {result.test: result.detail for result in results}
    assert details["assert double(4) == 9, 'wrong'"] == "AssertionError: wrong"
    assert details["assert crash(1) == 1"] == "ValueError: no 1"
    assert "NameError" in details["assert missing(1)"]


@needs_walls
def test_tests_do_not_see_what_other_tests_did() -> None:
    program = "seen = []\ndef remember(x):\n    seen.append(x)\n    return len(seen)"
    results = Sandbox(QUICK).run_tests(program, ["assert remember(1) == 1"] * 3)
    assert [result.status for result in results] == ["pass"] * 3


@needs_walls
def test_a_slow_test_is_a_timeout_and_the_next_one_runs() -> None:
    program = "def f(n):\n    while n: pass\n    return n"
    results = Sandbox(Limits(seconds=0.3)).run_tests(
        program, ["assert f(1) == 1", "assert f(0) == 0", "while True: pass"]
    )
    assert [result.status for result in results] == ["timeout", "pass", "timeout"]


FAKES = {
    "prints": "print('[\"pass\", \"\"]')\nprint('pass')\ndef f(n): print('[\"pass\", \"\"]'); return 0",
    "exits-early": "import sys\nsys.exit(0)",
    "exits-in-the-call": "import os\ndef f(n): os._exit(0)",
    "system-exit-in-the-call": "def f(n): raise SystemExit(0)",
    "equal-to-everything": "class E:\n    def __eq__(self, other): return True\ndef f(n): return E()",
    "own-assertion-error": "import builtins\nbuiltins.AssertionError = type('A', (Exception,), {})\ndef f(n): return 0",
    "own-builtins": "def all(x): return True\ndef f(n): return 0",
    "writes-to-every-descriptor": (
        "import os\ndef f(n):\n    for fd in range(64):\n"
        "        try: os.write(fd, b'[\"pass\", \"\"]\\n')\n        except OSError: pass\n"
        "    return 0"
    ),
    "looks-for-the-test": (
        "import gc, sys\ndef f(n):\n    frame, found = sys._getframe(), []\n"
        "    while frame: found += [frame.f_locals, frame.f_globals]; frame = frame.f_back\n"
        "    found += [o for o in gc.get_objects() if type(o) in (list, dict, tuple)]\n"
        "    want = 'assert ' + 'f(1) =='\n"
        "    texts = [s for o in found for s in (o.values() if isinstance(o, dict) else o) if isinstance(s, str)]\n"
        "    hit = [s for s in texts if s.startswith(want)]\n"
        "    return int(hit[0].split('== ')[1]) if hit else 0"
    ),
    "kills-everyone": "import os\ndef f(n): os.kill(-1, 9)",
    "only-the-tests-own-names": "all = any = lambda it: True\nassertion = True",
    "own-module": (
        "from types import SimpleNamespace\nmath = SimpleNamespace(isclose=lambda *args: True)\n"
        "isclose = math.isclose\ndef f(n): return 0"
    ),
    "ends-the-loop": "def f(n): raise StopIteration",
    "says-so-at-the-end": "import atexit, os\natexit.register(os.write, 1, b'[\"pass\", \"\"]\\n')\ndef f(n): return 0",
    "own-write": (
        "import json, os, sys\nos.write = lambda fd, data: len(data)\njson.dumps = lambda *a, **k: '[\"pass\", \"\"]'\n"
        "sys.settrace(lambda *a: None)\nsys.modules['ast'] = None\ndef f(n): return 0"
    ),
    "number-that-lies": (
        "class N(int):\n    def __eq__(self, other): return True\n    __hash__ = int.__hash__\ndef f(n): return N(0)"
    ),
    "skips-the-caller": (
        "import sys\ndef f(n):\n    frame = sys._getframe().f_back\n"
        "    while frame: frame.f_locals.clear(); frame = frame.f_back\n"
        "    raise AssertionError"
    ),
}  # fmt: skip


@needs_walls
@pytest.mark.parametrize("fake", FAKES)
def test_a_wrong_program_cannot_fake_a_pass(fake: str) -> None:
    tests = [
        "assert f(1) == 98765", "assert all([f(1) == 98765])", "assert all(map(lambda n: f(n) == 98765, [1]))",
        "assert math.isclose(f(1), 98765)", "assert isclose(f(1), 98765)",
    ]  # fmt: skip
    for reference in ("", "import math\ndef f(n): return 98765"):
        results = Sandbox(QUICK).run_tests(FAKES[fake], tests, reference)
        assert [result.test for result in results] == tests
        assert all(result.status in ("fail", "error") for result in results), results


@needs_walls
def test_a_program_may_be_named_like_a_builtin() -> None:
    assert Sandbox(QUICK).run_tests("def sum(a, b): return a * b", ["assert sum(2, 5) == 10"])[0].passed


@needs_walls
def test_with_a_reference_the_tests_take_from_the_program_what_that_defines() -> None:
    reference = "import math as m\nfrom statistics import median\ndef sum(a, b): return a * b\nlist = [1]"
    program = "m = median = None\ndef sum(a, b): return 10\nlist = [7]"
    (result,) = Sandbox(QUICK).run_tests(program, ["assert m.isclose(sum(2, 5), 10) and median(list) == 7"], reference)
    assert result.passed, result


@needs_walls
@pytest.mark.parametrize("word", ["\U0001f600" * 300, r"\ud800" * 300, r"\0" * 300, "'" * 300])
def test_what_forty_failing_tests_say_fits_into_the_report(word: str) -> None:
    tests = ["assert f(1) == 98765"] * 40
    results = Sandbox(Limits(output_bytes=1024)).run_tests(f'def f(n): raise ValueError("{word}")', tests)
    assert [result.status for result in results] == ["error"] * 40 and all(result.judged for result in results)
    assert all(result.detail.startswith("ValueError: ") and result.detail.encode() for result in results)


def test_a_report_that_was_cut_leaves_the_rest_unjudged() -> None:
    report = read_report(["a", "b"], Result('["pass", ""]\n["fail", "x', "", None, killed_by="memory"))
    assert [(result.status, result.judged) for result in report] == [("pass", True), ("error", False)]


@needs_walls
def test_text_without_end_is_not_run() -> None:
    (result,) = Sandbox(QUICK).run_tests("#" * (5 << 20), ["assert f(1)"])
    assert result.status == "error" and "over 4 MiB" in result.detail


@needs_walls
def test_variants_are_told_apart_and_each_is_tested_alone() -> None:
    lines = ["def f(n):", "    return n", 'print(\'["pass", ""]\')']
    changes = [(1, "    return n + n"), (1, "    while n: pass"), (0, "def f(n=("), (1, "    return 2 * n")]
    results = Sandbox(QUICK).run_variants(lines, changes, ["assert f(2) == 4", "assert f(3) == 6"])
    assert [result.status for result in results] == ["pass", "timeout", "error", "pass"]


@needs_walls
@pytest.mark.long
def test_a_variant_that_had_no_processor_is_tried_again_with_more_time() -> None:
    """As on a busy machine: a program that waits takes no processor time either."""
    changes = [(0, "import time; time.sleep(0.5)"), (0, "while True: pass"), (0, "import time; time.sleep(60)")]
    results = Sandbox(QUICK).run_variants(["", "def f(n): return n"], changes, ["assert f(2) == 2"], seconds=0.2)
    assert [result.status for result in results] == ["pass", "timeout", "timeout"]
    assert results[2].detail == "not over after 1.6 s"


@needs_walls
def test_no_tests_give_no_results() -> None:
    assert Sandbox(QUICK).run_tests("x = 1", []) == []


@needs_walls
def test_a_session_keeps_its_names_and_survives_errors() -> None:
    with Sandbox(QUICK).session() as session:
        assert session.run("x = 20\ndef f(n): return n + x").ok
        failed = session.run("print('before')\nf('a')")
        assert failed.exit_code == 1 and failed.stdout == "before\n" and "TypeError" in failed.stderr
        assert session.run("this is no Python").exit_code == 1
        assert session.run("print(f(22))").stdout == "42\n"
        assert session.run("import sys; sys.exit(5)").exit_code == 5
        assert session.alive and session.run("print(x)").stdout == "20\n"


@needs_walls
def test_a_block_that_hangs_ends_its_session_with_a_plain_result() -> None:
    with Sandbox(Limits(seconds=0.3)).session() as session:
        result = session.run("print('on it')\nwhile True: pass")
        assert result.timed_out and result.stdout == "on it\n" and not session.alive
        later = session.run("print(1)")
        assert later.killed_by == "session" and "limit on time" in later.stderr


@needs_walls
@pytest.mark.parametrize(
    ("code", "killed_by"),
    [
        ("import os; os._exit(7)", None),
        ("import ctypes; ctypes.string_at(0)", "SIGSEGV"),
        ("while True: print('x' * 1000)", "output"),
        ("import os; os.kill(os.getpid(), 9)", "SIGKILL"),
    ],
)
def test_a_block_that_ends_the_process_ends_the_session(code: str, killed_by: str | None) -> None:
    with Sandbox(QUICK).session() as session:
        result = session.run(code)
        assert result.killed_by == killed_by and not session.alive


@needs_walls
def test_a_session_has_the_same_walls() -> None:
    with Sandbox(QUICK).session() as session:
        assert "FileNotFoundError" in session.run("open('/etc/passwd')").stderr
        assert "Address family not supported" in session.run("import socket; socket.socket(socket.AF_INET)").stderr
        assert session.run("input()").exit_code == 1
        assert "MemoryError" in session.run("x = bytearray(1 << 30)").stderr


@needs_walls
def test_processor_time_is_counted_for_each_block() -> None:
    left = "import resource, time\nprint(resource.getrlimit(resource.RLIMIT_CPU)[0] > time.process_time() + 1)"
    burn = "end = time.process_time() + 1.2\nwhile time.process_time() < end: pass"
    with Sandbox(Limits(seconds=10, cpu_seconds=1)).session() as session:
        assert session.run(left).stdout == "True\n" and session.run(burn).ok
        assert session.run(left).stdout == "True\n"


@needs_walls
def test_a_block_that_meddles_with_the_replies_only_spoils_its_own() -> None:
    meddle = "import os\nfor fd in range(3, 64):\n    try: os.write(fd, b'zero\\n')\n    except OSError: pass"
    with Sandbox(QUICK).session() as session:
        assert session.run(meddle).exit_code in (0, 1)
        assert session.run("print(1)").exit_code in (0, 1, None)


def test_the_public_names_are_stated() -> None:
    assert set(tools.__all__) <= set(dir(tools))


@needs_walls
def test_a_library_on_the_tests_side_builds_nothing_from_an_object_of_the_program() -> None:
    """numpy makes an array of the memory that `__array_interface__` names, at addresses that forked processes share."""
    program = "class A:\n    __array_interface__ = {'shape': (1,), 'typestr': '|O', 'data': (64, 0)}\n    size = 1"
    asked = [
        "assert not hasattr(A(), '__array_interface__')",
        "assert not hasattr(A(), '__float__')",
        "assert A().size == 1",
    ]
    assert [result.status for result in Sandbox().run_tests(program, asked)] == ["pass"] * 3
