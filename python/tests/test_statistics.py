"""Means, spreads, lines and orders."""

from __future__ import annotations

import math

import pytest

from forebay_lab.statistics import Line, Value, balanced_order, grouped


def test_mean_and_sample_deviation() -> None:
    value = Value.of([1.0, 2.0, 3.0, 4.0])
    assert value.mean == 2.5
    assert value.deviation == pytest.approx(math.sqrt(5 / 3))
    assert value.error == pytest.approx(math.sqrt(5 / 12))
    assert math.isnan(Value.of([1.0]).deviation)
    assert str(Value.of([1.0])) == "1"


def test_ratio_carries_both_errors() -> None:
    ratio = Value.of([2.0, 4.0]).over(Value.of([1.0, 1.0]))
    assert ratio.mean == 3.0
    assert ratio.deviation == pytest.approx(1.0)


def test_rows_are_grouped_by_fields() -> None:
    rows = [
        {"a": "x", "b": 1, "v": 1.0},
        {"a": "x", "b": 1, "v": 3.0},
        {"a": "y", "b": 1, "v": 5.0},
        {"a": "y", "b": 2},
    ]
    means = {key: value.mean for key, value in grouped(rows, ("a", "b"), "v").items()}
    assert means == {("x", 1): 2.0, ("y", 1): 5.0}
    assert grouped([], ("a",), "v") == {}


def test_line_through_points() -> None:
    line = Line.through([(0.0, 1.0, 1.0), (1.0, 3.0, 2.0), (2.0, 5.0, 1.0), (1.0, 9.0, 0.0)])
    assert [line.offset, line.slope] == pytest.approx([1.0, 2.0])
    assert Line.through([(3.0, 2.0, 1.0), (3.0, 4.0, 1.0)]) == Line(3.0, 0.0)


def test_each_item_is_once_at_each_place() -> None:
    items = ["a", "b", "c", "d"]
    orders = [balanced_order(items, repetition, seed=1) for repetition in range(8)]
    for place in range(4):
        assert sorted(order[place] for order in orders[:4]) == items
    assert orders[4] == orders[0][::-1]
    assert balanced_order([], 3, seed=1) == []
