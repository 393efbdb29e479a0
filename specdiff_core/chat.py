"""Chat messages: a prompt as the ids that a chat template gives it."""

from __future__ import annotations

import functools
import json
import re
import secrets
from collections.abc import Mapping
from typing import Any

from tokenizers import AddedToken, Tokenizer

from specdiff_core import templating
from specdiff_core.schema.errors import ConfigError, one_line
from specdiff_core.schema.settings import DecodeConfig, Template

NONCE = secrets.token_hex(8)
"""Part of the names that stand for tokens while a chat is encoded: nobody can type them."""


def chat_ids(tokenizer: Any, prompt: str, config: DecodeConfig) -> list[int] | None:
    """The ids of :func:`as_chat`. Names of control tokens in the visitor's texts are text, so that
    a typed ``<|im_end|>`` doesn't end the message.

    Raises:
        ConfigError: as :func:`as_chat`, or this tokenizer can't distinguish the two.
    """
    if not (typed := typed_controls(tokenizer, prompt, config)):
        chat = as_chat(tokenizer, prompt, config)
        return None if chat is None else list(tokenizer(chat, add_special_tokens=False, verbose=False)["input_ids"])
    hidden = {name: f"\ue000{NONCE}-{i}\ue000" for i, name in enumerate(typed)}
    chat = _chat(tokenizer, _replace(prompt, hidden), _replace(config.system, hidden), config.template)
    if chat is None:
        return None
    names, renamed, ids_of = _renamed(tokenizer, _controls(tokenizer))
    text = _replace(_replace(chat, names), {placeholder: name for name, placeholder in hidden.items()})
    ids = renamed.encode(text, add_special_tokens=False).ids
    if wrong := [name for name in typed if renamed.token_to_id(name) in ids]:
        what = f"{wrong[0]} is a control token, which this target's tokenizer can't read as text."
        raise ConfigError(what, field="prompt" if wrong[0] in prompt else "system", hint="Remove it.")
    return [ids_of.get(token, token) for token in ids]


def typed_controls(tokenizer: Any, prompt: str, config: DecodeConfig) -> list[str]:
    """The names of control tokens in the visitor's texts."""
    return [name for name in _controls(tokenizer) if name in prompt or name in config.system]


def as_chat(tokenizer: Any, prompt: str, config: DecodeConfig) -> str | None:
    """The text of a chat with one message, up to the answer; None if the prompt begins a text:
    under ``auto`` if the tokenizer has no chat template.

    Raises:
        ConfigError: there is no template, it fails, or it leaves out a message.
    """
    return _chat(tokenizer, prompt, config.system, config.template)


def _chat(tokenizer: Any, prompt: str, system: str, kind: Template) -> str | None:
    template = bool(getattr(tokenizer, "chat_template", None))
    if kind is Template.PLAIN or (kind is Template.AUTO and not template):
        return None
    if not template:
        what = "This target is not a chat model: its tokenizer has no template."
        hint = "Use the plain template: the prompt is the beginning of a text."
        raise ConfigError(what, field="template", hint=hint)
    said = {"system": system, "user": prompt} if system else {"user": prompt}
    values = {"tools": None, "documents": None, "add_generation_prompt": True, "bos_token": "", "eos_token": ""}
    values |= {**tokenizer.special_tokens_map, "enable_thinking": kind is Template.THINK}
    hint = f"{'Leave out the system prompt, or let' if system else 'Let'} the prompt be the beginning of a text."
    field = "system" if system else "template"
    missing = ""
    for parts in (False, True):  # some templates expect content in parts
        messages = [
            {"role": role, "content": [{"type": "text", "text": text}] if parts else text}
            for role, text in said.items()
        ]
        try:
            request = [tokenizer.get_chat_template(), {**values, "messages": messages}]
            chat = templating.render(json.dumps(request, default=str))
        except ValueError as error:
            what = f"This target's chat template failed: {one_line(str(error))[:120]}"
            raise ConfigError(what, field=field, hint=hint) from error
        written = {role: (text.strip(), json.dumps(text, ensure_ascii=False)) for role, text in said.items()}
        left_out = [role for role, forms in written.items() if not any(form in chat for form in forms)]
        if not left_out:
            return chat
        missing = missing or left_out[0]
    raise ConfigError(f"This target's chat template leaves out the {missing} message.", field=field, hint=hint)


def _controls(tokenizer: Any) -> tuple[str, ...]:
    """The control tokens by name: all special ones, and others that the chat template uses."""
    added, template = getattr(tokenizer, "added_tokens_decoder", {}), str(getattr(tokenizer, "chat_template", ""))
    names = {str(token) for token in added.values() if token.special or str(token) in template}
    return tuple(sorted(filter(str.strip, names)))


def _replace(text: str, names: Mapping[str, str]) -> str:
    """``text`` with other names, the longest first."""
    found = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    return re.sub(found, lambda match: names[match[0]], text)


@functools.lru_cache(maxsize=2)
def _renamed(tokenizer: Any, controls: tuple[str, ...]) -> tuple[dict[str, str], Tokenizer, dict[int, int]]:
    """A tokenizer whose control tokens have other names: old name -> new name, itself, its id -> the original."""
    spelled = json.loads(tokenizer.backend_tokenizer.to_str())
    names = {name: f"\ue001{NONCE}-{i}\ue001" for i, name in enumerate(controls)}
    renamed = Tokenizer.from_str(json.dumps({**spelled, "added_tokens": [], "truncation": None, "padding": None}))
    ids = dict[int, int]()
    for entry in spelled["added_tokens"]:
        token, options = entry.pop("id"), {**entry, "content": names.get(entry["content"], entry["content"])}
        renamed.add_tokens([AddedToken(**options)])
        ids[renamed.token_to_id(options["content"])] = token  # type: ignore[index]  # it has just been added
    return names, renamed, ids
