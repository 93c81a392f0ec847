"""The routes of the API: one table, from which requests are routed, guarded, described and tested."""

from typing import Any

from digestif.core.explain import Explanation
from digestif.core.records import Acceptance
from digestif.routes.archive import KeptMessage
from digestif.service.api import actions, dead_letters, description, events, probes, records, store, timelines
from digestif.service.api.actions import Changed
from digestif.service.api.routes import Endpoint, Route
from digestif.service.api.shapes import LedgerAnswer, TimelineAnswer
from digestif.service.settings import Scope

TIMELINE = "/v1/timelines/{timeline}"
LETTER = "/v1/dead-letters/{id}"


def _add(path: str, endpoint: Endpoint, summary: str, *, answers: dict[int, Any], **more: Any) -> Route:
    return Route(
        method="POST",
        path=path,
        endpoint=endpoint,
        summary=summary,
        scope=Scope.INGEST,
        answers=answers,
        repeatable=True,
        **more,
    )


def _get(path: str, endpoint: Endpoint, summary: str, kind: Any, **more: Any) -> Route:
    options = {"scope": Scope.READ, **more}
    return Route(method="GET", path=path, endpoint=endpoint, summary=summary, answers={200: kind}, **options)


def _change(method: str, path: str, endpoint: Endpoint, summary: str, kind: Any = Changed, **more: Any) -> Route:
    answers = {200: kind}
    return Route(
        method=method, path=path, endpoint=endpoint, summary=summary, scope=Scope.ADMIN, answers=answers, **more
    )


ADDING = (
    _add(
        f"{TIMELINE}/records",
        records.add_one,
        "Add a record to a timeline",
        body=records.NewRecord,
        answers={202: Acceptance},
    ),
    _add(
        "/v1/records",
        records.add_many,
        "Add many records, with an answer for each: 202 if all were accepted, 207 if some, 422 if none",
        body=list[records.RecordOf],
        lines=True,
        answers={202: records.Results, 207: records.Results, 422: records.Results},
    ),
)

TIMELINES = (
    _get(
        "/v1/timelines",
        timelines.list_timelines,
        "List timelines, in a state by when it ends",
        timelines.TimelinesAnswer,
        query=timelines.TimelinesQuery,
    ),
    _get(TIMELINE, timelines.show, "Show a timeline; an unknown one is idle", TimelineAnswer),
    _get(
        f"{TIMELINE}/records",
        timelines.peek,
        "Show the records that the next digest would carry",
        timelines.RecordsAnswer,
        query=timelines.PeekQuery,
    ),
    _get(f"{TIMELINE}/explain", timelines.explain, "Explain when a timeline is due, and why", Explanation),
    _get(
        f"{TIMELINE}/preview",
        timelines.preview,
        "Render what would be sent now",
        timelines.PreviewAnswer,
        problems=(404, 413),
    ),
    _get(
        f"{TIMELINE}/trace/{{record}}",
        timelines.trace,
        "Find out what became of a record",
        timelines.TraceAnswer,
    ),
    _change("POST", f"{TIMELINE}/flush", actions.flush, "Make a waiting timeline ready now"),
    _change("POST", f"{TIMELINE}/pause", actions.pause, "Stop deliveries; records are still accepted"),
    _change("POST", f"{TIMELINE}/resume", actions.resume, "End a pause"),
    _change("DELETE", f"{TIMELINE}/records/{{record}}", actions.retract, "Take back a pending record"),
    _change("DELETE", TIMELINE, actions.delete, "Delete a timeline with its records, dead letters and history"),
)

POLICIES = (
    _get(f"{TIMELINE}/policy", actions.show_policy, "Show the policy in force", actions.PolicyAnswer),
    _change(
        "PUT",
        f"{TIMELINE}/policy",
        actions.set_policy,
        "Store a policy for a timeline",
        actions.PolicyAnswer,
        body=actions.NewPolicy,
    ),
    _change("DELETE", f"{TIMELINE}/policy", actions.clear_policy, "Remove the policy or cadence of a timeline"),
    _get(
        f"{TIMELINE}/preference",
        actions.show_preference,
        "Show the cadence that a person chose",
        actions.PreferenceAnswer,
        problems=(404,),
    ),
    _change(
        "PUT",
        f"{TIMELINE}/preference",
        actions.set_preference,
        "Choose a cadence for a timeline",
        actions.PreferenceAnswer,
        body=actions.NewPreference,
    ),
    _change("DELETE", f"{TIMELINE}/preference", actions.clear_preference, "Forget the cadence of a timeline"),
)

DIGESTS = (
    _get(
        "/v1/digests",
        store.list_digests,
        "List digests that ended lately",
        store.DigestsAnswer,
        query=store.DigestsQuery,
    ),
    _get(
        "/v1/digests/{id}/message",
        store.show_message,
        "Show the message that was sent, if messages are kept",
        KeptMessage,
        problems=(404,),
    ),
    _get(
        "/v1/dead-letters",
        dead_letters.list_letters,
        "List dead letters, the oldest first",
        dead_letters.DeadLettersAnswer,
        query=dead_letters.DeadLettersQuery,
    ),
    _get(
        LETTER,
        dead_letters.show,
        "Show a dead letter and its records",
        dead_letters.LetterContents,
        query=dead_letters.LetterQuery,
        problems=(404,),
    ),
    _change(
        "POST",
        f"{LETTER}/replay",
        dead_letters.replay,
        "Make a dead letter its timeline's next digest",
        problems=(404,),
    ),
    _change(
        "POST",
        f"{LETTER}/requeue",
        dead_letters.requeue,
        "Let the records of a dead letter wait for the next digest",
        body=dead_letters.RequeueOptions,
        needs_body=False,
        problems=(404,),
    ),
    _change("DELETE", LETTER, dead_letters.discard, "Discard a dead letter", problems=(404,)),
)

STORE = (
    _get("/v1/ledger", store.show_ledger, "Count the records with each fate", LedgerAnswer, whole=True),
    _change("POST", "/v1/verify", store.verify, "Recount everything", store.VerifyAnswer, whole=True),
    _get("/v1/status", store.show_status, "Show store, workers, channels, backlog", store.StatusAnswer, whole=True),
    _get("/v1/channels", store.list_channels, "List channels that are down", store.ChannelsAnswer, whole=True),
    _get("/v1/workers", store.list_workers, "List live workers", store.WorkersAnswer, whole=True),
    _get(
        "/v1/samples",
        store.list_samples,
        "List what was counted every ten seconds in the last 24 hours",
        store.SamplesAnswer,
        query=store.SamplesQuery,
        whole=True,
    ),
    _get(
        "/v1/audit",
        store.list_audit,
        "List the changes that people made",
        store.AuditAnswer,
        query=store.AuditQuery,
        whole=True,
    ),
    _get(
        "/v1/events",
        events.stream,
        "Send what happens, as server-sent events",
        str,
        content_type="text/event-stream",
        query=events.EventsQuery,
        whole=True,
    ),
    _get("/metrics", probes.metrics, "Metrics for Prometheus", str, content_type="text/plain", whole=True),
)

OPEN = (
    _get("/v1/openapi.json", description.openapi, "This description", dict[str, Any], scope=None),
    _get("/docs", description.docs, "This description for people", str, content_type="text/html", scope=None),
    _get("/healthz", probes.healthy, "Whether the process answers", probes.Health, scope=None),
    _get("/readyz", probes.ready, "Whether the store takes writes", probes.Readiness, scope=None, problems=(503,)),
)

ROUTES: tuple[Route, ...] = (*ADDING, *TIMELINES, *POLICIES, *DIGESTS, *STORE, *OPEN)
