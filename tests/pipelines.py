"""Pipelines by hand: what a worker does with one, a step at a time."""

from collections.abc import Collection
from typing import NamedTuple

from digestif.attempts.delivery import Delivery
from digestif.attempts.pipeline import Pipeline
from digestif.attempts.room import Room
from digestif.attempts.stages import Judged, Page
from digestif.attempts.steps import run
from digestif.attempts.submission import Answer


class Claim(NamedTuple):
    """What a claim gave: the deliveries of its digests, and the attempts that ended before a handler saw them."""

    deliveries: list[Delivery]
    judged: list[Judged]
    claimed: int

    @property
    def timelines(self) -> list[str]:
        return [delivery.timeline for delivery in self.deliveries]

    @property
    def reasons(self) -> set[str]:
        return {judged.verdict.reason for judged in self.judged}


def claim(
    pipeline: Pipeline, limit: int = 10, *, room: Room | None = None, partitions: Collection[int] | None = None
) -> Claim:
    return _claim(run(pipeline.claim(limit, room=room or Room(), partitions=partitions)))


def claim_suspects(pipeline: Pipeline, size: int, *, alone: bool = True, room: Room | None = None) -> Claim:
    return _claim(run(pipeline.claim_suspects(size, alone=alone, room=room or Room())))


def _claim(page: Page) -> Claim:
    return Claim([Delivery(each) for each in page.loaded], page.judged, page.claimed)


def end(pipeline: Pipeline, *judged: Judged) -> list[Answer]:
    return run(pipeline.end(judged))
