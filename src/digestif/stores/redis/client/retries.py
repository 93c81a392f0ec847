"""A sender: the requests of one call, sent and sent again until each has an answer or patience is over."""

from collections.abc import Callable, Iterable, Sequence
from threading import Event

from digestif.clock import monotonic
from digestif.errors import ConfigError, StoreUnavailable
from digestif.stores.redis.client.backoff import backoff
from digestif.stores.redis.client.confirmation import Confirmation, ConfirmedPipeline
from digestif.stores.redis.client.faults import FAILURES, Remedy, final, redirection, remedy, unavailable
from digestif.stores.redis.client.node import Node
from digestif.stores.redis.client.pipeline import UNANSWERED, Pipeline, Request
from digestif.stores.redis.client.topology import Topology


class Sender:
    """On topology that may change under way."""

    def __init__(
        self, topology: Topology, closed: Event, began: float, patience: float, confirmation: Confirmation | None
    ) -> None:
        self._topology = topology
        self._closed = closed
        self._patience = patience
        self._deadline = began + patience
        self._confirmation = confirmation
        self._failures = 0
        self._looked_after: set[Node | None] = set()

    def make(self, requests: Sequence[Request]) -> None:
        """Give every request an answer."""
        while requests:
            if self._closed.is_set():
                return _answer(requests, lambda _: StoreUnavailable(f"{self._topology.name}: the store is closed"))
            self._attempt(requests)
            hasty = [self._mend(request) for request in _unanswered(requests)]
            requests = _unanswered(requests)
            if requests and not any(hasty):
                if monotonic() >= self._deadline:
                    return _answer(requests, self._given_up)
                self._pause()
        return None

    # Trying

    def _attempt(self, requests: Sequence[Request]) -> None:
        """Write to every node before reading from any, so that they work side by side."""
        self._looked_after.clear()
        exchanges = [self._exchange(node, group) for node, group in self._by_node(requests).items()]
        try:
            for exchange in [each for each in exchanges if _is_done(each, each.send)]:
                _is_done(exchange, exchange.receive)
        finally:
            for exchange in exchanges:
                exchange.abandon()

    def _by_node(self, requests: Iterable[Request]) -> dict[Node, list[Request]]:
        groups: dict[Node, list[Request]] = {}
        for request in requests:
            request.node, request.stale = None, False
            try:
                request.node = request.aside or request.fixed or self._topology.node_for(request.command.partition)
            except FAILURES as error:
                request.error = error
            except ConfigError as error:
                request.answer = error
            else:
                groups.setdefault(request.node, []).append(request)
        return groups

    def _exchange(self, node: Node, requests: Sequence[Request]) -> Pipeline:
        if self._confirmation is None:
            return Pipeline(node, requests)
        return ConfirmedPipeline(node, requests, self._confirmation)

    # Helping

    def _mend(self, request: Request) -> bool:
        """Do what helps an request that failed. True: it may go out again at once."""
        assert request.error
        cure = remedy(request.error)
        if cure is not Remedy.LOAD:
            request.aside = None
        try:
            return self._apply(cure, request, request.error)
        except ConfigError as error:
            request.answer = error
            return False

    def _apply(self, cure: Remedy, request: Request, error: Exception) -> bool:
        node = request.node
        match cure:
            case Remedy.NONE:
                request.answer = final(error, self._name_of(node))
                return False
            case Remedy.LOAD:
                request.loading = True
            case Remedy.ASK if node:
                request.aside = self._topology.aside(*redirection(error), told_by=node)
            case Remedy.FOLLOW if node:
                self._topology.follow(request.command.partition, *redirection(error), told_by=node)
            case Remedy.RETRY if not request.stale:
                self._look_again(node)
                return False
        return request.may_hurry()

    def _look_again(self, failed: Node | None) -> None:
        if failed not in self._looked_after:  # once for all requests of an attempt
            self._looked_after.add(failed)
            self._topology.look_again(failed=failed)

    # Waiting

    def _pause(self) -> None:
        self._failures += 1
        delay = backoff(self._failures)
        self._closed.wait(min(delay, max(0.0, self._deadline - monotonic())))

    def _given_up(self, request: Request) -> Exception:
        assert request.error
        told = unavailable(request.error, self._name_of(request.node), patience=self._patience)
        if request.node is not None:
            request.node.give_up(told)
        return told

    def _name_of(self, node: Node | None) -> str:
        return self._topology.name if node is None else node.name


def _is_done(exchange: Pipeline, step: Callable[[], None]) -> bool:
    try:
        step()
    except FAILURES as error:
        exchange.fail(error)
        return False
    return True


def _unanswered(requests: Sequence[Request]) -> list[Request]:
    return [request for request in requests if request.answer is UNANSWERED]


def _answer(requests: Sequence[Request], answer: Callable[[Request], Exception]) -> None:
    for request in requests:
        request.answer = answer(request)
