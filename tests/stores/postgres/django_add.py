"""Adds through Django's connection, in a process of its own: Django is configured once and for all."""

import sys
from urllib.parse import urlsplit

import django
from django.conf import settings
from django.db import connection, transaction

from digestif import Digests

url = sys.argv[1]
parts = urlsplit(url)
database = {"ENGINE": "django.db.backends.postgresql", "NAME": parts.path[1:], "USER": parts.username}
settings.configure(DATABASES={"default": {**database, "HOST": parts.hostname, "PORT": parts.port}})
django.setup()
with Digests(url) as digests:
    with transaction.atomic():
        digests.add("t", "kept", connection=connection)
    try:
        with transaction.atomic():
            digests.add("t", "never", connection=connection)
            raise ZeroDivisionError
    except ZeroDivisionError:
        pass
    sys.stdout.write(f"{[record.value for record in digests.peek('t')]}\n")
connection.close()
