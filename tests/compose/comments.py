"""Comments on posts, in languages that are written from left to right and from right to left."""

from typing import Any

from digestif import Digest, Record, Wording, summarize
from digestif.compose.summary import Summary
from tests.compose.samples import MONDAY

COMMENTS = {
    "record": ("comment", "comments"),
    "subject": ("post", "posts"),
    "headline": "{records} on {subjects}",
}

GERMAN = Wording(
    lang="de",
    record=("Kommentar", "Kommentare"),
    subject=("Beitrag", "Beiträgen"),
    more_group=("weitere Gruppe", "weitere Gruppen"),
    older_record=("älterer", "ältere"),
    distinct={"people": ("Person", "Personen")},
    thousands=".",
    headline="{records} zu {subjects}",
    mail_subject="{lead} und {more} mehr ({records})",
    more_items="und {more} weitere",
    more_subjects="und {more} weitere mit {records}",
    more_groups="und {groups} mit {records}",
    dropped="und {records}, die keinen Platz fanden",
    outlook="Der nächste kommt meist nicht vor {time}.",
    newest="Zuletzt:",
    details="Ansehen",
    open="Öffnen",
    settings="Einstellungen",
    unsubscribe="Abbestellen",
    other="ohne",
    empty="(leer)",
    no_text="(kein Text)",
    days=("Mo", "Di", "Mi", "Do", "Fr", "Sa", "So"),
    months=("Jan.", "Feb.", "März", "Apr.", "Mai", "Juni", "Juli", "Aug.", "Sep.", "Okt.", "Nov.", "Dez."),
    date="{day}. {month}",
    full_date="{weekday}, {day}. {month} {year}",
    moment="{date}, {time} Uhr",
)


def hebrew_comments(count: int) -> str:
    return "תגובה" if count == 1 else "תגובות"


HEBREW = Wording(
    lang="he",
    dir="rtl",
    record=hebrew_comments,
    subject=("פוסט", "פוסטים"),
    headline="{records} על {subjects}",
    mail_subject="{lead} ועוד {more} ({records})",
    distinct={"people": ("אדם", "אנשים")},
    more_items="ועוד {more}",
    outlook="ההודעה הבאה: בדרך כלל לא לפני {time}.",
    details="לפרטים",
    open="פתיחה",
    settings="הגדרות",
    unsubscribe="ביטול הרשמה",
    days=("ב׳", "ג׳", "ד׳", "ה׳", "ו׳", "ש׳", "א׳"),
    months=("ינו׳", "פבר׳", "מרץ", "אפר׳", "מאי", "יוני", "יולי", "אוג׳", "ספט׳", "אוק׳", "נוב׳", "דצמ׳"),
    full_date="יום {weekday} {day} {month} {year}",
)

LONG = "Hello. " + "I disagree. The pot makes less of a difference than the water. " * 9


def comment(post: str, author: str, text: str, number: int) -> dict[str, Any]:
    return {"post": post, "author": {"name": author}, "text": text, "url": f"https://blog.example/c/{number}"}


def digest_of(*told: tuple[str, str, str]) -> Digest:
    """Comments as (post, author, text), the newest first."""
    records = tuple(
        Record(f"c{number}", comment(*each, number), MONDAY - 420 * number) for number, each in enumerate(told)
    )
    return Digest("mail:ada", "d1", 1, 1, 0, records)


def comments() -> Summary:
    """Eight comments on two posts."""
    tea, knots = "How to brew green tea", "Ten knots for sailors"
    digest = digest_of(
        (tea, "Grace", "Seventy degrees, never more. It took me years to learn that."),
        (knots, "Linus", "You forgot the bowline!"),
        (tea, "Margaret", "And which pot do you use?"),
        (tea, "Grace", "A small one of clay."),
        (tea, "Edsger", "Considered harmful without sugar."),
        (tea, "Barbara", "Thank you for the pictures."),
        (tea, "Alan", "Is it possible to decide whether a tea is ready?"),
        (knots, "Katherine", "The third one saved my weekend."),
    )
    return summarize(digest, group_by=["post"], distinct={"people": "author.name"})


def one_post() -> Summary:
    """Three comments on one post."""
    tea = "How to brew green tea"
    digest = digest_of(
        (tea, "Grace", "Seventy degrees."), (tea, "Margaret", "Which pot?"), (tea, "Alan", "Is it ready?")
    )
    return summarize(digest, group_by=["post"], distinct={"people": "author.name"})


def one_comment() -> Summary:
    """One comment, of several paragraphs."""
    text = (
        "I disagree. We tried it all two years ago, and the pot made less of a difference than the water.\n\n"
        "Soft water at seventy degrees gives a sweet cup; hard water at the same heat tastes of nothing. Before you "
        "buy another pot, try a bottle of still water from the shop, and let two friends taste without telling them "
        "which is which.\n\nThank you for the pictures, though!"
    )
    return summarize(
        digest_of(("How to brew green tea", "Ben", text)), group_by=["post"], distinct={"people": "author.name"}
    )


def one_author() -> Summary:
    """Three comments by one person on one post."""
    tea = "How to brew green tea"
    digest = digest_of(
        (tea, "Ben", "And one more thing: the cup matters, too."),
        (tea, "Ben", LONG),
        (tea, "Ben", "First!"),
    )
    return summarize(digest, group_by=["post"], distinct={"people": "author.name"})


def several_posts() -> Summary:
    """One comment on each of three posts."""
    digest = digest_of(
        ("How to brew green tea", "Ben", LONG),
        ("Ten knots for sailors", "Linus", "You forgot the bowline!"),
        ("Why we moved", "Ada", "Welcome to the neighbourhood."),
    )
    return summarize(digest, group_by=["post"], distinct={"people": "author.name"})


def hebrew_comment() -> Summary:
    """One comment in Hebrew."""
    digest = digest_of(("איך מכינים תה ירוק", "נועה", "אני לא מסכימה.\nשבעים מעלות, לא יותר."))
    return summarize(digest, group_by=["post"], distinct={"people": "author.name"})


def hebrew_post() -> Summary:
    """Comments in Hebrew and English on one post."""
    tea = "איך מכינים תה ירוק"
    digest = digest_of((tea, "נועה", "שבעים מעלות, לא יותר."), (tea, "Grace", "A small pot of clay."))
    return summarize(digest, group_by=["post"], distinct={"people": "author.name"})


def hebrew() -> Summary:
    """Comments in Hebrew and English."""
    digest = digest_of(
        ("איך מכינים תה ירוק", "נועה", "שבעים מעלות, לא יותר."),
        ("איך מכינים תה ירוק", "Grace", "A small pot of clay."),
        ("עשרה קשרים למלחים", "דוד", "שכחת את קשר העניבה!"),
        ("איך מכינים תה ירוק", "יעל", "תודה על התמונות!"),
    )
    return summarize(digest, group_by=["post"], distinct={"people": "author.name"})
