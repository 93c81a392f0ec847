"""`Messages`: queries, and what people see of messages: those that were sent, and the one that would be sent now."""

from functools import partial
from typing import TYPE_CHECKING

from digestif.core.records import check_timeline
from digestif.core.texts import reason_of
from digestif.core.verdicts import Discard
from digestif.engine import Engine
from digestif.errors import ConfigError, DigestifError
from digestif.intake.arrivals import check_limit, check_text
from digestif.queries import Queries
from digestif.stores.documents import DOCUMENTS_PAGE, Bounds

if TYPE_CHECKING:
    from collections.abc import Callable

    from digestif.channels.base import Message
    from digestif.core.records import Record
    from digestif.routes.archive import KeptMessage


class Messages(Queries):
    """What people see of messages."""

    def keep_messages(self, entries: int = 1000, bytes: int = 50_000_000) -> None:  # as people say it
        """Keep the messages that routes of this engine send from now on: the last ones, within these bounds.

        A message that can't be kept is sent all the same. They are deleted with their timeline.
        """
        for name, bound in (("entries", entries), ("bytes", bytes)):
            if type(bound) is not int or bound < 1:
                raise ConfigError(f"{name}: {bound!r} is not a whole number ≥ 1")
        self.engine.archive.bounds = Bounds(entries, bytes)

    def messages(
        self,
        timeline: str | None = None,
        before: str | None = None,
        limit: int = 100,
        *,
        now: float | None = None,
    ) -> "list[KeptMessage]":
        """Messages that were sent and kept, the latest first; the last id of a page is the `before` of the next."""
        from digestif.routes.archive import COLLECTION, kept_message

        check_limit("limit", limit)
        of = None if timeline is None else check_timeline(timeline)
        before = None if before is None else check_text("before", before)
        found = self.store.documents(
            COLLECTION, timeline=of, before=before, limit=min(limit, DOCUMENTS_PAGE), now=self.engine.intake.millis(now)
        )
        return [message for each in found if (message := kept_message(each)) is not None]

    def message(self, digest_id: str, *, now: float | None = None) -> "KeptMessage | None":
        """The message of a digest, if it was kept."""
        from digestif.routes.archive import COLLECTION, kept_message

        found = self.store.kept(COLLECTION, check_text("digest_id", digest_id), now=self.engine.intake.millis(now))
        return None if found is None else kept_message(found)

    def preview(self, timeline: str, *, now: float | None = None) -> "Message | None":
        """The message that the timeline's route would send now, in text and HTML; None without route or records, or if
        a function about the reader raises Discard.

        No hook of the route is called, and nothing is sent. ConfigError if a template or such a function fails.
        """
        render = preview_renderer(self.engine, timeline, lambda: self.peek(timeline, now=now), now=now)
        return None if render is None else render()


def preview_renderer(
    engine: Engine, timeline: str, read: "Callable[[], list[Record]]", *, now: float | None = None
) -> "Callable[[], Message] | None":
    """Ask the store and the route's functions for what a preview needs. The answer renders it."""
    route = engine.route_of(check_timeline(timeline))
    records = [] if route is None else read()
    if route is None or not records:
        return None
    from digestif.routes.preview import digest_of, look_of, preview

    override = engine.store.inspect(timeline).override
    policy, chosen = engine.policies.in_force(timeline, override).policy, override.zone if override else None
    try:
        look = look_of(route, timeline, policy, chosen=chosen)
    except Discard:
        return None
    except DigestifError:
        raise
    except Exception as error:
        raise ConfigError(f"a function of the route {route.pattern} failed: {reason_of(error)}") from error
    return partial(preview, digest_of(timeline, records), look, now=engine.intake.seconds(now))
