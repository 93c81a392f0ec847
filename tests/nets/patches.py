"""Faults in the scripts: planted in their texts as they are read, and run by the server."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from unittest.mock import patch

from digestif.stores.redis.client import scripts

_read_once = cache(scripts._read)


@dataclass(frozen=True, kw_only=True)
class ScriptFault:
    """A change of one text in one file, which must occur there exactly once."""

    says: str  # what goes wrong
    file: str  # below lua/
    old: str
    new: str
    found_by: tuple[str, ...]  # sentences, of the conformance suite or of tests/stores/redis, each with its parameters
    model: bool = False  # the Hypothesis state machine finds it, too …
    vectors: bool = False  # … and the arithmetic

    def plant(self, text: str) -> str:
        times = text.count(self.old)
        if times != 1:
            raise RuntimeError(f"{self.file} has this {times} times; the code moved, let the fault follow:\n{self.old}")
        return text.replace(self.old, self.new)


@contextmanager
def planted(fault: ScriptFault) -> Iterator[None]:
    """Let stores of this process run scripts with the fault."""

    def read_planted(path: str) -> str:
        return fault.plant(_read_once(path)) if path == fault.file else _read_once(path)

    with patch.object(scripts, "_read", read_planted):
        scripts.load.cache_clear()
        try:
            yield
        finally:
            scripts.load.cache_clear()
