"""What people do on the dashboard: one form each, then back to the page with a message."""

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar
from urllib.parse import urlencode

from starlette.responses import RedirectResponse, Response

from digestif.core.cadences import Off
from digestif.errors import DigestifError, StoreError
from digestif.service.api.problems import Problem, problem_of
from digestif.service.api.room import Rooms
from digestif.service.dashboard.messages import counted, has_changed
from digestif.service.dashboard.timelines import asked_timeline, deleted_by_off, show
from digestif.service.dashboard.visits import Answer, Visit
from digestif.service.security.audit import noted, policy_noted, preference_noted
from digestif.service.waits import to_its_end

T = TypeVar("T")

TEST_RECORD = {"title": "Test record", "text": "Added on the dashboard to see how a digest arrives."}

Deed = Callable[[Visit, str], Coroutine[Any, Any, str]]  # returns the name of the message


async def _flush(visit: Visit, key: str) -> str:
    before = await visit.digests.timeline(key)
    if not await visit.digests.flush(key):
        return "not-flushed"
    if not before.pending + before.in_digest:
        return "flushed-empty"
    return "flushed-paused" if before.paused else "flushed"


async def _pause(visit: Visit, key: str) -> str:
    return "paused" if await visit.digests.pause(key) else "not-paused"


async def _resume(visit: Visit, key: str) -> str:
    return "resumed" if await visit.digests.resume(key) else "not-resumed"


async def _retract(visit: Visit, key: str) -> str:
    return "retracted" if await visit.digests.retract(key, visit.asked("record")) else "not-retracted"


async def _add_test_record(visit: Visit, key: str) -> str:
    if (await visit.digests.timeline(key)).off:
        return "not-tested"
    async with visit.service.part(Rooms).reserved(visit.reader.prefix, [key]):
        await visit.digests.accept(key, TEST_RECORD)
    return "tested"


async def _delete(visit: Visit, key: str) -> str:
    return "deleted" if await visit.digests.delete(key) else "not-deleted"


async def _set_policy(visit: Visit, key: str) -> str:
    await visit.digests.set_policy(key, visit.asked("policy"))
    return "policy-set"


async def _clear_policy(visit: Visit, key: str) -> str:
    return "policy-cleared" if await visit.digests.clear_policy(key) else "not-cleared"


async def _prefer(visit: Visit, key: str) -> str:
    cadence, zone = visit.asked("cadence"), visit.asked("zone") or None
    is_off = visit.digests.cadences.get(cadence) is Off.OFF
    deleted = deleted_by_off(await visit.digests.timeline(key)) if is_off else 0
    await visit.digests.prefer(key, cadence, zone=zone)
    return counted("switched-off", deleted) if is_off else "preferred"


def _nothing(_: Visit) -> None:
    return None


def _record(visit: Visit) -> str:
    return visit.asked("record")


def _policy(visit: Visit) -> str:
    return policy_noted(visit.asked("policy"))


def _preference(visit: Visit) -> str:
    return preference_noted(visit.asked("cadence"), visit.asked("zone"))


def _on_timeline(name: str, deed: Deed, subject: Callable[[Visit], str | None] = _nothing) -> Answer:
    """An action on a timeline. `subject` is what the audit log keeps of the form."""

    async def answer(visit: Visit) -> Response:
        key = asked_timeline(visit)
        try:
            kept = subject(visit)
            said = await noted_for(visit, deed(visit, key), name, key, kept, is_change=has_changed)
        except StoreError:
            raise
        except (DigestifError, Problem) as error:
            problem = error if isinstance(error, Problem) else problem_of(error)
            return await show(visit, key, problem=problem.detail, status=problem.status)
        place = "/timelines" if said == "deleted" else "/timeline?" + urlencode({"key": key})
        return visit.went_to(place, said)

    return answer


async def _set_preference(visit: Visit) -> Response:
    """Store a preference. A cadence that deletes records needs the confirmation of its own page."""
    key, cadence = asked_timeline(visit), visit.asked("cadence")
    if visit.digests.cadences.get(cadence) is Off.OFF and visit.asked("confirmed") != "yes":
        asked = {"key": key, "cadence": cadence, "zone": visit.asked("zone")}
        return RedirectResponse("/timeline/off?" + urlencode(asked), status_code=303)
    return await _on_timeline("prefer", _prefer, _preference)(visit)


async def noted_for(
    visit: Visit,
    deed: Coroutine[Any, Any, T],
    what: str,
    timeline: str,
    subject: str | None,
    *,
    is_change: Callable[[T], bool],
) -> T:
    """Do it, and write the audit log, unless nothing was changed or visitors have no names."""
    if visit.principal is None:
        return await to_its_end(deed)
    return await noted(
        deed, visit.service, visit.principal, what, timeline=timeline, subject=subject, is_change=is_change
    )


ON_TIMELINES = {
    "/timeline/flush": _on_timeline("flush", _flush),
    "/timeline/pause": _on_timeline("pause", _pause),
    "/timeline/resume": _on_timeline("resume", _resume),
    "/timeline/retract": _on_timeline("retract", _retract, _record),
    "/timeline/test": _on_timeline("test record", _add_test_record),
    "/timeline/delete": _on_timeline("delete", _delete),
    "/timeline/policy": _on_timeline("set policy", _set_policy, _policy),
    "/timeline/clear-policy": _on_timeline("clear policy", _clear_policy),
    "/timeline/preference": _set_preference,
}
