"""Renders chat templates. A template is a program that comes with a checkpoint: it may loop forever
or fill the memory. So it runs in a process of its own (``python -m specdiff_core.templating``),
with limits on time, memory and output.

The names it finds are those of transformers' ``apply_chat_template``. Without importing
transformers it starts in 0.1 s; it stays for the next chat unless a limit was exceeded."""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

SECONDS = 5
MEMORY = 512_000_000  # bytes of address space
CHARACTERS = 1_000_000


_turn = threading.Lock()


@functools.cache
def _process() -> subprocess.Popen[bytes]:
    """The process that renders: it ends with this one."""
    command = [sys.executable, "-m", "specdiff_core.templating"]
    home = Path(__file__).parent.parent
    process = subprocess.Popen(
        command, cwd=home, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    atexit.register(_end, process)
    return process


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.communicate()


@functools.lru_cache(maxsize=64)
def render(request: str) -> str:
    """Render a chat.

    Args:
        request: JSON on one line: ``[template, values]``.

    Raises:
        ValueError: the template refuses the chat, fails, or exceeds a limit; the message says why.
    """
    with _turn:
        process = _process()
        assert process.stdin and process.stdout
        limit = threading.Timer(SECONDS, process.kill)
        limit.start()
        try:
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(request.encode() + b"\n")
                process.stdin.flush()
            answer = process.stdout.readline()
        finally:
            limit.cancel()
        if not answer:  # ended, by the timer or by itself
            atexit.unregister(_end)
            _end(process)
            _process.cache_clear()
            raise ValueError(f"it needs more than {SECONDS} s or {MEMORY // 10**6} MB")
    text, error = json.loads(answer)
    if error:
        raise ValueError(error)
    return str(text)


@functools.lru_cache(maxsize=8)
def _compiled(template: str) -> Any:
    import jinja2.ext
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(jinja2.ext.Extension):
        """``{% generation %}`` marks answers for training: here it has no effect."""

        tags = {"generation"}  # noqa: RUF012, as Jinja declares it

        def parse(self, parser: jinja2.parser.Parser) -> list[jinja2.nodes.Node]:
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    def raise_exception(message: str) -> None:
        raise jinja2.TemplateError(message)

    extensions = [Generation, jinja2.ext.loopcontrols]
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=extensions)
    environment.filters["tojson"] = functools.partial(json.dumps, ensure_ascii=False)
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = time.strftime
    return environment.from_string(template)


def _render(template: str, values: dict[str, Any]) -> str:
    text = str(_compiled(template).render(values))
    if len(text) > CHARACTERS:
        raise ValueError(f"it writes more than {CHARACTERS:,} characters")
    return text


def main() -> None:
    """Read requests from stdin, one a line; write ``[text, error]`` for each."""
    with contextlib.suppress(ImportError, OSError, ValueError):  # a system without this limit
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    for request in sys.stdin.buffer:
        try:
            answer = [_render(*json.loads(request)), ""]
        except MemoryError:
            sys.exit(1)
        except Exception as error:  # a template may raise anything
            answer = ["", str(error)[:1000] or type(error).__name__]
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
