"""A Google Cloud Storage server on loopback, gcp-storage-emulator's, as a process that prints its port.

The emulator puts an object over another one also where it was told to put it only if there is none (ifGenerationMatch=0); here
that is refused with 412, as Google's servers do.
"""

from __future__ import annotations

import sys
import threading
from http import HTTPStatus
from typing import Any

from gcp_storage_emulator.handlers import objects
from gcp_storage_emulator.server import create_server


def main() -> None:
    put = objects._multipart_upload

    def on_condition(request: Any, response: Any, storage: Any) -> None:
        there = storage.objects.get(request.params["bucket_name"], {})
        if request.query.get("ifGenerationMatch") == ["0"] and request.data["meta"]["name"] in there:
            response.status = HTTPStatus.PRECONDITION_FAILED
        else:
            put(request, response, storage)

    objects._multipart_upload = on_condition
    server = create_server("127.0.0.1", 0, in_memory=True, default_bucket="bucket")
    server.start()
    sys.stdout.write(f"{server._api._httpd.server_port}\n")
    sys.stdout.flush()
    threading.Event().wait()


if __name__ == "__main__":
    main()
