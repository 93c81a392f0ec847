"""The program itself, for `celery -A`."""

from tests.integrations.mailroom import Setup, make_app

app, tasks = make_app(Setup.of_environment())
