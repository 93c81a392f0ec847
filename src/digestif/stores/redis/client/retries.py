"""A journey: the errands of one call, sent and sent again until each has an answer or patience is over."""

from collections.abc import Callable, Iterable, Sequence
from threading import Event

from digestif.clock import monotonic
from digestif.errors import ConfigError, StoreUnavailable
from digestif.stores.redis.client.backoff import backoff
from digestif.stores.redis.client.confirmation import Confirmation, ConfirmedExchange
from digestif.stores.redis.client.faults import FAILURES, Remedy, final, redirection, remedy, unavailable
from digestif.stores.redis.client.node import Node
from digestif.stores.redis.client.pipeline import UNANSWERED, Errand, Exchange
from digestif.stores.redis.client.topology import Routes


class Journey:
    """On routes that may change under way."""

    def __init__(
        self, routes: Routes, closed: Event, began: float, patience: float, confirmation: Confirmation | None
    ) -> None:
        self._routes = routes
        self._closed = closed
        self._patience = patience
        self._deadline = began + patience
        self._confirmation = confirmation
        self._failures = 0
        self._looked_after: set[Node | None] = set()

    def make(self, errands: Sequence[Errand]) -> None:
        """Give every errand an answer."""
        while errands:
            if self._closed.is_set():
                return _answer(errands, lambda _: StoreUnavailable(f"{self._routes.name}: the store is closed"))
            self._attempt(errands)
            hasty = [self._mend(errand) for errand in _unanswered(errands)]
            errands = _unanswered(errands)
            if errands and not any(hasty):
                if monotonic() >= self._deadline:
                    return _answer(errands, self._given_up)
                self._pause()
        return None

    # Trying

    def _attempt(self, errands: Sequence[Errand]) -> None:
        """Write to every node before reading from any, so that they work side by side."""
        self._looked_after.clear()
        exchanges = [self._exchange(node, group) for node, group in self._by_node(errands).items()]
        try:
            for exchange in [each for each in exchanges if _is_done(each, each.send)]:
                _is_done(exchange, exchange.receive)
        finally:
            for exchange in exchanges:
                exchange.abandon()

    def _by_node(self, errands: Iterable[Errand]) -> dict[Node, list[Errand]]:
        groups: dict[Node, list[Errand]] = {}
        for errand in errands:
            errand.node, errand.stale = None, False
            try:
                errand.node = errand.aside or errand.fixed or self._routes.node_for(errand.command.partition)
            except FAILURES as error:
                errand.error = error
            except ConfigError as error:
                errand.answer = error
            else:
                groups.setdefault(errand.node, []).append(errand)
        return groups

    def _exchange(self, node: Node, errands: Sequence[Errand]) -> Exchange:
        if self._confirmation is None:
            return Exchange(node, errands)
        return ConfirmedExchange(node, errands, self._confirmation)

    # Helping

    def _mend(self, errand: Errand) -> bool:
        """Do what helps an errand that failed. True: it may go out again at once."""
        assert errand.error
        cure = remedy(errand.error)
        if cure is not Remedy.LOAD:
            errand.aside = None
        try:
            return self._apply(cure, errand, errand.error)
        except ConfigError as error:
            errand.answer = error
            return False

    def _apply(self, cure: Remedy, errand: Errand, error: Exception) -> bool:
        node = errand.node
        match cure:
            case Remedy.NONE:
                errand.answer = final(error, self._name_of(node))
                return False
            case Remedy.LOAD:
                errand.loading = True
            case Remedy.ASK if node:
                errand.aside = self._routes.aside(*redirection(error), told_by=node)
            case Remedy.FOLLOW if node:
                self._routes.follow(errand.command.partition, *redirection(error), told_by=node)
            case Remedy.RETRY if not errand.stale:
                self._look_again(node)
                return False
        return errand.may_hurry()

    def _look_again(self, failed: Node | None) -> None:
        if failed not in self._looked_after:  # once for all errands of an attempt
            self._looked_after.add(failed)
            self._routes.look_again(failed=failed)

    # Waiting

    def _pause(self) -> None:
        self._failures += 1
        delay = backoff(self._failures)
        self._closed.wait(min(delay, max(0.0, self._deadline - monotonic())))

    def _given_up(self, errand: Errand) -> Exception:
        assert errand.error
        told = unavailable(errand.error, self._name_of(errand.node), patience=self._patience)
        if errand.node is not None:
            errand.node.give_up(told)
        return told

    def _name_of(self, node: Node | None) -> str:
        return self._routes.name if node is None else node.name


def _is_done(exchange: Exchange, step: Callable[[], None]) -> bool:
    try:
        step()
    except FAILURES as error:
        exchange.fail(error)
        return False
    return True


def _unanswered(errands: Sequence[Errand]) -> list[Errand]:
    return [errand for errand in errands if errand.answer is UNANSWERED]


def _answer(errands: Sequence[Errand], answer: Callable[[Errand], Exception]) -> None:
    for errand in errands:
        errand.answer = answer(errand)
