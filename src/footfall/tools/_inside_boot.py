"""The first code that runs behind the walls: read the job, give up rights, set the limits, then start the job.

This file is sent as text to a bare Python (`python -S -c TEXT PAYLOAD_FD READY_FD`) and may import the standard library
only. Limits are set here and not before bubblewrap starts: NPROC is then counted inside the new namespace alone.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any


def main(payload_fd: int, ready_fd: int) -> None:
    with os.fdopen(payload_fd, encoding="utf-8") as file:
        payload: dict[str, Any] = json.load(file)
    sys.path[1:1] = payload.pop("paths")
    _become(payload.pop("uid"))
    _limit(payload.pop("rlimits"))
    _write(payload.pop("files"))
    scope: dict[str, Any] = {"__name__": "footfall_job"}
    exec(compile(payload.pop("job"), "<job>", "exec"), scope)
    os.write(ready_fd, b"\n")
    os.close(ready_fd)
    scope["main"](payload)


def _become(uid: int | None) -> None:
    """Root turns into a user that owns nothing; its capabilities are gone with that."""
    if uid is not None:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)


def _limit(rlimits: dict[str, list[int]]) -> None:
    import resource

    for name, (soft, hard) in rlimits.items():
        which = getattr(resource, name, None)
        if which is None:
            continue
        _, most = resource.getrlimit(which)
        if most != resource.RLIM_INFINITY:
            soft, hard = min(soft, most), min(hard, most)
        resource.setrlimit(which, (soft, hard))


def _write(files: dict[str, str]) -> None:
    for name, text in files.items():
        os.makedirs(os.path.dirname(name) or ".", exist_ok=True)  # noqa: PTH103, PTH120  (pathlib is slow to import)
        with open(name, "w", encoding="utf-8", errors="surrogatepass") as file:  # noqa: PTH123
            file.write(text)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
