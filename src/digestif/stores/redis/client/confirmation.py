"""Confirming: what was written counts only once enough replicas have received it."""

from collections.abc import Sequence
from typing import NamedTuple

from digestif.errors import StoreUnavailable
from digestif.stores.redis.client.commands import Command
from digestif.stores.redis.client.node import Node
from digestif.stores.redis.client.pipeline import UNANSWERED, Pipeline, Request
from digestif.stores.redis.client.scripts import load


class Confirmation(NamedTuple):
    """What is asked of the replicas."""

    namespace: str
    replicas: int
    seconds: float

    def mark(self, request: Request) -> Request:
        """A write beside what the request writes, that leaves nothing behind. A script may write to a full memory."""
        partition = request.command.partition
        mark = Request(Command(partition, (1, f"{{{self.namespace}:{partition}}}:confirming"), load("confirm")))
        mark.aside, mark.loading = request.aside, True
        return mark

    def wait(self) -> Request:
        return Request(Command(0, ("WAIT", self.replicas, round(self.seconds * 1000))))


class ConfirmedPipeline(Pipeline):
    """An exchange that ends with WAIT on its own connection.

    WAIT speaks of what this connection wrote, and servers of late take that literally: an request that is repeated on
    another connection, where it finds its work done and writes nothing, would be confirmed by replicas that have heard
    nothing. So a repetition writes a mark first.
    """

    def __init__(self, node: Node, requests: Sequence[Request], confirmation: Confirmation) -> None:
        self._wanted = confirmation
        self._written = requests
        self._marks = [confirmation.mark(request) for request in requests if request.error]
        self._wait = confirmation.wait()
        super().__init__(node, [*requests, *self._marks, self._wait])

    def receive(self) -> None:
        super().receive()
        unmarked = self._marks and all(mark.answer is UNANSWERED for mark in self._marks)
        if unmarked or self._wait.answer is UNANSWERED:
            self._doubt(f"the replicas can't be asked ({self._wait.error or self._marks[0].error})")
        elif self._wait.answer < self._wanted.replicas:
            self._doubt(
                f"only {self._wait.answer} of {self._wanted.replicas} replicas confirmed it "
                f"within {self._wanted.seconds:g} s; check the replicas"
            )

    def fail(self, error: Exception) -> None:
        for request in self._written:
            request.answer = UNANSWERED  # heard of, but not confirmed
        super().fail(error)

    def _doubt(self, reason: str) -> None:
        for request in self._written:
            if request.answer is not UNANSWERED:
                request.answer = StoreUnavailable(f"{self.node.name}: written, but {reason}")
