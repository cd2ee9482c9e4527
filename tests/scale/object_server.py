"""An S3 server on loopback, moto's, as a process: `python object_server.py PORT EVERY`; EVERY=3 spoils every third call."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from itertools import count
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple


def main() -> None:
    port, every = int(sys.argv[1]), int(sys.argv[2])
    whole = DomainDispatcherApplication(create_backend_app)
    calls = count(1)

    def spoiling(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        if every and next(calls) % every == 0:
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            start("503 Slow Down", [("Content-Length", "0")])
            return [b""]
        answer: Iterable[bytes] = whole(environ, start)
        return answer

    run_simple("127.0.0.1", port, spoiling, threaded=True)


if __name__ == "__main__":
    main()
