"""Parts in Python files of a user's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from footfall.part_files import part_in_file


def test_a_file_that_ends_the_program_is_an_error_and_no_command_that_went_well(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("import sys\n\nclass Mine:\n    name = 'mine'\n\nsys.exit(0)\n")
    with pytest.raises(ValueError, match=r"mine.py calls sys.exit when it is loaded; .* if __name__ == '__main__':"):
        part_in_file(str(file), "Mine")
    file.write_text(file.read_text().replace("sys.exit", "if __name__ == '__main__':\n    sys.exit"))
    assert part_in_file(str(file), "Mine").factory().name == "mine"
