"""The benchmark of growing, with small numbers, and its page."""

import json
from contextlib import closing
from copy import deepcopy
from typing import Any

import pytest

from bench._scaling import OPERATIONS, QUICK, Scale
from bench._scaling_page import FLAT, PAGE, PICTURE, STORED, draw, growth, write
from bench._scaling_subjects import Filled
from bench.scaling import STORES, scaling
from tests.bench.program import Program
from tests.bench.program import program as program  # a fixture

pytestmark = pytest.mark.long

SMALL = Scale(records=(10, 50), timelines=(20, 40), workers=(1, 2), partitions=(1, 4), blocks=1, calls=5)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.scaling.QUICK", SMALL)
    monkeypatch.setattr("bench._scaling.SHARED", 30)
    monkeypatch.setattr("bench._scaling.TIMELINES", 30)
    monkeypatch.setattr("bench._scaling.DELIVERED", 100)


@pytest.fixture(scope="module")
def run() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(STORED.read_text())
    return found


@pytest.mark.parametrize("store", STORES)
def test_every_operation_has_a_cost_at_every_size(store: str, program: Program) -> None:
    found = program.figures(scaling, "--quick", "--store", store)["stores"]

    grown = ["records", "timelines", "workers"] + ["partitions"] * (store == "Valkey")
    assert list(found) == [store]
    assert list(found[store]) == grown
    for what, curves in found[store].items():
        assert list(curves) == list(OPERATIONS)
        for curve in curves.values():
            assert [int(size) for size in curve] == list(getattr(SMALL, what))
            assert all(cost > 0 for cost in curve.values())


def test_a_delivery_counts_digests() -> None:
    with closing(Filled("memory://", "n", timelines=250, records=2, calls=1)) as filled:
        filled.fill()

        assert filled.deliver()["count"] == 250


def test_the_page_is_made_from_the_stored_figures(run: dict[str, Any]) -> None:
    """If not: ./dev bench scaling --page."""
    assert PAGE.read_text("utf-8") == write(run)
    assert PICTURE.read_text("utf-8") == draw(run)


def test_the_stored_run_reaches_further_than_a_quick_one(run: dict[str, Any]) -> None:
    assert max(run["scale"]["records"]) == 100_000 > max(QUICK.records)
    assert max(run["scale"]["timelines"]) == 1_000_000
    assert max(run["scale"]["workers"]) == 4
    assert max(run["scale"]["partitions"]) == 64


def test_what_grows_is_named_and_what_is_flat_is_not(run: dict[str, Any]) -> None:
    grown = deepcopy(run)
    points = grown["stores"]["SQLite"]["records"]["add"]
    points.update(dict.fromkeys(points, 10.0))
    named = "**SQLite, add, records in a timeline**"

    assert named not in write(grown)
    points["100000"] = 10 * FLAT + 1
    assert growth(points) > FLAT
    assert f"{named}, 1.6 ×" in write(grown)


def test_a_part_of_a_run_is_not_stored(program: Program) -> None:
    assert "a whole run" in program(scaling, "--write", "--quick", status=2)
    assert "a whole run" in program(scaling, "--write", "--store", "sqlite", status=2)
