"""Process data in and out: the field's formats as JSON lines, and Parquet for what runs write.

    rows = formats.read("traces.jsonl")                      # the format is known by its first record
    formats.write("shepherd.jsonl", rows, "math-shepherd", threshold=0.5)

Every error is a `FormatError` that names file, line and field. Importing this loads neither torch nor pyarrow.
"""

from footfall.formats.atomic import atomic_write
from footfall.formats.files import (
    DOCUMENT_LIMIT,
    LINE_LIMIT,
    BadRecords,
    Source,
    iter_fields,
    parse_json,
    refuse_lfs_pointer,
)
from footfall.formats.jsonl import unread_steps
from footfall.formats.math_aps import tree_rows
from footfall.formats.parquet import (
    DamagedError,
    is_foreign,
    iter_parquet,
    parquet_bytes,
    parquet_kind,
    read_ids,
    read_parquet,
    set_aside,
    write_parquet,
)
from footfall.formats.reading import (
    format_named,
    iter_problems,
    iter_read,
    iter_records,
    read,
    read_problems,
    read_record,
    read_trees,
)
from footfall.formats.records import Fields, FormatError
from footfall.formats.renaming import check_names, renamed
from footfall.formats.rows import Format, Written, problem_id, trajectory_id, unwritable
from footfall.formats.solutions import Solutions, split_solution
from footfall.formats.spool import Mapped, Spool, spooled
from footfall.formats.writing import records, write, write_trees

__all__ = [
    "DOCUMENT_LIMIT", "LINE_LIMIT", "BadRecords", "DamagedError", "Fields", "Format", "FormatError", "Mapped", "Solutions",
    "Source", "Spool", "Written", "atomic_write", "check_names", "format_named", "is_foreign", "iter_fields",
    "iter_parquet", "iter_problems", "iter_read", "iter_records", "parquet_bytes", "parquet_kind", "parse_json",
    "problem_id", "read", "read_ids", "read_parquet", "read_problems", "read_record", "read_trees", "records",
    "refuse_lfs_pointer", "renamed", "set_aside", "split_solution", "spooled", "trajectory_id", "tree_rows", "unread_steps",
    "unwritable", "write", "write_parquet", "write_trees",
]  # fmt: skip
