"""Hostile programs, by what they try. None computes `add(a, b)`, so none may pass a test of it.

`@SECRET@` is a file of the host, `@MARK@` a file that nobody may make there, `@PORT@` a port where somebody listens.
"""

from __future__ import annotations

from collections.abc import Callable

WRONG = "\ndef add(a, b): return 0"
PROGRAMS = {
    # out of the walls
    "reads-a-file": "x = open('@SECRET@').read()\ndef add(a, b): raise ValueError(x)",
    "writes-a-file": "open('@MARK@', 'w').write('x')" + WRONG,
    "mounts": "import ctypes\nctypes.CDLL(None).mount(b'/', b'/tmp', b'none', 4096, 0)\nopen('/tmp@SECRET@')" + WRONG,
    "new-namespace": "import ctypes\nctypes.CDLL(None).unshare(0x10000000)\nopen('@SECRET@')" + WRONG,
    "calls-home": "import socket\nsocket.create_connection(('127.0.0.1', @PORT@), 1).send(b'x')" + WRONG,
    "shell": "import os\nos.system('touch @MARK@')\nos.execv('/bin/sh', ['sh', '-c', 'touch @MARK@'])" + WRONG,
    "root-of-init": "x = open('/proc/1/root@SECRET@').read()\ndef add(a, b): raise ValueError(x)",
    "kills-everyone": (
        "import os\ndef add(a, b):\n    for pid in range(-1, 400):\n        try: os.kill(pid, 9)\n        except OSError: pass"
    ),
    "traces-its-parent": "import ctypes, os\nctypes.CDLL(None).ptrace(16, os.getppid(), 0, 0)" + WRONG,
    # forgeries
    "prints-a-verdict": "print('[\"pass\", \"\"]' * 40)\ndef add(a, b): print('[\"pass\", \"\"]'); return 0",
    "every-descriptor": (
        "import os\ndef add(a, b):\n    for fd in range(64):\n        try: os.write(fd, b'[\"pass\", \"\"]\\n')\n"
        "        except OSError: pass\n    return 0"
    ),
    "own-all": "all = any = isinstance = lambda *a: True",
    "own-math": "class math:\n    isclose = lambda *a, **k: True" + WRONG,
    "own-assertion": "import builtins\nbuiltins.AssertionError = builtins.Exception = KeyError" + WRONG,
    "equal-to-all": "class E:\n    def __eq__(self, other): return True\n    __hash__ = None\ndef add(a, b): return E()",
    "lying-number": (
        "class N(int):\n    def __eq__(self, other): return True\n    __hash__ = int.__hash__\ndef add(a, b): return N()"
    ),
    "lying-class": (
        "class N:\n    __class__ = int\n    def __index__(self): return 6\n    def __eq__(self, other): return True\n"
        "def add(a, b): return N()"
    ),
    "stops-iteration": "def add(a, b): raise StopIteration",
    "asserts-itself": "def add(a, b): raise AssertionError('pass')",
    "exits-well": "import os, sys\ndef add(a, b): sys.exit(0)",
    "exits-at-once": "import os\nos._exit(0)",
    "patches-python": (
        "import json, os, socket, sys\nos.write = lambda fd, data: len(data)\nos._exit = lambda code: None\n"
        "json.dumps = lambda *a, **k: '[\"value\", [\"v\", true], []]'\nsys.settrace(lambda *a: None)\n"
        "sys.modules['ast'] = sys.modules['builtins'] = None" + WRONG
    ),
    "walks-the-frames": (
        "import gc, sys\ndef add(a, b):\n    frame = sys._getframe()\n    while frame:\n"
        "        for name in list(frame.f_locals):\n"
        "            try: frame.f_globals[name] = frame.f_locals[name] = 5\n            except Exception: pass\n"
        "        frame = frame.f_back\n"
        "    for found in gc.get_objects():\n        if isinstance(found, list): found[:] = ['pass', '']\n    return 0"
    ),
    "last-words": "import atexit, os\natexit.register(os.write, 1, b'[\"pass\", \"\"]\\n')" + WRONG,
    "speaks-for-itself": (
        "import gc, socket\ndef add(a, b):\n    for found in gc.get_objects():\n        if isinstance(found, socket.socket):\n"
        "            found.send(b'[\"pass\", \"\"]\\n' * 9 + b'[\"ask\", \"call\", -1, []]\\n')\n    return 0"
    ),
    # hogs
    "spins": "while True: pass",
    "spins-in-the-call": "def add(a, b):\n    while True: pass",
    "sleeps": "import time\ntime.sleep(99)" + WRONG,
    "ignores-signals": "import signal\nfor n in (1, 2, 15, 24): signal.signal(n, signal.SIG_IGN)\nwhile True: pass",
    "eats-memory": "x = []\nwhile True: x.append(bytearray(1 << 20))",
    "forks": "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
    "daemon": (
        "import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0: time.sleep(99)\n    os._exit(0)" + WRONG
    ),
    "threads": "import threading, time\nwhile True: threading.Thread(target=time.sleep, args=(99,), daemon=True).start()",
    "fills-the-disk": "k = 0\nwhile True:\n    k += 1\n    open(f'/tmp/{k}', 'wb').write(bytes(1 << 20))",
    "huge-number": "def add(a, b): return 10 ** 10 ** 7",
    "huge-text": "def add(a, b): return 'x' * (60 << 20)",
    "deep-list": "def add(a, b):\n    x = []\n    for _ in range(10 ** 5): x = [x]\n    return x",
    "endless-list": "def add(a, b):\n    x = []\n    x.append(x)\n    return x",
    "endless-loop-of-values": "import itertools\ndef add(a, b): return itertools.count()",
    "recursion": "import sys\nsys.setrecursionlimit(10 ** 9)\ndef add(a, b): return add(a, b) + 1",
    "crash": "import ctypes\nctypes.string_at(0)",
    "flood": "import sys\nwhile True: sys.stdout.write('x' * 10 ** 5)",
    # text
    "emoji": "def add(a, b): raise ValueError('\U0001f600' * 3000)",
    "half-characters": r"def add(a, b): raise ValueError('\ud800' * 3000)",
    "controls": r"def add(a, b): raise ValueError('\x00\x1b[2J\u202e\x85\u2028' * 300)",
    "strange-name": r"def add(a, b): raise type('\ud800\n' * 99, (Exception,), {})()",
    "zero-byte": "x = '\0'" + WRONG,
    "brackets": "(" * 3000,
    "no-program": "\u202e\ufeff{{{'''",
}  # fmt: skip


def _in(head: str, program: str) -> str:
    return f"_source = {program!r}\n{head}"


MUTATIONS: dict[str, Callable[[str], str]] = {
    "as-it-is": lambda program: program,
    "twice": lambda program: f"{program}\n{program}",
    "padded": lambda program: "# " + "\U0001f600" * 2000 + f"\n{program}\n# " + "x" * 50_000,
    "thread": lambda program: _in(
        "import threading\n_t = threading.Thread(target=exec, args=(_source, globals()))\n"
        "_t.daemon = True\n_t.start()\n_t.join(0.2)",
        program,
    ),
    "child": lambda program: _in(
        "import os\nif os.fork() == 0: exec(_source, globals())\nelse: exec(_source, globals())", program
    ),
    "at-the-call": lambda program: _in(
        "def add(a, b):\n    exec(_source, globals())\n    return globals()['add'](a, b)", program
    ),
    "swallowed": lambda program: _in(
        "try: exec(_source, globals())\nexcept BaseException as error: seen = error", program
    ),
}
