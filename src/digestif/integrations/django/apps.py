"""The app, for INSTALLED_APPS: it has the command and the check of the settings, and no models."""

from typing import Any

from django.apps import AppConfig
from django.core import checks

from digestif.errors import ConfigError
from digestif.integrations.django.engine import rehearse

TAG = "digestif"


class DigestifConfig(AppConfig):  # type: ignore[misc]  # Django has no types
    name = "digestif.integrations.django"
    label = "digestif"
    verbose_name = "Digestif"

    def ready(self) -> None:
        checks.register(check_settings, TAG)


def check_settings(**_: Any) -> list[checks.CheckMessage]:
    """Refuse wrong settings when the project starts. Neither the store nor a channel is opened for that."""
    try:
        rehearse()
    except ConfigError as error:
        return [checks.Error(str(error), id="digestif.E001")]
    return []
