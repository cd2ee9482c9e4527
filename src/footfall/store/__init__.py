"""Runs: every long job is a directory that can be killed at any moment and started again.

    config.json   the command, its configuration, seed and versions
    STAGE/00007-KEY.parquet   finished chunks, written atomically, named by the content they were made from
    log.jsonl     what happened when, with seconds and cost; the only place for times, so shards stay equal to the bit
    result.json   what the command reports, written last

Work is cut into fixed chunks. A chunk whose shard exists is read, not redone; one that does not is done whole. So a run
that was killed twenty times gives the same bytes as one that was not, and repeats nothing that was finished. While a run is
thrown away (`--fresh`) its folder has the file `.removing`: a start that finds it throws the rest away first.

Chunks are done in this process, one after another, or by `Workers` elsewhere (`footfall.scale`), many at a time. Either way a
`Task` does them, and this process alone writes: workers send back the bytes of shards.
"""

from footfall.store.chunks import Chunk, Done, Task, Workers
from footfall.store.folder import (
    OWN_FILES,
    REMOVING,
    SCRATCH,
    RunError,
    empty_inner,
    is_half_removed,
    is_shard,
    keep_json,
    kept_json,
    log_events,
    removing,
    write_json,
)
from footfall.store.run import Place, Run

__all__ = [
    "OWN_FILES", "REMOVING", "SCRATCH", "Chunk", "Done", "Place", "Run", "RunError", "Task", "Workers", "empty_inner",
    "is_half_removed", "is_shard", "keep_json", "kept_json", "log_events", "removing", "write_json",
]  # fmt: skip
