"""Digestif in a Django project: settings, transactions, `manage.py digestif`, and the mails that it sends as digests.

INSTALLED_APPS = [..., "digestif.integrations.django"]
DIGESTIF = {"STORE": "sqlite:///digests.db"}

from digestif.integrations.django import add

add("mail:ada@example.org", {"title": "Build 7 failed"})  # once the current transaction commits
"""

from digestif.exports import needs as _needs

with _needs("django", module=__name__):
    import django as _django  # noqa: F401  # asked for here, for a message that says what to do

from digestif.integrations.django.admins import DigestAdminHandler
from digestif.integrations.django.engine import digests, handler, route
from digestif.integrations.django.mail import DigestEmailBackend
from digestif.integrations.django.transactions import add

__all__ = ["DigestAdminHandler", "DigestEmailBackend", "add", "digests", "handler", "route"]
