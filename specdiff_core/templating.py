"""Runs what comes with a checkpoint and may loop forever or fill the memory: it renders chat templates, which are
programs, and tries tokenizers. Both run in a process of their own (``python -m specdiff_core.templating``), with limits
on time, memory and output.

The names a template finds are those of transformers' ``apply_chat_template``. Without importing
transformers it starts in 0.1 s; it stays for the next chat unless a limit was exceeded."""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

SECONDS = 5
MEMORY = 512_000_000  # bytes of address space
CHARACTERS = 1_000_000
HOME = Path(__file__).parent.parent


_turn = threading.Lock()


@functools.cache
def _process() -> subprocess.Popen[bytes]:
    """The process that renders: it ends with this one."""
    command = [sys.executable, "-m", "specdiff_core.templating"]
    process = subprocess.Popen(
        command, cwd=HOME, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
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


TRIAL_SECONDS, TRIAL_MEMORY = 20, 2_000_000_000
"""Limits of :func:`try_tokenizer`; 262,000 tokens load in a second."""
TEXTS = (
    "Once upon a time, 3 naïve foxes ran 10 km;\n\tthey\xa0said: “東京 🦊”!",
    *(64 * char + "!" for char in "a 0.é\n東"),
)
"""An ordinary text, and runs of one character: where an expression backtracks, these take it for ever."""


def try_tokenizer(file: Path) -> None:
    """Load a ``tokenizer.json``, encode and decode with it, in a process of its own with limits: its expressions and
    replacements may never end, or end the process.

    Raises:
        ValueError: it fails, or exceeds a limit; the message says why.
    """
    command = [sys.executable, "-m", "specdiff_core.templating", str(file.absolute())]
    environment = {**os.environ, "TOKENIZERS_PARALLELISM": "false"}
    try:
        done = subprocess.run(
            command, cwd=HOME, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=TRIAL_SECONDS
        )
    except subprocess.TimeoutExpired:
        raise ValueError(f"it takes more than {TRIAL_SECONDS} s") from None
    if done.returncode:
        raised = re.findall(r"^[\w.]+(?:Error|Exception): .*", done.stderr.decode(errors="replace"), re.MULTILINE)
        raise ValueError(raised[-1] if raised else f"it needs more than {TRIAL_MEMORY // 10**9} GB")


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
    text.encode()  # half a character is no text
    if len(text) > CHARACTERS:
        raise ValueError(f"it writes more than {CHARACTERS:,} characters")
    return text


def _try(file: str) -> None:
    """Raise whatever a tokenizer raises."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(file)
    size = tokenizer.get_vocab_size()
    for text in TEXTS:
        tokenizer.decode(tokenizer.encode(text).ids)
    tokenizer.decode([*range(0, size, 1 + size // 256)], skip_special_tokens=False)


def _limit(memory: int, seconds: int) -> None:
    """Limit this process: if its parent, which ends it after ``seconds``, was killed, it ends after twice as many."""
    with contextlib.suppress(ImportError, OSError, ValueError):  # a system without these limits
        import resource
        from signal import alarm

        alarm(2 * seconds)
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))


def main() -> None:
    """Try the tokenizer in the argument; without one, read requests from stdin, one a line, and write ``[text,
    error]`` for each."""
    if file := "".join(sys.argv[1:]):
        _limit(TRIAL_MEMORY, TRIAL_SECONDS)
        _try(file)
        return
    for request in sys.stdin.buffer:
        _limit(MEMORY, SECONDS)
        try:
            answer = [_render(*json.loads(request)), ""]
        except MemoryError:
            sys.exit(1)
        except Exception as error:  # a template may raise anything
            answer = ["", str(error)[:1000] or type(error).__name__]
        _limit(MEMORY, 0)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
