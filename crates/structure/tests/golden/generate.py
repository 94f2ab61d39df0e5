"""Writes the golden files of the crate's tests: `.venv/bin/python crates/structure/tests/golden/generate.py`.

For each file, NAME.expected lists what uproot finds in it: trees, columns, and the ranges of baskets or pages.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import uproot

HERE = Path(__file__).parent
CODECS = {
    "none": None,
    "zlib": uproot.ZLIB(1),
    "lzma": uproot.LZMA(1),
    "lz4": uproot.LZ4(1),
    "zstd": uproot.ZSTD(1),
}
ENTRIES = 40


def values(start: int) -> dict[str, np.ndarray]:
    """Contents of three columns."""
    count = np.arange(start, start + ENTRIES)
    return {"x": count * 0.5, "run": count.astype(np.int32), "flag": count % 2 == 0}


def main() -> None:
    """Writes all files."""
    for name, codec in CODECS.items():
        with uproot.recreate(HERE / f"tree-{name}.root", compression=codec) as file:
            tree = file.mktree("dir/Events", {key: value.dtype for key, value in values(0).items()})
            for batch in range(3):
                tree.extend(values(batch * ENTRIES))
        lines = []
        with uproot.open(HERE / f"tree-{name}.root") as file:
            for key, branch in file["dir/Events"].items():
                for i in range(branch.num_baskets):
                    offset, length = branch.member("fBasketSeek")[i], branch.member("fBasketBytes")[i]
                    lines.append(f"{offset} {length} {key} {i}")
        (HERE / f"tree-{name}.expected").write_text("\n".join(lines) + "\n")
    with uproot.recreate(HERE / "ntuple.root", compression=uproot.ZSTD(1)) as file:
        ntuple = file.mkrntuple("Events", values(0))
        for batch in range(1, 3):
            ntuple.extend(values(batch * ENTRIES))
    lines = []
    with uproot.open(HERE / "ntuple.root") as file:
        ntuple = file["Events"]
        names = [field.field_name for field in ntuple.field_records]
        for cluster, columns in enumerate(ntuple.page_link_list):
            for record, column in zip(ntuple.column_records, columns, strict=True):
                for page in column.pages:
                    length = page.locator.num_bytes + (8 if page.has_checksum else 0)
                    lines.append(f"{page.locator.offset} {length} {names[record.field_id]}#0 {cluster}")
    (HERE / "ntuple.expected").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
