"""What schemathesis leaves out: keys with few enough characters and too many bytes, which no schema counts."""

from typing import Any

import schemathesis

from digestif.core.records import KEY_BYTES


@schemathesis.hook
def filter_case(context: Any, case: Any) -> bool:
    return not any(map(_is_between, _texts([case.path_parameters, case.query, case.body])))


def _is_between(text: str) -> bool:
    return len(text) <= KEY_BYTES < len(text.encode("utf-8", "surrogatepass"))


def _texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for part in value.items() for text in _texts(part)]
    if isinstance(value, list | tuple):
        return [text for part in value for text in _texts(part)]
    return [value] if isinstance(value, str) else []
