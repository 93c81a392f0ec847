"""Levels: the fields by which records are grouped, and what a reader sees of them: a label and a link."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from digestif.compose.fields import Field, Identity, Reader, identity, label_of, reader
from digestif.compose.texts import link_of, safe_link, text_of
from digestif.core.records import Record
from digestif.core.texts import did_you_mean, shortened
from digestif.errors import ConfigError

Level = Field | Mapping[str, Field]  # a mapping has fields for `by`, `label` and `url`

KEY_FIELDS = ("id", "key")  # the first that an object has tells it from others
NAME_FIELDS = ("title", "name", "subject", "label")
_OPTIONS = ["by", "label", "url"]


@dataclass(slots=True)
class Named:
    """A value with a label and a link that come from other fields."""

    value: Any
    label: Any
    url: Any


def level_reader(level: Level, option: str) -> Reader:
    """A function that reads a level of records; see `reader`. A mapping gives values that are Named."""
    if not isinstance(level, Mapping):
        return reader(level, option)
    for name in level:
        if name not in _OPTIONS:
            raise ConfigError(f"{option}: {shortened(name)}: unknown{did_you_mean(str(name), _OPTIONS)}")
    if "by" not in level:
        raise ConfigError(f'{option}: {shortened(dict(level))} lacks "by", the field whose values are compared')
    parts = {name: reader(field, f"{option}: {name}") for name, field in level.items()}
    return partial(_read_named, parts)


def _read_named(parts: Mapping[str, Reader], records: Sequence[Record]) -> list[Any]:
    nothing = [None] * len(records)
    columns = [parts[name](records) if name in parts else nothing for name in _OPTIONS]
    return [_named(*read) for read in zip(*columns, strict=True)]


def _named(value: Any, label: Any, url: Any) -> Any:
    """A list gives a list: its labels and links are lists of the same length, or the same for all."""
    if not isinstance(value, list | tuple):
        return Named(value, label, url)
    labels, urls = _for_each(label, len(value)), _for_each(url, len(value))
    return [Named(*each) for each in zip(value, labels, urls, strict=True)]


def _for_each(given: Any, count: int) -> Sequence[Any]:
    if not isinstance(given, list | tuple):
        return [given] * count
    return given if len(given) == count else [None] * count


def identities(values: Sequence[Any]) -> list[Identity]:
    """What tells values apart: their JSON; of an object with a key, the key alone. Raises as `identity` does."""
    kinds = set(map(type, values))
    if not any(issubclass(kind, dict | Named) for kind in kinds):
        return list(map(identity, values))
    return list(map(identity_of, values))


def identity_of(value: Any) -> Identity:
    value = value.value if isinstance(value, Named) else value
    name = _key_field(value)
    return identity({name: value[name]} if name else value)


def shown_as(value: Any) -> tuple[Any, str, str]:
    """What records with the same value share, its label, and its link if there is a safe one.

    They share the key of an object that has one, else the value. The label is what was given with it, else the name of
    the object, else what they share.
    """
    if isinstance(value, Named):
        key, label, url = shown_as(value.value)
        has_label = key is not None and _is_text(value.label)
        return key, label_of(value.label) if has_label else label, safe_link(value.url) or url
    if not isinstance(value, dict):
        return value, label_of(value), ""
    name = _key_field(value)
    key = value[name] if name else value
    return key, label_of(text_of(value, NAME_FIELDS) or key), link_of(value)


def _key_field(value: Any) -> str:
    fields = value if isinstance(value, dict) else {}
    return next((name for name in KEY_FIELDS if fields.get(name) not in (None, "")), "")


def _is_text(label: Any) -> bool:
    return isinstance(label, str | int | float) and not isinstance(label, bool) and str(label).strip() != ""
