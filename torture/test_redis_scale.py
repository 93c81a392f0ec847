"""The program that proves how long calls keep a server, with small numbers."""

from tests.bench.test_redis_programs import figures


def test_the_proof_of_scale_goes_through_every_phase_and_leaves_nothing() -> None:
    found = figures("bench.redis_scale", "--timelines", "400", "--records", "500", "--producers", "2")

    phases = {phase["phase"]: phase for phase in found["phases"]}
    assert phases["add 400 timelines"]["done"] == 400
    assert phases["claim, read, close them"]["done"] == 400
    assert phases["merge 250 with 250"]["done"] == 500
    assert phases["expire 500"]["done"] == 500
    assert all(phase["calls"] > 0 and phase["peak"] >= phase["before"] for phase in found["phases"])
    assert (found["things"], found["problems"]) == ({}, [])
