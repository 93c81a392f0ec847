"""Retries: the requests of one call are sent until each has an answer or the patience of the call is over."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from threading import Event

from redis.exceptions import TimeoutError

from digestif.clock import monotonic
from digestif.errors import ConfigError, StoreUnavailable
from digestif.ids import chance
from digestif.stores.redis.client.faults import (
    FAILURES,
    Remedy,
    again,
    final,
    redirection,
    remedy,
    unavailable,
)
from digestif.stores.redis.client.node import Node
from digestif.stores.redis.client.pipeline import (
    UNANSWERED,
    Confirmation,
    ConfirmedPipeline,
    NodePipeline,
    OpenPipeline,
    Request,
)
from digestif.stores.redis.client.probes import Probes
from digestif.stores.redis.client.topology import Topology

Backoff = Callable[[int], float]

_SHORTEST, _LONGEST = 0.02, 1.0  # seconds
_DOUBLINGS = 10
HANGS_SECONDS = 1.0  # without a reply, after which calls that fail fast go on without one of several nodes


def backoff(failures: int) -> float:
    """Random seconds, up to twice as many after each failure in a row.

    redis-py has the same, but draws from the generator that applications seed.
    """
    return chance() * min(_LONGEST, _SHORTEST * 2.0 ** min(failures, _DOUBLINGS))


class Sender:
    """Sends the requests of one call, and follows changes of the topology while it waits.

    Of several nodes, one that can't be reached is probed. If the call fails fast, that node's requests are answered
    with its error, and the others have their answers soon.
    """

    def __init__(
        self,
        topology: Topology,
        *,
        closed: Event,
        began: float,
        patience: float,
        fail_fast: bool,
        confirmation: Confirmation | None,
        backoff: Backoff,
        probes: Probes,
    ) -> None:
        self._topology = topology
        self._probes = probes
        self._fail_fast = fail_fast
        self._closed = closed
        self._patience = patience
        self._deadline = began + patience
        self._confirmation = confirmation
        self._backoff = backoff
        self._failures = 0
        self._refreshed_for: set[Node | None] = set()

    def send(self, requests: Sequence[Request]) -> None:
        """Give every request an answer."""
        while requests:
            if self._closed.is_set():
                return _answer(requests, lambda _: StoreUnavailable(f"{self._topology.name}: the store is closed"))
            self._attempt(requests)
            at_once = [self._prepare_retry(request) for request in unanswered(requests)]
            requests = unanswered(requests)
            if requests and not any(at_once):
                if monotonic() >= self._deadline:
                    return _answer(requests, self._give_up)
                self._pause()
        return None

    def _attempt(self, requests: Sequence[Request]) -> None:
        """Write to every node before reading from any, so that they work side by side."""
        self._refreshed_for.clear()
        pipelines = [self._pipeline(node, group) for node, group in self._by_node(requests).items()]
        pipelines.sort(key=lambda pipeline: pipeline.node.silence is not None)
        try:
            sent = [each for each in pipelines if _succeeds(each, each.send)]
            if self._fail_fast and self._topology.is_divided:
                until = monotonic() + HANGS_SECONDS
                sent = [each for each in sent if _succeeds(each, partial(each.expect, until=until))]
            for pipeline in sent:
                _succeeds(pipeline, pipeline.receive)
        finally:
            for pipeline in pipelines:
                pipeline.abandon()

    def _by_node(self, requests: Iterable[Request]) -> dict[Node, list[Request]]:
        groups: dict[Node, list[Request]] = {}
        for request in requests:
            request.node, request.stale = None, False
            try:
                request.node = request.importing or request.pinned or self._topology.node_for(request.command.partition)
            except FAILURES as error:
                request.error = error
            except ConfigError as error:
                request.answer = error
            else:
                if self._fail_fast and (silence := request.node.silence) is not None:
                    request.answer = again(silence)
                else:
                    groups.setdefault(request.node, []).append(request)
        return groups

    def _pipeline(self, node: Node, requests: Sequence[Request]) -> NodePipeline:
        if self._confirmation is None:
            return NodePipeline(node, requests)
        return ConfirmedPipeline(node, requests, self._confirmation)

    def _prepare_retry(self, request: Request) -> bool:
        """Apply the remedy for a failed request, or answer it. True: it may be sent again at once."""
        if request.is_in_vain():
            return False
        assert request.error
        cure = remedy(request.error)
        if cure is not Remedy.LOAD:
            request.importing = None
        try:
            return self._apply(cure, request, request.error)
        except ConfigError as error:
            request.answer = error
            return False

    def _apply(self, cure: Remedy, request: Request, error: Exception) -> bool:
        node = request.node
        match cure:
            case Remedy.NONE:
                request.answer = final(error, self._name_of(node), may_be_done=request.may_be_done)
                return False
            case Remedy.LOAD:
                request.loading = True
            case Remedy.ASK if node:
                request.importing = self._topology.node_at(*redirection(error), reported_by=node)
            case Remedy.FOLLOW if node:
                self._topology.follow(request.command.partition, *redirection(error), reported_by=node)
            case Remedy.IN_TURN if request.after and request.after.answer is UNANSWERED:
                return False
            case Remedy.RETRY if not request.stale:
                if not self._is_left_to_probe(request, error):
                    self._refresh(node)
                return False
        return request.may_retry_at_once()

    def _is_left_to_probe(self, request: Request, error: Exception) -> bool:
        """Have one of several nodes probed that can't be reached. True if the request does not wait for it."""
        silence = None if request.node is None else self._probes.suspect(request.node, error)
        if silence is None or not self._fail_fast:
            return False
        request.answer = again(silence)
        return True

    def _refresh(self, failed: Node | None) -> None:
        if failed not in self._refreshed_for:  # once for all requests of an attempt
            self._refreshed_for.add(failed)
            self._topology.refresh(failed=failed)

    def _pause(self) -> None:
        self._failures += 1
        delay = self._backoff(self._failures)
        self._closed.wait(min(delay, max(0.0, self._deadline - monotonic())))

    def _give_up(self, request: Request) -> Exception:
        if request.is_in_vain():
            return request.answer  # type: ignore[no-any-return]
        assert request.error
        error = unavailable(request.error, self._name_of(request.node), patience=self._patience)
        if request.node is not None:
            request.node.note_failure(error)
        return error

    def _name_of(self, node: Node | None) -> str:
        return self._topology.name if node is None else node.name


def stream(requests: Iterable[Request], topology: Topology, probes: Probes) -> list[Request]:
    """Send each request as soon as it is made, once, and give it an answer if nothing fails. Returns all of them."""
    made: list[Request] = []
    pipelines: dict[Node, OpenPipeline] = {}
    try:
        for request in requests:
            made.append(request)
            if request.answer is UNANSWERED:
                _add_to_pipeline(request, topology, pipelines)
        sent = [each for each in pipelines.values() if _succeeds(each, partial(_send, each, probes))]
        if topology.is_divided:
            _probe_silent(sent, probes)
        for pipeline in sent:
            _succeeds(pipeline, pipeline.receive)
    finally:
        for pipeline in pipelines.values():
            pipeline.abandon()
    return made


def _add_to_pipeline(request: Request, topology: Topology, pipelines: dict[Node, OpenPipeline]) -> None:
    try:
        node = topology.node_for(request.command.partition)
    except (ConfigError, *FAILURES):  # a Sender tries again
        return
    if node.silence is not None:  # what the other nodes are asked does not wait for it
        return
    pipeline = pipelines.get(node)
    if pipeline is None:
        pipeline = pipelines[node] = OpenPipeline(node)
    try:
        pipeline.add(request)
    except FAILURES as error:
        pipeline.fail(error)


def _send(pipeline: NodePipeline, probes: Probes) -> None:
    try:
        pipeline.send()
    except TimeoutError as error:
        probes.suspect(pipeline.node, error)
        raise


def _probe_silent(pipelines: Sequence[NodePipeline], probes: Probes) -> None:
    """Have the nodes probed that do not answer soon: later calls know, though this one goes on to wait for them."""
    until = monotonic() + HANGS_SECONDS
    for pipeline in pipelines:
        try:
            pipeline.expect(until=until)
        except TimeoutError as error:
            probes.suspect(pipeline.node, error)
        except FAILURES:
            continue  # it is raised again when the replies are read


def _succeeds(pipeline: NodePipeline, step: Callable[[], None]) -> bool:
    try:
        step()
    except FAILURES as error:
        pipeline.fail(error)
        return False
    return True


def unanswered(requests: Sequence[Request]) -> list[Request]:
    return [request for request in requests if request.answer is UNANSWERED]


def _answer(requests: Sequence[Request], answer: Callable[[Request], Exception]) -> None:
    for request in requests:
        request.answer = answer(request)
