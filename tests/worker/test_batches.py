"""Handlers of batches: several digests in one call, and an answer for each."""

from collections.abc import Callable

import pytest

from digestif import Digest, Digests, Discard, Policy, Retry, RetryLater
from tests.worker.workers import once, rounds

NOW = 1_700_000_000.0
POLICY = Policy(minimum_delay=60, retry=Retry(initial=10, jitter=0))


@pytest.fixture
def digests() -> Digests:
    return Digests("memory://", policy=POLICY)


def add_to(digests: Digests, *timelines: str) -> None:
    digests.add_many([(timeline, timeline) for timeline in timelines], now=NOW)


def states(digests: Digests, *timelines: str) -> list[tuple[str, float | None]]:
    """State and seconds to wait."""
    found = [digests.timeline(timeline) for timeline in timelines]
    return [(str(each.state), None if each.due is None else each.due - NOW) for each in found]


@pytest.mark.parametrize("kind", ["function", "coroutine"])
def test_digests_come_together_up_to_the_size_of_a_batch(digests: Digests, kind: str) -> None:
    sizes: list[int] = []

    def function(batch: list[Digest]) -> None:
        sizes.append(len(batch))

    async def coroutine(batch: list[Digest]) -> None:
        sizes.append(len(batch))

    digests.handler("*", batch=5)(function if kind == "function" else coroutine)
    add_to(digests, *(f"t{n}" for n in range(40)))

    rounds(digests, now=NOW, threads=20, concurrency=20)

    assert sum(sizes) == 40
    assert max(sizes) == 5
    assert digests.ledger().delivered == 40


def test_a_batch_may_be_larger_than_the_number_of_threads(digests: Digests) -> None:
    """Places are for calls: a handler that takes fifty at once needs one thread for fifty."""
    sizes: list[int] = []
    digests.handler("*", batch=50)(lambda batch: sizes.append(len(batch)))
    add_to(digests, *(f"t{n}" for n in range(100)))

    rounds(digests, now=NOW, threads=1)

    assert max(sizes) >= 25


def test_each_digest_ends_as_the_answer_says(digests: Digests) -> None:
    answers = {"a": None, "b": RetryLater(after=7), "c": Discard(), "d": ValueError("broken")}
    digests.handler("*", batch=10)(lambda batch: [answers[digest.timeline] for digest in batch])
    add_to(digests, *answers)

    once(digests, now=NOW)

    assert states(digests, *answers) == [("waiting", 60), ("waiting", 7), ("waiting", 60), ("waiting", 10)]
    ledger = digests.ledger()
    assert (ledger.delivered, ledger.open, ledger.deleted, ledger.dead) == (1, 2, 1, 0)
    assert digests.verify()


def test_a_batch_that_raises_fails_as_a_whole(digests: Digests) -> None:
    def fail(batch: list[Digest]) -> None:
        raise ValueError(f"all {len(batch)}")

    digests.handler("*", batch=10)(fail)
    add_to(digests, "a", "b")

    once(digests, now=NOW)

    assert states(digests, "a", "b") == [("waiting", 10)] * 2
    assert digests.ledger().open == 2


@pytest.mark.parametrize(
    "answer",
    [
        lambda batch: [None],
        lambda batch: [None, None, None],
        lambda batch: ["sent", "sent"],
        lambda batch: "ok",
        lambda batch: True,
        lambda batch: {"a": None, "b": None},
        lambda batch: [ValueError, None],
        lambda batch: (each for each in [None, None]),
    ],
)
def test_an_answer_that_can_not_be_understood_is_a_failure_of_all(
    digests: Digests, answer: Callable[[list[Digest]], object]
) -> None:
    """It is not guessed which of them were delivered: each is tried again, with the reason."""
    failures: list[str] = []
    digests.subscribe(lambda event: failures.append(getattr(event, "reason", "")))
    digests.handler("*", batch=10)(answer)
    add_to(digests, "a", "b")

    once(digests, now=NOW)

    assert states(digests, "a", "b") == [("waiting", 10)] * 2
    assert sum(reason.startswith("TypeError: ") for reason in failures) == 2


@pytest.mark.parametrize("answer", ["ok", ["sent"], [None, None]])
def test_an_answer_that_can_not_be_understood_is_a_failure_of_a_single_delivery_too(
    digests: Digests, answer: object
) -> None:
    digests.handler("*", batch=10)(lambda batch: answer)

    digests.notify("a", 1, now=NOW)

    assert digests.ledger().delivered == 0
    assert states(digests, "a") == [("waiting", 10)]


def test_a_batch_of_one_is_still_a_list(digests: Digests) -> None:
    batches: list[list[Digest]] = []
    digests.handler("*", batch=10)(batches.append)

    digests.notify("a", 1, now=NOW)

    [[digest]] = batches
    assert digest.timeline == "a"


def test_digests_of_different_handlers_are_not_mixed(digests: Digests) -> None:
    batches: list[set[str]] = []
    for pattern in ("mail:*", "chat:*"):
        digests.handler(pattern, batch=100)(lambda batch: batches.append({d.timeline[:4] for d in batch}))
    add_to(digests, *(f"{kind}:{n}" for n in range(6) for kind in ("mail", "chat")))

    rounds(digests, now=NOW)

    assert all(len(kinds) == 1 for kinds in batches)
    assert digests.ledger().delivered == 12


def test_batches_at_most_once_are_completed_before_the_call(digests: Digests) -> None:
    seen: list[int] = []

    def fail(batch: list[Digest]) -> None:
        seen.append(digests.ledger().delivered)
        raise ValueError

    digests.handler("*", batch=10, at_most_once=True)(fail)
    add_to(digests, "a", "b")

    rounds(digests, now=NOW)

    assert seen[0] in (1, 2)
    assert digests.ledger().delivered == 2
    assert states(digests, "a", "b") == [("waiting", 60)] * 2
