"""Endpoints that change timelines: flush, pause, resume, retract, delete, policy and preference."""

from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
from msgspec import Struct

from digestif.aio import AsyncDigests
from digestif.core.policy_shown import policy_text
from digestif.service.api.problems import Problem
from digestif.service.api.requests import Request
from digestif.service.security.audit import noted, policy_noted, preference_noted


class Changed(Struct, frozen=True):
    """Whether anything was changed."""

    changed: bool


class PolicyAnswer(Struct, frozen=True):
    """The policy in force, and where it comes from."""

    policy: str
    source: str
    off: bool


class NewPolicy(Struct, frozen=True, forbid_unknown_fields=True):
    """A policy in the text form."""

    policy: str


class PreferenceAnswer(Struct, frozen=True):
    """What a person chose."""

    cadence: str
    zone: str | None
    policy: str | None  # null: off


class NewPreference(Struct, frozen=True, forbid_unknown_fields=True):
    """A cadence, and the time zone for its window."""

    cadence: str
    zone: str | None = None


async def _change(
    request: Request, what: str, call: Callable[[AsyncDigests, str], Coroutine[Any, Any, bool]]
) -> Changed:
    """Make a change of a timeline, and note it if there was one."""
    [timeline] = request.keys
    change = call(request.service.digests, timeline)
    return Changed(await noted(change, request.service, request.principal, what, timeline=timeline))


async def flush(request: Request) -> Changed:
    return await _change(request, "flush", AsyncDigests.flush)


async def pause(request: Request) -> Changed:
    return await _change(request, "pause", AsyncDigests.pause)


async def resume(request: Request) -> Changed:
    return await _change(request, "resume", AsyncDigests.resume)


async def delete(request: Request) -> Changed:
    return await _change(request, "delete", AsyncDigests.delete)


async def clear_policy(request: Request) -> Changed:
    return await _change(request, "clear policy", AsyncDigests.clear_policy)


async def clear_preference(request: Request) -> Changed:
    """Remove a preference only: a policy that is stored instead stays."""
    if await request.service.digests.preference(request.keys[0]) is None:
        return Changed(False)
    return await _change(request, "clear preference", AsyncDigests.clear_policy)


async def retract(request: Request) -> Changed:
    timeline, record = request.keys
    service, change = request.service, request.service.digests.retract(timeline, record)
    return Changed(await noted(change, service, request.principal, "retract", timeline=timeline, subject=record))


async def show_policy(request: Request) -> PolicyAnswer:
    found = await request.service.digests.policy_of(request.keys[0])
    return PolicyAnswer(policy_text(found.policy), found.source, found.off)


_new_policy = msgspec.json.Decoder(NewPolicy)
_new_preference = msgspec.json.Decoder(NewPreference)


async def set_policy(request: Request) -> PolicyAnswer:
    given = await request.json(_new_policy)
    [timeline] = request.keys
    service, policy = request.service, policy_noted(given.policy)
    change = service.digests.set_policy(timeline, policy)
    await noted(change, service, request.principal, "set policy", timeline=timeline, subject=policy)
    return await show_policy(request)


async def show_preference(request: Request) -> PreferenceAnswer:
    found = await request.service.digests.preference(request.keys[0])
    if found is None:
        raise Problem(404, "nothing was chosen for this timeline")
    return PreferenceAnswer(found.cadence, found.zone, None if found.policy is None else policy_text(found.policy))


async def set_preference(request: Request) -> PreferenceAnswer:
    given = await request.json(_new_preference)
    [timeline] = request.keys
    service, chosen = request.service, preference_noted(given.cadence, given.zone)
    change = service.digests.prefer(timeline, given.cadence, zone=given.zone)
    await noted(change, service, request.principal, "prefer", timeline=timeline, subject=chosen)
    return await show_preference(request)
