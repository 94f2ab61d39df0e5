"""Rows on disk: each is kept, once."""

from __future__ import annotations

from pathlib import Path

import pytest

from forebay_lab.errors import LabError
from forebay_lab.run import Run, read_rows


def test_rows_are_there_after_a_break(tmp_path: Path) -> None:
    first = Run(tmp_path, "loop", ("setup", "repetition"), {"events": 1})
    first.add({"setup": "local", "repetition": 0, "wall_s": 1.5})
    again = Run(tmp_path, "loop", ("setup", "repetition"), {"events": 1})
    assert again.has(setup="local", repetition=0)
    assert not again.has(setup="local", repetition=1)
    assert again.rows[0]["wall_s"] == 1.5


def test_half_a_row_is_dropped(tmp_path: Path) -> None:
    file = tmp_path / "loop.jsonl"
    file.write_text('{"setup": "local"}\n{"setup": "di')
    assert list(read_rows(file)) == [{"setup": "local"}]
    assert file.read_text() == '{"setup": "local"}\n'


def test_other_parameters_need_another_run(tmp_path: Path) -> None:
    Run(tmp_path, "loop", ("setup",), {"events": 1})
    with pytest.raises(LabError, match="use another --name"):
        Run(tmp_path, "loop", ("setup",), {"events": 2})
