"""Chat messages and stop strings."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from specdiff_core import templating
from specdiff_core.schema.errors import ConfigError, one_line
from specdiff_core.schema.settings import DecodeConfig, Template


def as_chat(tokenizer: Any, prompt: str, config: DecodeConfig) -> str | None:
    """The text of a chat with one message, up to the answer; None if the prompt begins a text:
    under ``auto`` if the tokenizer has no chat template.

    Raises:
        ConfigError: there is no template, it fails, or the visitor's text contains one of its
            control tokens (``<|im_end|>`` would end the message).
    """
    template = bool(getattr(tokenizer, "chat_template", None))
    if config.template is Template.PLAIN or (config.template is Template.AUTO and not template):
        return None
    if not template:
        what = "This target is not a chat model: its tokenizer has no template."
        hint = "Use the plain template: the prompt is the beginning of a text."
        raise ConfigError(what, field="template", hint=hint)
    marks = {str(token) for token in getattr(tokenizer, "added_tokens_decoder", {}).values()}
    for field, text in (("prompt", prompt), ("system", config.system)):
        if controls := sorted(mark for mark in marks if mark.strip() and mark in text):
            what = f"{controls[0]} is a control token of this target's chat template."
            raise ConfigError(what, field=field, hint="Remove it.")
    messages = [{"role": "system", "content": config.system}] if config.system else []
    messages.append({"role": "user", "content": prompt})
    values = {"messages": messages, "tools": None, "documents": None, "add_generation_prompt": True}
    values |= {**tokenizer.special_tokens_map, "enable_thinking": config.template is Template.THINK}
    try:
        return templating.render(json.dumps([tokenizer.get_chat_template(), values], default=str))
    except ValueError as error:
        what = f"This target's chat template failed: {one_line(str(error))[:120]}"
        hint = "Leave out the system prompt, or let the prompt be the beginning of a text."
        raise ConfigError(what, field="system" if config.system else "template", hint=hint) from error


def before(text: str, stops: Sequence[str]) -> str:
    """``text`` up to the first of ``stops``."""
    return text[: min((start for stop in stops if (start := text.find(stop)) >= 0), default=len(text))]


class StopStrings:
    """Finds where one of several strings ends a text.

    Args:
        stops: the strings, none of them empty.
    """

    def __init__(self, tokenizer: Any, stops: Sequence[str]) -> None:
        self._tokenizer, self._stops = tokenizer, tuple(stops)
        # A character that is cut at either end becomes up to three.
        self._reach = max(map(len, stops)) + 6

    def __call__(self, written: Sequence[int], fresh: Sequence[int]) -> int | None:
        """How many ``fresh`` tokens behind those ``written`` complete a stop string, or None."""
        size = self._reach
        while size < len(written) and len(self._text(written[-size:])) < self._reach:
            size *= 2  # special tokens have no text
        tail = written[-size:]
        if not self._holds([*tail, *fresh]):
            return None
        return next(count for count in range(1, len(fresh) + 1) if self._holds([*tail, *fresh[:count]]))

    def _holds(self, ids: Sequence[int]) -> bool:
        """Whether the text of ``ids`` contains a stop string."""
        return any(stop in self._text(ids) for stop in self._stops)

    def _text(self, ids: Sequence[int]) -> str:
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=True))
