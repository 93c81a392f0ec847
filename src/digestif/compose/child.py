"""The child process that renders users' templates: `python -m digestif.compose.child`, with a socket as stdin.

It limits itself before it reads a template: the kernel limits its memory, and an alarm ends it after a time, even in
the middle of one long operation.
"""

import resource
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from jinja2 import TemplateError, TemplateSyntaxError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from digestif.compose.frames import receive, send
from digestif.compose.sandbox import environment
from digestif.compose.texts import encodable

LONGEST_OUTPUT = 2 * 1024 * 1024  # characters, of one template

try:
    import css_inline
except ImportError:
    css_inline = None  # type: ignore[assignment]  # then styles are not inlined


def main() -> None:
    """Read the settings, then answer requests until the parent closes the socket."""
    with socket.socket(fileno=sys.stdin.fileno()) as parent:
        settings = receive(parent)
        if settings is not None:
            limit(settings["memory"])
            send(parent, {"ready": True})
            serve(parent, environment(Path(settings["folder"]), preview=settings["preview"]), settings["timeout"])


def serve(parent: socket.socket, env: ImmutableSandboxedEnvironment, timeout: float) -> None:
    """Answer requests until the socket closes, or one has used up the memory."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # by default it ends the process
    while (request := receive(parent)) is not None:
        signal.setitimer(signal.ITIMER_REAL, timeout)
        answer = render(env, request["templates"], request["context"])
        signal.setitimer(signal.ITIMER_REAL, 0)
        send(parent, answer)
        if "spent" in answer:
            return


def limit(memory: int) -> None:
    """Limit what a template does not need: memory, writing files, processes, core dumps."""
    for what, most in (
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NPROC, 0),
    ):
        _, hard = resource.getrlimit(what)
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        with suppress(ValueError):  # macOS can't limit memory; there only the time is limited
            resource.setrlimit(what, (most, most))


def render(env: ImmutableSandboxedEnvironment, templates: dict[str, str], context: dict[str, Any]) -> dict[str, Any]:
    """Render each template with the context; the answer holds all texts, or the error of one."""
    rendered: dict[str, str] = {}
    name = ""
    try:
        for part, name in templates.items():
            rendered[part] = _render(env, name, context)
    except MemoryError:
        return {"error": f"{name} needs more memory than it may have", "spent": True}
    except Exception as error:  # noqa: BLE001  # templates may raise anything
        return {"error": _reason(error, name)}
    return {"rendered": rendered}


def _render(env: ImmutableSandboxedEnvironment, name: str, context: dict[str, Any]) -> str:
    pieces: list[str] = []
    length = 0
    for piece in env.get_template(name).generate(context):
        length += len(piece)
        if length > LONGEST_OUTPUT:
            raise TemplateError(f"makes more than {LONGEST_OUTPUT:,} characters")
        pieces.append(piece)
    text = encodable("".join(pieces))
    return _inlined(text) if name.endswith(".html") and "<style" in text else text


def _inlined(html: str) -> str:
    if css_inline is None:
        return html
    inliner = css_inline.CSSInliner(keep_style_tags=True, load_remote_stylesheets=False)
    return inliner.inline(html)


def _reason(error: Exception, name: str) -> str:
    if isinstance(error, RecursionError):
        return f"{name} is nested too deeply"
    if isinstance(error, TemplateSyntaxError):
        return f"{error.name or name}, line {error.lineno}: {error.message}"
    return f"{name}{_line_of(error, name)}: {type(error).__name__}: {error}"[:500]


def _line_of(error: Exception, name: str) -> str:
    """The line of the template in a traceback, which Jinja2 rewrites to show the template's own lines."""
    trace, line = error.__traceback__, 0
    while trace is not None:
        if trace.tb_frame.f_code.co_filename.endswith(name):
            line = trace.tb_lineno
        trace = trace.tb_next
    return f", line {line}" if line else ""


if __name__ == "__main__":
    main()
