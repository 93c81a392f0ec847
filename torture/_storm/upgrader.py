"""The role of a storm that raises the schema of its stores: a process of a later build opens them."""

from collections.abc import Iterator

from torture._storm.actor import Actor


class Upgrader(Actor):
    """Brings every store that is served up to the schema of its build, as `digestif migrate` does."""

    def play(self) -> None:
        def upgrade() -> Iterator[None]:
            with self.served() as engines:
                for digests in engines:
                    if hasattr(digests.store, "migrate"):
                        digests.store.migrate()
                    digests.ledger()  # opens the others, which brings them up to date
            self.notes.note("upgraded", self.scene.builds[-1])
            while True:
                self.wait(60)
                yield

        self.in_threads(upgrade)
