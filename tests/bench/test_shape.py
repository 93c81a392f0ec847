"""The shape of a tree: what a mail runs through, and what the source says of classes, private members and lines."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent
from types import FrameType
from typing import Any

from bench._shape_calls import PACKAGE, Descent, Window
from bench._shape_source import Source
from bench.shape import AIMS, HERE, report_of, run, shape
from digestif import Delivered
from tests.bench.program import Program
from tests.bench.program import program as program  # a fixture

DELIVERED = Delivered(timeline="t", digest_id="d", attempt=1, records=1, dropped=0, late=0.0, took=0.0)
ADD_ALL = "def add_all(): pass"
STORE = """
class Store:
    def claim(self): pass
    def complete(self): pass
"""


def test_a_tree_is_measured_twice_with_the_same_result(program: Program) -> None:
    found = program.figures(shape)

    assert set(found["asked"]) == set(AIMS)
    tree, again = found["here"], run(HERE)
    assert differences({part: tree[part] for part in again}, again) == {}
    functions = tree["functions"]
    assert 50 < len(functions) < 2_000
    assert (
        functions["stores/rows/store.py: RowStore.claim"] == functions["stores/rows/store.py: RowStore.complete"] == 1
    )
    assert not [name for name in functions if "<" in name.replace("<locals>", "")]
    assert not {"digests.py: Digests.__init__", "worker/worker.py: Worker.__init__"} & set(functions)
    assert len(functions) < sum(tree["code"].values()) < sum(tree["run_once"].values())
    assert 0 < len(tree["frames"]) < 100
    assert [len(one["fields"]) > 1 for one in tree["classes"]] == [True] * 3
    assert 0 < tree["source"]["small"] < tree["source"]["files"] < tree["source"]["lines"]


def test_two_trees_have_a_column_each_and_the_aims_of_the_first() -> None:
    source = {"lines": 3, "files": 1, "small": 1, "rooms": {"": {"lines": 3, "files": 1}}}
    counts = {"classes": [], "private_uses": ["use"], "code": {}, "run_once": {}, "source": source}
    here = {**counts, "functions": {"worker/a.py: a": 1}, "frames": ["one"] * 10}
    there = {**counts, "functions": {"attempts/a.py: a": 1, "attempts/b.py: b": 1}, "frames": ["one"] * 11}

    report, targets = report_of({"here": here, "there": there})

    rows = {name: cells for name, *cells in report.rows}
    assert report.columns == ("here", "there", "bound")
    assert rows["functions for one mail"] == ["1", "2", ""]
    assert rows["functions: worker/"] == ["1", "", ""]
    assert rows["functions: attempts/"] == ["", "2", ""]
    assert rows["frames from add to its work"] == ["10", "11", "[green]✓[/] ≤ 10"]
    assert {target.what for target in targets if not target.met} == {"private members used outside"}


def test_a_folder_that_is_no_checkout_is_refused(program: Program, tmp_path: Path) -> None:
    assert "has no src/digestif" in program(shape, "--against", str(tmp_path), status=2)


def test_functions_count_from_the_claim_to_the_end_and_lambdas_as_parts_of_them() -> None:
    window = Window()
    attempts = planted(
        "attempts/planted.py",
        """
        def early(): pass
        def helper(): return [(lambda: 1)() for _ in range(3)]
        def claim(store): helper(); helper(); store.claim()
        def end(store, events): store.complete(); told(events)
        def told(events): events()
        def late(): pass
        """,
    )
    store = planted("stores/planted.py", STORE)["Store"]()

    with profiled(window.look):
        attempts["early"]()
        attempts["claim"](store)
        attempts["end"](store, lambda: window.listen(DELIVERED))
        attempts["late"]()

    assert window.figures()["functions"] == {
        "attempts/planted.py: claim": 1,
        "attempts/planted.py: helper": 2,
        "stores/planted.py: Store.claim": 1,
        "attempts/planted.py: end": 1,
        "stores/planted.py: Store.complete": 1,
        "attempts/planted.py: told": 1,
    }


def test_a_coroutine_that_goes_on_is_not_called_again() -> None:
    window = Window()
    names = planted(
        "attempts/planted.py",
        """
        def claim(store): store.claim()
        def steps(): yield 1; yield 2
        """,
    )
    store = planted("stores/planted.py", STORE)["Store"]()

    with profiled(window.look):
        begun = names["steps"]()
        next(begun)
        names["claim"](store)
        list(begun)
        list(names["steps"]())
        store.complete()
        window.listen(DELIVERED)

    assert window.figures()["functions"]["attempts/planted.py: steps"] == 1


def test_frames_between_an_add_and_its_unit_of_work_are_counted() -> None:
    descent, unit = Descent(), planted("stores/rows/arrivals.py", ADD_ALL)["add_all"]
    store = planted(
        "stores/rows/store.py",
        """
        class RowStore:
            def add(self, unit): return self.write(unit)
            def write(self, unit): return (lambda: unit())()
        """,
    )["RowStore"]()

    with profiled(descent.look):
        store.add(unit)

    path = "stores/rows/store.py: RowStore.write"
    assert descent.frames == [path, f"{path}.<locals>.<lambda>"]


def test_frames_of_a_thread_that_runs_the_unit_count_with_those_of_the_one_that_waits() -> None:
    descent, unit = Descent(), planted("stores/rows/arrivals.py", ADD_ALL)["add_all"]
    store = planted(
        "stores/rows/store.py",
        """
        from threading import Lock, Thread
        class RowStore:
            def add(self, unit): return self.wait(unit)
            def wait(self, unit):
                ended = Lock()
                ended.acquire()
                Thread(target=work, args=(unit, ended)).start()
                ended.acquire()
        def work(unit, ended):
            unit()
            ended.release()
        """,
    )["RowStore"]()

    with profiled(descent.look):
        store.add(unit)

    assert descent.frames == ["stores/rows/store.py: RowStore.wait", "stores/rows/store.py: work"]


def test_fields_are_slots_annotations_of_records_and_what_init_sets(tmp_path: Path) -> None:
    slots = ", ".join(f'"field_{number}"' for number in range(20))
    write(tmp_path, "worker/slots.py", f'class Slots:\n    __slots__ = ("__weakref__", {slots})')
    write(
        tmp_path,
        "attempts/records.py",
        """
        @dataclass(frozen=True)
        class Base:
            one: int
            two: int
            three: int
            kind: ClassVar[str] = "base"
        @dataclass
        class Derived(Base):
            four: int
            five: int = 5
        """,
    )
    write(
        tmp_path,
        "attempts/plain.py",
        """
        class Plain:
            shared: int
            def __init__(self):
                self.one, (self.two, other.three) = 1, (2, 3)
            def later(self):
                self.four = 4
        """,
    )
    write(tmp_path, "core/large.py", f"class Large:\n    __slots__ = ({slots})")

    found = Source(tmp_path).largest_classes({"attempts", "worker"})

    assert [(one["name"], len(one["fields"])) for one in found] == [("Slots", 20), ("Derived(Base)", 5), ("Plain", 2)]


def test_booleans_are_annotated_or_set_to_true_or_false_here_or_elsewhere(tmp_path: Path) -> None:
    write(
        tmp_path,
        "attempts/attempt.py",
        """
        class Attempt:
            __slots__ = ("annotated", "given", "set_here", "set_there", "count", "other")
            def __init__(self, given: bool):
                self.annotated: bool = given > 1
                self.given = given
                self.count, self.set_here = 0, False
        def reset(attempt): attempt.given = False
        """,
    )
    write(tmp_path, "worker/loop.py", "def end(attempt: Attempt): attempt.set_there = attempt.sub.set_here = True")
    write(tmp_path, "core/stranger.py", "thing.other = True")

    [found] = Source(tmp_path).largest_classes({"attempts"})

    assert found["booleans"] == ["annotated", "given", "set_here", "set_there"]
    assert found["set_elsewhere"] == {"set_here": ["worker/loop.py"], "set_there": ["worker/loop.py"]}


def test_private_members_of_the_faces_and_their_bases_are_counted_where_others_use_them(tmp_path: Path) -> None:
    write(
        tmp_path,
        "digests.py",
        """
        from digestif.additions import Additions
        class Digests(Additions):
            _level = 1
            def _own(self): self._state = self._own
        """,
    )
    write(tmp_path, "additions.py", "class Additions:\n    def _inherited(self): return other._inherited")
    write(
        tmp_path,
        "aio.py",
        "class AsyncDigests:\n    def __init__(self): self._digests = 1\n    def x(self): self._digests._own()",
    )
    write(tmp_path, "service/use.py", "digests._state\ndigests._level\ndigests._unknown\ndigests.public\nself._state")

    assert Source(tmp_path).private_uses() == [
        "additions.py:2: other._inherited",
        "aio.py:3: self._digests._own",
        "service/use.py:1: digests._state",
        "service/use.py:2: digests._level",
    ]


def test_lines_and_files_of_python_lua_and_sql_are_counted_by_room(tmp_path: Path) -> None:
    write(tmp_path, "aio.py", "\n" * 61)
    write(tmp_path, "stores/redis/lua/add.lua", "\n" * 60)
    write(tmp_path, "stores/statements.sql", "one\ntwo")
    write(tmp_path, "stores/notes.txt", "not counted")

    assert Source(tmp_path).sizes() == {
        "lines": 123,
        "files": 3,
        "small": 2,
        "rooms": {"": {"lines": 61, "files": 1}, "stores": {"lines": 62, "files": 2}},
    }


def write(folder: Path, path: str, text: str) -> None:
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    (folder / path).write_text(dedent(text))


def planted(path: str, text: str) -> dict[str, Any]:
    """Run a text as if it were this module of the package; return its names."""
    names: dict[str, Any] = {}
    exec(compile(dedent(text), str(PACKAGE / path), "exec"), names)
    return names


@contextmanager
def profiled(look: Callable[[FrameType, str], None]) -> Iterator[None]:
    """Show the frames of this thread and of those that start in the block."""

    def profile(frame: FrameType, event: str, _: object) -> None:
        look(frame, event)

    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def differences(one: dict[str, Any], other: dict[str, Any], path: str = "") -> dict[str, tuple[Any, Any]]:
    """Return what differs in two trees of figures, by its path."""
    found: dict[str, tuple[Any, Any]] = {}
    for name in one.keys() | other.keys():
        mine, its = one.get(name), other.get(name)
        if isinstance(mine, dict) and isinstance(its, dict):
            found |= differences(mine, its, f"{path}{name}/")
        elif mine != its:
            found[f"{path}{name}"] = mine, its
    return found
