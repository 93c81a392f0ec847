"""What people see of live workers: which ones are silent, and whose policies differ."""

from digestif import LiveWorker
from digestif.core.workers import LONGEST_POLICY, noted_policies, policy_conflicts


def test_a_worker_is_silent_from_20_seconds_on() -> None:
    worker = LiveWorker(name="w", host="h", pid=1, since=0, seen=100, patterns=("*",))

    assert worker.silence(now=119.9) is None
    assert worker.silence(now=120) == "not seen for 20 s: it may have died"


def a_worker(name: str, policies: dict[str, str], *, since: float = 0, seen: float = 10) -> LiveWorker:
    return LiveWorker(name=name, host=name, pid=1, since=since, seen=seen, patterns=(*policies,), policies=policies)


def test_a_conflict_of_two_hundred_workers_is_one_line_of_ordinary_length() -> None:
    [conflict] = policy_conflicts([a_worker(f"w{n:03}", {"*": f"policy {n % 9}"}) for n in range(200)])

    assert len(conflict.policies) == 9
    assert str(conflict).startswith("*: policy 0 (w000:1, w009:1, w018:1, w027:1, 19 more) or policy 1 (")
    assert str(conflict).endswith(" or 5 more")


def test_workers_with_the_same_policies_and_others_of_older_releases_are_no_conflict() -> None:
    same, same_too = a_worker("a", {"*": "hourly"}), a_worker("b", {"*": "hourly", "mail:*": "default"})
    older = LiveWorker(name="c", host="c", pid=1, since=0, seen=10, patterns=("*",))

    assert policy_conflicts([same, same_too, older]) == []


def test_a_worker_that_died_before_another_began_is_no_conflict() -> None:
    died, next_ = a_worker("a", {"*": "hourly"}, seen=5), a_worker("b", {"*": "default"}, since=6)

    assert policy_conflicts([died, next_]) == []
    assert len(policy_conflicts([died, next_, a_worker("c", {"*": "immediate"})])) == 1


def test_long_policies_are_noted_short_and_stay_different() -> None:
    texts = {"a": "x" * 5000 + "1", "b": "x" * 5000 + "2", "c": "hourly"}

    noted = noted_policies(texts, ["a", "b", "c", "unknown"])

    assert noted["c"] == "hourly"
    assert noted["a"] != noted["b"]
    assert max(map(len, noted.values())) <= LONGEST_POLICY
    assert "unknown" not in noted
