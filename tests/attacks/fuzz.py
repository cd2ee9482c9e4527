"""Coverage-guided fuzzing with Atheris (libFuzzer), a target for each thing that reads what others wrote:

    python -m tests.attacks.fuzz TARGET [options of libFuzzer] [a folder for new inputs] tests/attacks/corpus/TARGET
    python -m tests.attacks.fuzz all FOLDER [options of libFuzzer]       in turn; FOLDER/TARGET has what each finds

An input is bytes. A target takes any: it reads them, or refuses them by the error that users get. Everything else is a finding,
which libFuzzer writes to a file; once it is mended, that file belongs into the corpus, which `test_fuzz.py` replays.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

Target = Callable[[bytes], None]
CORPUS = Path(__file__).with_name("corpus")


def targets() -> dict[str, Target]:
    """By name. What they import is loaded here, so that it can be instrumented first."""
    from footfall.answers import canonical, extract
    from footfall.formats import FormatError, read_parquet
    from footfall.formats.parquet import KINDS
    from footfall.formats.parquet_pages import _header
    from footfall.gguf.container import read_container
    from footfall.policy.http_client import AttemptError, Server, Session
    from tests.attacks.test_readers import FORMATS, check, messages
    from tests.attacks.test_server import read_any

    folder = Path(tempfile.mkdtemp(prefix="footfall-fuzz-"))

    def records(data: bytes) -> None:
        """The first byte says by which format the rest is read."""
        check(data[1:], FORMATS[data[0] % len(FORMATS)] if data else "auto")

    def parquet(data: bytes) -> None:
        """Files of version 1 have no checksum that would end the reading at once."""
        (folder / "rows.parquet").write_bytes(data)
        for kind in KINDS:
            try:
                read_parquet(folder / "rows.parquet", kind)
            except FormatError as error:
                messages(error)

    def pages(data: bytes) -> None:
        try:
            assert _header(memoryview(data), 0)[1] > 0
        except (IndexError, ValueError, RecursionError) as error:
            assert type(error) in (IndexError, ValueError, RecursionError)

    def reply(data: bytes) -> None:
        client = Session(Server("http://localhost:1", "sk-key-of-this-server"), set())
        try:
            payload = client._decoded(data)
        except AttemptError as error:
            assert str(error)
            return
        read_any(payload)

    def gguf(data: bytes) -> None:
        path = folder / "model.gguf"
        path.write_bytes(data)
        try:
            read_container(path)
        except ValueError as error:
            assert path.name in messages(error)

    def answers(data: bytes) -> None:
        text = data.decode("utf-8", "surrogateescape")
        for kind in ("math", "choice"):
            found = extract(text, kind)
            assert found is None or (isinstance(found, str) and canonical(found) is not None)

    return {each.__name__: each for each in (records, parquet, pages, reply, gguf, answers)}


def main() -> None:
    """Fuzz one target, or all of them in turn."""
    import atheris

    name, *options = sys.argv[1:]
    with atheris.instrument_imports(include=["footfall"]):
        known = targets()
        from tests.attacks import test_text_rules  # noqa: F401 - what it imports is instrumented too
    if name != "all":
        fuzz(name, known[name], options)
    else:
        fuzz_all(known, Path(options[0]), options[1:])


def fuzz(name: str, target: Target, options: Sequence[str]) -> None:
    """It ends the process."""
    import atheris

    from tests.attacks.test_text_rules import LIMIT, stopped_after

    def tried(data: bytes) -> None:
        # Not libFuzzer's own -timeout: its alarm can end the process before the input that was found is written.
        with stopped_after(LIMIT, f"{name} on {len(data)} bytes"):
            target(data)

    atheris.Setup([sys.argv[0], *options], tried)
    atheris.Fuzz()


def fuzz_all(known: dict[str, Target], folder: Path, options: Sequence[str]) -> None:
    """Each in a process that is forked from this one: modules are instrumented once. FOLDER/TARGET.log has what is said, and
    FOLDER/TARGET.code how it ended."""
    for name, target in known.items():
        (folder / name).mkdir(parents=True)
        pid = os.fork()
        if pid == 0:
            said = os.open(folder / f"{name}.log", os.O_WRONLY | os.O_CREAT)
            for descriptor in (1, 2):
                os.dup2(said, descriptor)
            fuzz(name, target, [*options, f"-artifact_prefix={folder / name}/", str(folder / name), str(CORPUS / name)])
            os._exit(1)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        (folder / f"{name}.code").write_text(str(code), encoding="utf-8")


def seeds(corpus: Path) -> None:
    """The first inputs of each target: sound ones, and those of the attacks."""
    from tests.attacks.test_readers import FORMATS, RECORDS
    from tests.attacks.test_server import ATTACKS, GOOD
    from tests.attacks.text_rules import PIECES

    def keep(target: str, number: int, data: bytes) -> None:
        (corpus / target).mkdir(parents=True, exist_ok=True)
        (corpus / target / f"seed{number}").write_bytes(data)

    for k, record in enumerate(RECORDS):
        keep("records", k, bytes([k % len(FORMATS)]) + json.dumps(record).encode())
    bodies = [attack["body"] for attack, _ in ATTACKS.values() if attack["kind"] == "body"]
    for k, body in enumerate([json.dumps(GOOD), *(body for body in bodies if len(body) < 2000)]):
        keep("reply", k, body.encode())
    for k in range(0, len(PIECES), 12):
        keep("answers", k, "4 ".join(PIECES[k : k + 12]).encode("utf-8", "surrogateescape"))


if __name__ == "__main__":
    main()
