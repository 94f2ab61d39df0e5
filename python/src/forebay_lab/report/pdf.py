"""A report as PDF."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import matplotlib as mpl
from fpdf import FPDF, FontFace
from fpdf.enums import XPos, YPos
from PIL import Image

from .claims import FAILS, HOLDS
from .document import Block, Heading, Items, PageBreak, Picture, Table, Text
from .html import PUBLISHED

FONT = "DejaVu"
"""Matplotlib brings it along; it has every sign that reports use."""
STYLES = {"": "DejaVuSans.ttf", "B": "DejaVuSans-Bold.ttf"}
TEXT_POINTS = 9.0
HEADING_POINTS = {1: 18.0, 2: 14.0, 3: 11.0}
TABLE_POINTS = {6: 8.0, 9: 6.5}
"""Columns up to which a table has letters of a size; wider ones get the smallest."""
TABLE_POINTS_MIN = 5.5
TABLE_POINTS_DENSE = 6.5
LINE_MM_DENSE = 2.9
LINE_MM = 4.5
PICTURE_MM = 165.0
COLOURS = {HOLDS: (216, 239, 224), FAILS: (246, 213, 209)}
"""Backgrounds of verdicts."""


def render(title: str, blocks: Iterable[Block], to: Path) -> None:
    """Writes the file."""
    page = FPDF(format="A4")
    page.set_title(title)
    page.set_auto_page_break(auto=True, margin=15)
    for style, name in STYLES.items():
        page.add_font(FONT, style, Path(mpl.get_data_path()) / "fonts" / "ttf" / name)
    page.add_page()
    for block in blocks:
        _block(page, block)
    page.output(str(to))


def _block(page: FPDF, block: Block) -> None:
    match block:
        case Heading(level, text):
            page.ln(LINE_MM)
            _words(page, text, style="B", points=HEADING_POINTS.get(level, TEXT_POINTS))
        case Text(text):
            _words(page, text)
        case Items(texts):
            for text in texts:
                _words(page, f"• {text}")
        case Table():
            _table(page, block)
        case Picture():
            _picture(page, block)
        case PageBreak():
            page.add_page()


def _words(page: FPDF, text: str, *, style: str = "", points: float = TEXT_POINTS) -> None:
    page.set_font(FONT, style, points)
    page.multi_cell(0, points / 2, text, new_x=XPos.LMARGIN, new_y=YPos.NEXT, align="L")
    page.ln(1.5)


def _table(page: FPDF, table: Table) -> None:
    if table.published:
        _words(page, PUBLISHED, style="B")
    sizes = [points for columns, points in TABLE_POINTS.items() if len(table.header) <= columns]
    normal = sizes[0] if sizes else TABLE_POINTS_MIN
    page.set_font(FONT, "", min(normal, TABLE_POINTS_DENSE) if table.dense else normal)
    line_mm = LINE_MM_DENSE if table.dense else LINE_MM - 0.5
    longest = [max(len(row[column]) for row in (table.header, *table.rows)) for column in range(len(table.header))]
    widths = tuple(min(max(length, 6), 60) for length in longest)
    header = FontFace(emphasis="BOLD", fill_color=(251, 243, 208) if table.published else (238, 242, 246))
    alignment = tuple("RIGHT" if table.is_number(column) else "LEFT" for column in range(len(table.header)))
    with page.table(headings_style=header, col_widths=widths, text_align=alignment, line_height=line_mm) as drawn:
        for cells in (table.header, *table.rows):
            row = drawn.row()
            for cell in cells:
                row.cell(cell, style=FontFace(fill_color=COLOURS[cell]) if cell in COLOURS else None)
    page.ln(1.5 if table.dense else 2)


def _picture(page: FPDF, picture: Picture) -> None:
    width_mm = PICTURE_MM * picture.share
    with Image.open(picture.file) as image:
        height_mm = width_mm * image.height / image.width
    room_mm = page.eph - 3 * LINE_MM
    if height_mm > room_mm:
        width_mm, height_mm = width_mm * room_mm / height_mm, room_mm
    if page.will_page_break(height_mm + 2 * LINE_MM):
        page.add_page()
    page.image(str(picture.file), w=width_mm)
    _words(page, picture.caption, points=7.5)
