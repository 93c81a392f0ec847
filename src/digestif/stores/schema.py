"""The two numbers of a store's schema, and the refusal of a process that is too old to write it."""

from typing import NamedTuple


class Schema(NamedTuple):
    """The numbers of a schema, in a store or in a release.

    A process has the version that its release knows. It may use a store whose `oldest` is not above that; what an
    additive change brought to the store since then, it leaves alone.
    """

    version: int  # raised by every change
    oldest: (
        int  # the oldest version that may still write: raised by a change that an older process would undo or misread
    )

    def admits(self, version: int) -> bool:
        """True if a process of this version may write the store."""
        return version >= self.oldest


def too_old(store: str, *, oldest: int, version: int) -> str:
    """Return why a process of this version may not use the store, and what to do."""
    return (
        f"{store}: a newer release has raised its schema. It asks for processes of version {oldest} or later, and this "
        f"process has version {version}. Nothing was changed, and nothing is lost. Upgrade this process"
    )
