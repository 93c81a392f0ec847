"""From an event to a message: who dispatches it, what a tick does, and how a digest reads."""

import pytest

from digestif import Digests, Record, summarize
from digestif.testing.conformance.actions import T, deliver, let_wait, scheduled
from tests.origin.stores import OnEveryStore


class TestDispatch(OnEveryStore):
    def test_one_task_is_made_of_each_burst(self, digests: Digests) -> None:
        """Fact 34. The event that makes a timeline ready leads to one task; those that follow lead to none."""
        tasks: list[str] = []

        answers = [digests.notify("mail:p:1", n, dispatch=tasks.append, now=T) for n in range(3)]

        assert (answers, tasks) == ([True, False, False], ["mail:p:1"])
        assert len(deliver(digests, tasks[0])) == 3
        assert digests.notify("mail:p:1", "in the cool-down", dispatch=tasks.append, now=T + 1) is False
        assert len(tasks) == 1

    def test_a_tick_takes_back_what_got_lost_and_makes_one_task_of_each_timeline_that_is_due(
        self, digests: Digests
    ) -> None:
        """Fact 35. Maintenance first, so that the same tick schedules what it takes back; nothing comes twice."""
        digests.add("lost", "an event", now=T - 300)
        let_wait(digests, "due", due=T, last=T - 300)
        let_wait(digests, "later", due=T + 1, last=T - 300)

        digests.maintenance(now=T)
        tasks = scheduled(digests, T)

        assert sorted(tasks) == ["due", "lost"]
        assert digests.maintenance(now=T) == 0
        assert scheduled(digests, T) == []

    def test_a_task_without_records_sends_nothing(self, digests: Digests) -> None:
        """Fact 35. After a cool-down in which nothing came, the handler is not called, and the timeline is idle."""
        sent: list[object] = []
        digests.handler("*")(sent.append)
        let_wait(digests, "t", due=T, last=T - 300)
        assert scheduled(digests, T) == ["t"]

        assert digests.deliver("t", now=T) is False

        assert sent == []
        assert digests.timeline("t").state == "idle"


class TestHowADigestReads(OnEveryStore):
    def test_events_are_found_under_their_issue_and_issues_under_their_rule(self, digests: Digests) -> None:
        """Fact 36. Issues by number of events, rules by number of issues, both falling."""
        seen = [("errors", "crash")] * 3 + [("errors", "timeout")] * 2 + [("deploys", "api")] * 6
        seen += [("tests", name) for name in "abc"]
        report(digests, seen)

        summary = summarize(deliver(digests, "t"), group_by=["rule", "issue"])

        read = [(group.label, [(each.label, each.count) for each in group.subjects]) for group in summary.groups]
        assert [rule for rule, _ in read] == ["tests", "errors", "deploys"]
        assert read[1] == ("errors", [("crash", 3), ("timeout", 2)])

    def test_one_issue_alone_reads_as_a_single_notification(self, digests: Digests) -> None:
        """Fact 36. Three events of one issue: the newest of them, as if it had come alone."""
        report(digests, [("errors", "crash")] * 3)

        digest = deliver(digests, "t")

        assert summarize(digest, group_by=["rule", "issue"]).single == digest[0]

    @pytest.mark.parametrize(("issues", "more"), [(10, 0), (12, 2)])
    def test_ten_issues_of_a_rule_are_shown_and_the_others_counted(
        self, digests: Digests, issues: int, more: int
    ) -> None:
        """Fact 37. Of twelve issues ten are shown, and that there are two more is said."""
        report(digests, [("errors", f"issue {n}") for n in range(issues)])

        [group] = summarize(deliver(digests, "t"), group_by=["rule", "issue"]).groups

        assert (len(group.subjects), group.more) == (10, more)


def report(digests: Digests, seen: list[tuple[str, str]]) -> None:
    for n, (rule, issue) in enumerate(seen):
        digests.add("t", Record(f"r{n}", {"rule": rule, "issue": issue}, T + n), now=T)
