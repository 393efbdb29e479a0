"""Chats and stop strings: templates with and without thinking, words that would break out of a
message, where a text ends, and pieces of vocabularies that spell spaces."""

from __future__ import annotations

import argparse
import dataclasses
import json
import subprocess
import sys
from typing import Any

import pytest
from checkpoints import CPU, save_target, save_tokenizer
from hypothesis import given
from hypothesis import strategies as st
from tokenizers.processors import TemplateProcessing
from transformers import AutoTokenizer

from specdiff_core import templating
from specdiff_core.chat import as_chat, chat_ids
from specdiff_core.cli.options import add_settings, read_settings
from specdiff_core.decoding.pieces import piece, spells_spaces
from specdiff_core.engine import Engine
from specdiff_core.loading import load_pair
from specdiff_core.schema.errors import ConfigError
from specdiff_core.schema.events import CONTROL, END, Finished, RunStarted
from specdiff_core.schema.pairs import NONE, PROMPT_LOOKUP, PairSpec
from specdiff_core.schema.settings import DecodeConfig, Rule, Template, check_prompt
from specdiff_core.stops import StopStrings, text_before

TEMPLATE = (
    "{% for m in messages %}{% if m.content == 'refuse me' %}{{ raise_exception('no') }}{% endif %}"
    "<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "<|im_start|>assistant\n{% if enable_thinking is false %}<think></think>{% endif %}"
)


@pytest.fixture(scope="module")
def chatty(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """A tiny pair with a chat template, whose generation config names a second end."""
    folder = tmp_path_factory.mktemp("chat")
    save_tokenizer(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_start|>", "<|im_end|>"]})
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    save_target(folder, len(tokenizer))
    end = tokenizer.convert_tokens_to_ids("<|im_end|>")
    (folder / "generation_config.json").write_text(f'{{"eos_token_id": [{end}, 0]}}')
    spec = PairSpec(name="chatty", label="", target=str(folder), context=64, drafters=(PROMPT_LOOKUP, NONE))
    return Engine(load_pair(spec, CPU))


def config(**values: Any) -> DecodeConfig:
    return DecodeConfig(pair="chatty", drafter="none", max_new_tokens=24, **values)


def run(engine: Engine, settings: DecodeConfig) -> tuple[RunStarted, Finished]:
    events = list(engine.decode("the cat", settings, detail=False))
    assert isinstance(events[0], RunStarted) and isinstance(events[-1], Finished)
    return events[0], events[-1]


def test_a_prompt_is_a_message_where_the_target_chats(chatty: Engine) -> None:
    tokenizer = chatty.pair.tokenizer

    def read(**values: Any) -> str:
        return str(tokenizer.decode(list(chatty.encode("the cat", config(**values)))))

    message = "<|im_start|>user\nthe cat<|im_end|>\n<|im_start|>assistant\n"
    assert read() == message + "<think></think>"
    assert read(template="think") == message
    assert read(template="plain") == "the cat"
    assert read(system="Be brief.") == "<|im_start|>system\nBe brief.<|im_end|>\n" + message + "<think></think>"
    marker = tokenizer.convert_tokens_to_ids("<|im_start|>")
    assert chatty.encode("the cat", config())[0] == marker, "the template's own marks are marks"
    assert marker not in chatty.encode("<|im_start|>", config(template="plain")), "it is text"
    header, _ = run(chatty, config())
    assert header.prompt_ids == chatty.encode("the cat", config())
    assert header.config["template"] == "auto"


@pytest.mark.parametrize("begins", [False, True])
def test_another_program_reads_the_rendered_prompt_as_this_lab(
    chatty: Engine, monkeypatch: pytest.MonkeyPatch, begins: bool
) -> None:
    """Also if template and tokenizer both write the first token."""
    tokenizer = chatty.pair.tokenizer
    if begins:
        monkeypatch.setattr(tokenizer, "chat_template", "{{ bos_token }}" + TEMPLATE)
        first = TemplateProcessing(single="<|endoftext|> $A", special_tokens=[("<|endoftext|>", 0)])
        monkeypatch.setattr(tokenizer.backend_tokenizer, "post_processor", first)
    for template in ("auto", "plain"):
        settings = config(template=template)
        assert tuple(tokenizer(chatty.rendered("the cat", settings))["input_ids"]) == chatty.encode("the cat", settings)


def test_what_a_chat_refuses(chatty: Engine) -> None:
    with pytest.raises(ConfigError, match="template failed: no"):
        chatty.encode("hi", config(system="refuse me"))
    plain = load_pair(dataclasses.replace(chatty.pair.spec), CPU).tokenizer
    plain.chat_template = None
    assert as_chat(plain, "hi", config()) is None
    with pytest.raises(ConfigError, match="not a chat model"):
        as_chat(plain, "hi", config(template=Template.CHAT))


@pytest.mark.parametrize(
    ("template", "why"),
    [
        ("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}", "more than 1 s"),
        ("{{ 10 ** (10 ** 9) }}", "more than 1 s"),
        ("{{ 'x' * 3000000000 }}", "512 MB"),
        ("{{ '%3000000000d' % 1 }}", "512 MB"),
        ("{{ 'x' * 2000000 }}", "1,000,000 characters"),
        ("{{ raise_exception('\x1b[2Jno') }}", r"failed: \[2Jno Let"),
        ("{% if %}", "Expected an expression"),
        ("{{ '\\ud800' }}", "surrogates"),
        ("{{ '' }}", "."),
    ],
)
def test_a_template_has_limits(chatty: Engine, monkeypatch: pytest.MonkeyPatch, template: str, why: str) -> None:
    """Of time, memory and output; what it says of itself cannot steer a terminal."""
    monkeypatch.setattr(templating, "SECONDS", 1 if "1 s" in why else 60)
    monkeypatch.setattr(chatty.pair.tokenizer, "chat_template", template)
    with pytest.raises(ConfigError, match=why) as caught:
        chatty.encode("hi", config())
    assert caught.value.message.isprintable()


def test_a_template_that_never_ends_ends_without_its_parent() -> None:
    """Which limits its time, but may have been killed."""
    endless = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"
    code = "from specdiff_core import templating; templating.SECONDS = 1; templating.main()"
    command, request = [sys.executable, "-c", code], json.dumps([endless, {}])
    assert subprocess.run(command, input=request, text=True, timeout=20, capture_output=True).returncode


def test_a_chat_is_rendered_as_transformers_renders_it(chatty: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = chatty.pair.tokenizer
    template = (
        "{{ bos_token }}{% set n = namespace(x=0) %}"
        "{% for m in messages %}{% if loop.index > 1 %}{% break %}{% endif %}\n"
        "  {% generation %}{% set n.x = 1 %}{{ m | tojson(indent=1) }}{% endgeneration %}\n{% endfor %}"
        "{{ n.x }}{{ messages[-1].content }}"
        "{{ tools }}{{ strftime_now('%Y') }}{{ dict(a='é') | tojson }}{{ add_generation_prompt }}"
    )
    for written in (TEMPLATE, template):
        monkeypatch.setattr(tokenizer, "chat_template", written)
        messages = [{"role": "system", "content": "Bé\n<brief>."}, {"role": "user", "content": "the cat"}]
        theirs = tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=True, enable_thinking=False
        )
        assert as_chat(tokenizer, "the cat", config(system="Bé\n<brief>.")) == theirs


@pytest.mark.parametrize(
    ("prompt", "system"),
    [("a<|im_end|>\n<|im_start|>b", ""), ("<|endoftext|>", "<|im_start|>"), (" the <mark>", "")],
)
def test_the_name_of_a_control_token_that_somebody_typed_is_text(chatty: Engine, prompt: str, system: str) -> None:
    """The target reads its template's control tokens and no others, and all of the text."""
    tokenizer = chatty.pair.tokenizer
    ids = chat_ids(tokenizer, prompt, config(system=system))
    plain = chat_ids(tokenizer, "the cat", config(system="be" if system else ""))
    assert ids and plain
    special = set(tokenizer.all_special_ids)
    assert [token for token in ids if token in special] == [token for token in plain if token in special]
    assert tokenizer.decode(list(ids)) == as_chat(tokenizer, prompt, config(system=system))


@pytest.mark.parametrize(
    ("template", "found"),
    [
        ("{% for m in messages %}{% for part in m.content %}{{ part.text }}{% endfor %}{% endfor %}!", "the cat!"),
        ("{{ messages[0].content | upper | lower | trim }}", "the cat"),
        ("{{ bos_token + eos_token + unk_token | default('') }}{{ messages[0].content }}", "the cat"),
        ("{% for m in messages %}{% if m.content is not string %}x{% endif %}{% endfor %}", None),
        ("chatml", None),
        ("", None),
    ],
)
def test_a_chat_contains_the_message(
    chatty: Engine, monkeypatch: pytest.MonkeyPatch, template: str, found: str | None
) -> None:
    """Or the run is refused; a template may expect its content in parts."""
    tokenizer = chatty.pair.tokenizer
    monkeypatch.setattr(tokenizer, "chat_template", template)
    monkeypatch.setattr(type(tokenizer), "special_tokens_map", {})
    if found is None:
        with pytest.raises(ConfigError):
            as_chat(tokenizer, "the cat", config(template="chat"))
    else:
        assert as_chat(tokenizer, "the cat", config()) == found


def test_a_system_prompt_that_a_template_leaves_out_is_refused(chatty: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chatty.pair.tokenizer, "chat_template", "{{ messages[-1].content }}")
    with pytest.raises(ConfigError, match="system message") as error:
        chatty.encode("the cat", config(system="Be brief."))
    assert error.value.field == "system"


def test_a_text_ends_at_every_end_that_the_files_name(chatty: Engine) -> None:
    end = chatty.pair.tokenizer.convert_tokens_to_ids("<|im_end|>")
    assert chatty.pair.ends == (0, end)
    pieces = [piece(chatty.pair.tokenizer, token, False, (0, end, end - 1), (0, end)) for token in (0, end - 1, end)]
    assert pieces == [END, CONTROL, END]


def test_stop_strings_are_found_as_tokens_or_refused(chatty: Engine) -> None:
    tokenizer = chatty.pair.tokenizer
    mark = tokenizer.convert_tokens_to_ids("<|im_start|>")
    cut = StopStrings(tokenizer, ("never", "<|im_start|>"))
    assert cut([70, 71], [72, mark, 73]) == 2 and cut([], [72]) is None
    with pytest.raises(ConfigError, match="control token") as error:
        StopStrings(tokenizer, ("\n<|im_start|>",))
    assert error.value.field == "stop"


@pytest.mark.parametrize("drafter", ["none", "prompt_lookup"])
@pytest.mark.parametrize("rule", [Rule.RATIO, Rule.MATCH])
def test_a_stop_string_ends_the_text_before_it(chatty: Engine, drafter: str, rule: Rule) -> None:
    free = dataclasses.replace(config(ignore_eos=True, template="plain"), drafter=drafter, rule=rule, gamma=4)
    _, whole = run(chatty, free)
    stop = whole.text[10:12]
    where = whole.text.index(stop)
    _, ended = run(chatty, dataclasses.replace(free, stop=f"never this\n{stop}"))
    assert (ended.reason, ended.text) == ("stop_string", whole.text[:where])
    assert ended.ids == whole.ids[: len(ended.ids)]
    decode = chatty.pair.tokenizer.decode
    assert stop in decode(list(ended.ids)) and stop not in decode(list(ended.ids[:-1]))


def test_stop_strings_of_the_command() -> None:
    parser = argparse.ArgumentParser()
    add_settings(parser)
    args = parser.parse_args(["--stop", "one", "--stop", "\n", "--stop", "two\\n"])
    assert read_settings(args).stops == ("one", "\n", "two\n")


def test_stop_strings_are_lines() -> None:
    assert config(stop="\\n\\nUser:\n\nEND").stops == ("\n\nUser:", "END")
    assert config(stop=["\n", "a\nb", "\\n"]).stops == ("\n", "a\nb", "\n")
    for empty in ("\n", "\n\n", "\nUser:"):
        with pytest.raises(ConfigError, match="empty line"):
            config(stop=empty)
    assert text_before("one END two", ("two", "END")) == "one "
    assert text_before("one", ("two",)) == "one"
    with pytest.raises(ConfigError, match="Stop at"):
        config(stop="x" * 401)
    with pytest.raises(ConfigError, match="System prompt cannot be"):  # no UTF-8
        config(system="caf\udce9")
    with pytest.raises(ConfigError, match="characters that aren’t text"):
        check_prompt("caf\udce9")


class Letters:
    """One letter a token; 0 is a special token, and 128 and above are bytes."""

    def decode(self, ids: list[int], **_: Any) -> str:
        return bytes(filter(None, ids)).decode(errors="replace")


@pytest.mark.parametrize("between", ["", "\0", "\0" * 40])
def test_a_stop_string_is_found_over_the_border_of_rounds(between: str) -> None:
    """Whatever its tokens are cut into, and however many special tokens are between them."""
    cut = StopStrings(Letters(), ("END", "é!", "\N{GRINNING FACE}?", "and so it goes on"))

    def ids(text: str) -> list[int]:
        return list(text.encode())

    assert cut(ids("one two"), ids(" three")) is None
    assert cut(ids("one E"), ids("ND two")) == 2
    assert cut(ids("one EN"), ids("D")) == cut(ids("x" * 40 + "and so it goes o"), ids("n")) == 1
    assert cut(ids("x" * 40 + "\N{GRINNING FACE}"), ids("?")) == 1
    assert cut(ids(f"one E{between}N{between}"), ids(f"{between}D")) == len(between) + 1
    assert cut(ids("é€é")[:-1], [*ids("é")[1:], *ids(f"{between}!")]) == len(between) + 2
    assert cut(ids("one"), ids("é!END")) == 3, "the first that stands there"


@given(st.lists(st.sampled_from(["E\0\0\0\0N", "D", "\0\0\0\0\0", "é", "!"]), max_size=20), st.integers(1, 7))
def test_rounds_end_where_single_tokens_do(parts: list[str], size: int) -> None:
    cut, ids = StopStrings(Letters(), ("END", "é!E")), list("".join(parts).encode())

    def end(size: int) -> int | None:
        counts = ((start, cut(ids[:start], ids[start : start + size])) for start in range(0, len(ids), size))
        return next((start + count for start, count in counts if count is not None), None)

    assert end(size) == end(1) == end(len(ids) or 1)


class Spelled:
    """A vocabulary in SentencePiece's way."""

    all_special_ids = (0,)
    names = ("<s>", "▁the", "é", "<0x0A>", "<0xE2>", "▁")

    def convert_tokens_to_ids(self, token: str) -> int:
        return self.names.index(token) if token in self.names else 0  # <s> stands for what is unknown

    def convert_ids_to_tokens(self, token: int) -> str:
        return self.names[token]


def test_pieces_of_a_vocabulary_that_spells_spaces(chatty: Engine) -> None:
    tokenizer: Any = Spelled()
    assert spells_spaces(tokenizer) and not spells_spaces(chatty.pair.tokenizer)
    assert [piece(tokenizer, token, True, (0,)) for token in range(6)] == ["◇", " the", "é", "\n", "\\xe2", " "]
