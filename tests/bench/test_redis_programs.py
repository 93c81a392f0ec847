"""The programs that measure the Redis store, with small numbers, run as people run them."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.servers import needed_server

ROOT = Path(__file__).parents[2]


def run(*arguments: str) -> str:
    """What a program of bench/ says."""
    needed_server()
    command = [sys.executable, "-m", *arguments]
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout


def figures(*arguments: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(run(*arguments, "--json"))
    return answer


def test_the_bench_of_the_redis_store_gives_its_figures_for_each_product_that_is_here() -> None:
    found = figures("bench.redis", "--quick", "--only", "adds")

    products = found.keys() & {"redis", "valkey"}
    assert products
    for product in products:
        assert found[product]["surroundings"]["server"].startswith(product)
        assert found[product]["adds"]["add, ready"]["per_second"] > 0
        assert found[product]["adds"]["add_many of 500"]["ratio"] > 0
        assert found[product]["asked"]["add, ready"]["words"].startswith(("met: ", "missed: "))


def test_other_sections_are_tables_of_80_columns_with_verdicts_in_words() -> None:
    product = "redis" if "redis" in needed_server().name else "valkey"

    told = run("bench.redis", "--quick", "--server", product, *only("delivery", "memory", "growth"))

    assert "claim, take, close, 64 partitions" in told
    assert "40 in each timeline" in told
    assert "10,000, at capacity" in told
    assert re.search("(met|missed): memory of a record .* bytes, asked ≤ 450 bytes", told)
    assert max(map(len, told.splitlines())) <= 80


def only(*sections: str) -> list[str]:
    return [word for section in sections for word in ("--only", section)]
