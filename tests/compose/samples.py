"""Summaries to render, made by hand."""

from digestif.compose.summary import Group, Subject, Summary
from digestif.core.records import Record

MONDAY = 1794816720.0  # 16 Nov 2026, 08:12 in London and Lisbon, 09:12 in Berlin
LINKS = {
    "open": "https://alerts.example/inbox",
    "unsubscribe": "https://alerts.example/u?who=ada&what=mail",
    "settings": "https://alerts.example/settings",
}


def subject(
    label: str, value: object = None, *, count: int = 1, at: float = MONDAY, lasts: float = 0, **distinct: int
) -> Subject:
    newest = Record(f"key of {label[:20]}", label if value is None else value, at + lasts)
    return Subject(key=label, label=label, count=count, first=at, last=at + lasts, newest=newest, distinct=distinct)


def group(label: str, *subjects: Subject, more: int = 0, more_records: int = 0, **distinct: int) -> Group:
    newest = max((each.newest for each in subjects), key=lambda record: record.timestamp)
    return Group(
        key=label,
        label=label,
        count=sum(each.count for each in subjects) + more_records,
        first=min(each.first for each in subjects),
        last=max(each.last for each in subjects),
        newest=newest,
        subjects=subjects,
        more=more,
        more_records=more_records,
        distinct=distinct,
    )


def summary(*groups: Group, more: int = 0, more_records: int = 0, dropped: int = 0, **distinct: int) -> Summary:
    newest = max((each.newest for each in groups), key=lambda record: record.timestamp)
    return Summary(
        timeline="mail:ada",
        count=sum(each.count for each in groups) + more_records,
        subjects=sum(each.size for each in groups) + more,
        first=min(each.first for each in groups),
        last=max(each.last for each in groups),
        newest=newest,
        groups=groups,
        more=more,
        more_records=more_records,
        dropped=dropped,
        distinct=distinct,
    )


def single(value: object = None, *, count: int = 1, lasts: float = 0, label: str = "disk") -> Summary:
    value = {"title": "Disk of db-1 is 91 % full", "message": "About six hours are left."} if value is None else value
    return summary(group("", subject(label, value, count=count, lasts=lasts)))


def many() -> Summary:
    """An ordinary morning: three groups, nothing left out."""
    return summary(
        group(
            "Checkout",
            subject(
                "PaymentTimeout in charge_card",
                {"title": "The bank did not answer within 10 s", "url": "https://errors.example/i/4711"},
                count=48,
                lasts=5280,
                users=31,
            ),
            subject(
                "KeyError: 'currency'",
                {"title": "Basket without a currency"},
                count=12,
                at=MONDAY + 600,
                lasts=1500,
                users=9,
            ),
            subject("Stock below zero", {"message": "Item 2207, warehouse Lisbon"}, count=1, at=MONDAY + 4000, users=1),
        ),
        group(
            "Search",
            subject(
                "Slow query",
                {"title": "4.2 s for “winter boots size 38”"},
                count=7,
                at=MONDAY + 1200,
                lasts=2400,
                users=6,
            ),
            subject(
                "Index is behind", {"title": "18 minutes behind, normal is 2"}, count=3, at=MONDAY + 300, lasts=900
            ),
        ),
        group(
            "Accounts",
            subject("Sign-ins from a new country", {"title": "Ada signed in from Norway"}, count=2, lasts=60, users=2),
        ),
        users=44,
    )


def overflow() -> Summary:
    """More groups, subjects and records than are shown."""
    lines = [
        subject(f"Alert {n:02} of the night shift", {"title": f"Threshold {n} passed"}, count=400 // n, lasts=60.0 * n)
        for n in range(1, 11)
    ]
    return summary(
        group("Sensors", *lines, more=1990, more_records=8411),
        group("Gateways", *lines[5:8], more=3, more_records=4),
        more=17,
        more_records=203,
        dropped=120,
    )


def hostile() -> Summary:
    """Contents of an attacker."""
    return summary(
        group(
            "<script>alert('group')</script>",
            subject(
                "=?utf-8?q?Hi=0D=0ABcc:_eve@evil.example?=",
                {"title": "<img src=https://evil.example/x onerror=alert(1)>", "url": "javascript:alert(1)"},
                count=3,
            ),
            subject(
                "line\r\nBcc: eve@evil.example\r\n\r\nbody",
                {"title": "\u202egnp.exe\u202c and \u2066more\x00\x1b[31m"},
                count=2,
            ),
            subject('"><a href="https://evil.example">', {"title": "</td></table><style>*{display:none}</style>"}),
            subject(
                "[click](javascript:alert(1)) `x` *y*",
                {"title": "<!channel> <https://evil.example|bank> @everyone &amp;"},
            ),
            subject(
                "\ud800 alone", {"title": "{{ 7 * 7 }} {% for %}", "url": 'https://ok.example/"onmouseover="alert(1)'}
            ),
            subject("\u200b\u2060\ufeff", {"a": [1, {"b": "<b>"}]}),
        ),
        **{"<i>users</i>": 5},
    )
