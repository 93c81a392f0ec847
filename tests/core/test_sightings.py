"""How sightings read in words."""

import pytest

from digestif import Fate, Sighting
from digestif.core.sightings import in_words

T = 1_700_000_000.0


@pytest.mark.parametrize(
    ("sighting", "words"),
    [
        (Sighting(Fate.PENDING), "pending: it goes out with the next digest"),
        (Sighting(Fate.OPEN, "d"), "in the digest d, which has not ended yet"),
        (Sighting(Fate.DELIVERED, "d", T), "delivered with the digest d, 0 s"),
        (Sighting(Fate.EXPIRED, "d", T), "expired with the digest d, 0 s"),
        (Sighting(Fate.DEAD, "d", T), "in the dead letter d, 0 s"),
        (Sighting(Fate.RETRACTED, ended=T), "retracted, 0 s"),
        (Sighting(Fate.LEFT_OUT, "d", T), "left out of the digest d by a `keep` hook, 0 s"),
        (Sighting(Fate.LEFT_OUT, "d"), "left out of the digest d by a `keep` hook"),
        (
            Sighting(Fate.DECLINED, certain=False, since=T),
            "it may have been deleted or declined: the timeline was switched off, which deleted what was pending, 0 s",
        ),
        (
            Sighting(Fate.DROPPED, certain=False, records=1),
            "it may have been dropped: 1 record did not fit, the oldest by timestamp, since the last digest",
        ),
        (
            Sighting(Fate.DROPPED, "d", T, certain=False, records=1_500),
            "it may have been dropped: 1,500 records did not fit, the oldest by timestamp, up to the digest d, 0 s",
        ),
        (
            Sighting(Fate.EXPIRED, ended=T + 2, certain=False, since=T, records=3),
            "it may have expired: 3 records did, from 0 s to 2 s",
        ),
        (
            Sighting(Fate.DELIVERED, "d", T, certain=False, since=T, records=5),
            "it may have been delivered: 5 records of large digests have no key, up to the digest d, 0 s",
        ),
        (
            Sighting(Fate.LEFT_OUT, "d", T, certain=False, since=T),
            "it may have been left out by a `keep` hook: not all keys of the digest d are kept, 0 s",
        ),
        (
            Sighting(Fate.FORGOTTEN, ended=T, certain=False),
            "it may be older than what is kept: what ended before 0 s is forgotten",
        ),
    ],
)
def test_every_fate_has_its_words(sighting: Sighting, words: str) -> None:
    assert in_words(sighting, time=lambda at: f"{at - T:.0f} s") == words


def test_every_fate_has_words_with_times_in_utc() -> None:
    assert all(in_words(Sighting(fate, "d", T, certain=False, since=T)) for fate in Fate)
    assert in_words(Sighting(Fate.RETRACTED, ended=T)) == "retracted, 2023-11-14T22:13:20.000Z"
