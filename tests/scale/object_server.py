"""An S3 server on loopback, moto's, as a process that prints its port: `python object_server.py 3` spoils every third call."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from itertools import count
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server


def main() -> None:
    every = int(sys.argv[1])
    whole = DomainDispatcherApplication(create_backend_app)
    calls = count(1)

    def spoiling(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        if every and next(calls) % every == 0:
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            start("503 Slow Down", [("Content-Length", "0")])
            return [b""]
        answer: Iterable[bytes] = whole(environ, start)
        return answer

    server = make_server("127.0.0.1", 0, spoiling, threaded=True)
    sys.stdout.write(f"{server.port}\n")
    sys.stdout.flush()
    server.serve_forever()


if __name__ == "__main__":
    main()
