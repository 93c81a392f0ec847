"""Writes the tables and the picture of docs/how-to/see-a-week.md anew: python -m tests.docs.week."""

from tests.docs.week.events import SPRING, WEEKS
from tests.docs.week.outcomes import outcomes
from tests.docs.week.page import PAGE, written
from tests.docs.week.picture import PICTURE, draw


def main() -> None:
    found = {week.name: outcomes(week) for week in WEEKS}
    PAGE.write_text(written(PAGE.read_text("utf-8"), found), "utf-8")
    PICTURE.write_text(draw(SPRING, found[SPRING.name]), "utf-8")


if __name__ == "__main__":
    main()
