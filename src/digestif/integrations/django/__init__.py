"""Digestif in a Django project: settings, transactions, `manage.py digestif`, and the mails that it sends as digests.

INSTALLED_APPS = [..., "digestif.integrations.django"]
DIGESTIF = {"STORE": "sqlite:///digests.db"}

from digestif.integrations.django import add

add("mail:ada@example.org", {"title": "Build 7 failed"})  # once the current transaction commits
"""

try:
    import django as _django  # noqa: F401  # asked for here, for a message that says what to do
except ImportError as missing:
    raise ImportError(
        f"digestif.integrations.django needs {missing.name}: pip install 'digestif[django]'", name=missing.name
    ) from missing

from digestif.integrations.django.admins import DigestAdminHandler
from digestif.integrations.django.engine import digests, handler, route
from digestif.integrations.django.mail import DigestEmailBackend
from digestif.integrations.django.transactions import add

__all__ = ["DigestAdminHandler", "DigestEmailBackend", "add", "digests", "handler", "route"]
