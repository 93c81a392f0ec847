"""What a digest about one subject is called: at the top, below that, and in the subject of a mail."""

from dataclasses import dataclass

from digestif.compose.phrases import enumerated, label_beside, named, unsaid
from digestif.compose.summary import Summary
from digestif.compose.texts import author_of, cut, has_heading, one_line, text_of, title_of
from digestif.compose.wording import Wording

TEXT_LENGTH = 80  # in the subject of a mail, if more follows
NAME_LENGTH = 50


@dataclass(frozen=True, slots=True)
class Names:
    """The texts for a digest about one subject."""

    headline: str
    about: tuple[str, ...]  # what stands below the headline, besides counts and times
    mail_subject: str


def names_of_notification(summary: Summary, words: Wording) -> Names:
    """For one record, or several that look the same: headed by its title, or by its subject if it is a text only."""
    value = summary.newest.value
    title, author = title_of(value, words.no_text), author_of(value)
    label, groups = _label(summary, words), _groups(summary)
    headline = title if has_heading(value) else label or title
    records = words.records(summary.count) if summary.count > 1 else ""
    signature = "" if author in (headline, label) else author
    text = words.signed(author, title if text_of(value) or not label else "")
    said = text if has_heading(value) else author  # a text may name its subject by chance
    return Names(
        headline=headline,
        about=(*unsaid(headline, groups, label), signature, records),
        mail_subject=enumerated(
            *(cut(name, NAME_LENGTH) for name in unsaid(said, groups, label)),
            cut(text, TEXT_LENGTH) if records else text,
            records,
        ),
    )


def names_of_list(summary: Summary, words: Wording) -> Names:
    """For several records that are listed: headed by their number and their subject."""
    subject, records, groups = summary.groups[0].subjects[0], words.records(summary.count), _groups(summary)
    label = _label(summary, words) or (named(subject) and title_of(subject.newest.value))
    headline = words.headline if label else words.headline_each
    return Names(
        headline=headline.format(records=records, subjects=label),
        about=tuple(unsaid(label, groups)),
        mail_subject=enumerated(
            *(cut(name, NAME_LENGTH) for name in unsaid(label, groups)),
            headline.format(records=records, subjects=cut(label, TEXT_LENGTH)),
        ),
    )


def _label(summary: Summary, words: Wording) -> str:
    """The label of the only subject, if it has one that is not its title."""
    subject = summary.groups[0].subjects[0]
    return label_beside(title_of(subject.newest.value), subject, words) if named(subject) else ""


def _groups(summary: Summary) -> str:
    return one_line(", ".join(filter(None, map(named, summary.groups))))
