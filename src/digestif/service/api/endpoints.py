"""The routes of the API: one table, from which requests are routed, guarded, described and tested."""

from digestif.core.explain import Explanation
from digestif.core.records import Acceptance
from digestif.service.api import records, timelines
from digestif.service.api.routes import Route
from digestif.service.api.shapes import TimelineAnswer
from digestif.service.settings import Scope

ADDING = (
    Route(
        method="POST",
        path="/v1/timelines/{timeline}/records",
        endpoint=records.add_one,
        summary="Add a record to a timeline",
        scope=Scope.INGEST,
        body=records.NewRecord,
        answers={202: Acceptance},
        problems=(409, 413, 415, 507),
        repeatable=True,
    ),
    Route(
        method="POST",
        path="/v1/records",
        endpoint=records.add_many,
        summary="Add many records, with an answer for each",
        scope=Scope.INGEST,
        body=list[records.RecordOf],
        lines=True,
        answers={202: records.Results, 207: records.Results, 422: records.Results},
        problems=(409, 413, 415, 507),
        repeatable=True,
    ),
)

LOOKING = (
    Route(
        method="GET",
        path="/v1/timelines",
        endpoint=timelines.list_timelines,
        summary="List timelines",
        scope=Scope.READ,
        query=timelines.TimelinesQuery,
        answers={200: timelines.TimelinesAnswer},
    ),
    Route(
        method="GET",
        path="/v1/timelines/{timeline}",
        endpoint=timelines.show,
        summary="Show a timeline",
        scope=Scope.READ,
        answers={200: TimelineAnswer},
    ),
    Route(
        method="GET",
        path="/v1/timelines/{timeline}/records",
        endpoint=timelines.peek,
        summary="Show the records that the next digest would carry",
        scope=Scope.READ,
        query=timelines.PeekQuery,
        answers={200: timelines.RecordsAnswer},
    ),
    Route(
        method="GET",
        path="/v1/timelines/{timeline}/explain",
        endpoint=timelines.explain,
        summary="Explain when a timeline is due, and why",
        scope=Scope.READ,
        answers={200: Explanation},
    ),
    Route(
        method="GET",
        path="/v1/timelines/{timeline}/trace/{record}",
        endpoint=timelines.trace,
        summary="Find out what became of a record",
        scope=Scope.READ,
        answers={200: timelines.TraceAnswer},
    ),
)

ROUTES: tuple[Route, ...] = (*ADDING, *LOOKING)
