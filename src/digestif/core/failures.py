"""Failed attempts, as they are shown while their digest is tried again."""

from dataclasses import dataclass

from digestif.core.machine import Unfinished
from digestif.core.spans import span


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedAttempt:
    """The latest attempt of an unfinished digest that failed. Times in seconds."""

    timeline: str
    digest_id: str
    attempt: int
    attempts: int  # after which the digest is buried, by the policy that was in force
    counted: bool  # False: the message may have gone out
    reason: str
    at: float
    ago: float  # when this was read

    def __str__(self) -> str:
        """For people: which attempt, when, and why."""
        which = f"attempt {self.attempt} of {self.attempts} failed" if self.counted else "an attempt may have gone out"
        return f"{which} {span(self.ago)} ago: {self.reason}"

    def is_about(self, digest: Unfinished | None) -> bool:
        """True if this digest is still to be delivered. One that was replayed counts its attempts anew."""
        tried = self.attempt if self.counted else self.attempt - 1
        return digest is not None and digest.id == self.digest_id and tried <= digest.attempt
