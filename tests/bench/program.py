"""Runs the programs of bench/ as if they had been called from the command line."""

import json
import sys
from typing import Any

import click
import pytest

from bench._measure import start


class Program:
    """Runs a program of bench/ here, as if it had been called with these arguments."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch = monkeypatch
        self._capsys = capsys

    def __call__(self, command: click.Command, *args: str, status: int = 0) -> str:
        self._monkeypatch.setattr(sys, "argv", ["bench", *args])
        with pytest.raises(SystemExit) as ended:
            start(command, name="./dev bench")
        said = self._capsys.readouterr()
        assert ended.value.code == status, said.err
        return said.out or said.err

    def figures(self, command: click.Command, *args: str, status: int = 0) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self(command, *args, "--json", status=status))
        return answer


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Program:
    return Program(monkeypatch, capsys)
