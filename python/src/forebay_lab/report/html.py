"""A report as one self-contained HTML file, with styles and pictures."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from html import escape

from .claims import FAILS, HOLDS
from .document import Block, Heading, Items, PageBreak, Picture, Table, Text

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1a1a1a; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1, h2, h3 { line-height: 1.2; margin-top: 2rem; }
table { border-collapse: collapse; margin: 1rem 0; font-size: 0.9em; display: block; overflow-x: auto; }
th, td { border: 1px solid #ccc; padding: 0.25rem 0.6rem; text-align: left; }
.figure { text-align: right; }
thead { background: #eef2f6; }
table.dense { font-size: 0.8em; }
table.published { color: #5a4a00; }
table.published thead { background: #fbf3d0; }
table.published caption { text-align: left; font-weight: bold; }
figure { margin: 1rem 0; } figure img { max-width: 100%; } figcaption { color: #555; font-size: 0.9em; }
td.holds { background: #d8efe0; } td.fails { background: #f6d5d1; }
hr { border: 0; border-top: 1px solid #ccc; margin: 3rem 0; break-after: page; }
"""
VERDICT_CLASSES = {HOLDS: "holds", FAILS: "fails"}
PUBLISHED = "Published, on other hardware"


def render(title: str, blocks: Iterable[Block]) -> str:
    """The file's text."""
    body = "\n".join(_block(block) for block in blocks)
    head = f'<meta charset="utf-8"><title>{escape(title)}</title><style>{STYLE}</style>'
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head>\n<body>\n{body}\n</body></html>\n'


def _block(block: Block) -> str:
    match block:
        case Heading(level, text):
            return f"<h{min(level, 6)}>{escape(text)}</h{min(level, 6)}>"
        case Text(text):
            return f"<p>{escape(text)}</p>"
        case Items(texts):
            return "<ul>" + "".join(f"<li>{escape(text)}</li>" for text in texts) + "</ul>"
        case Table():
            return _table(block)
        case Picture(file, caption, share):
            data = base64.b64encode(file.read_bytes()).decode()
            image = f'<img alt="{escape(caption)}" src="data:image/png;base64,{data}" style="width: {share:.0%}">'
            return f"<figure>{image}<figcaption>{escape(caption)}</figcaption></figure>"
        case PageBreak():
            return "<hr>"


def _table(table: Table) -> str:
    looks = ["figure" if table.is_number(column) else "" for column in range(len(table.header))]
    lines = [_line("th", table.header, looks), *(_line("td", row, looks) for row in table.rows)]
    kinds = " ".join(kind for kind in ("published", "dense") if getattr(table, kind))
    mark = f' class="{kinds}"' if kinds else ""
    caption = f"<caption>{PUBLISHED}</caption>" if table.published else ""
    rows = "\n".join(lines[1:])
    return f"<table{mark}>{caption}<thead>{lines[0]}</thead>\n<tbody>\n{rows}\n</tbody></table>"


def _line(tag: str, cells: Sequence[str], looks: Sequence[str]) -> str:
    inner = "".join(_cell(tag, cell, look) for cell, look in zip(cells, looks, strict=True))
    return f"<tr>{inner}</tr>"


def _cell(tag: str, cell: str, look: str) -> str:
    kind = VERDICT_CLASSES.get(cell, look)
    mark = f' class="{kind}"' if kind else ""
    return f"<{tag}{mark}>{escape(cell)}</{tag}>"
