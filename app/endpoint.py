"""Races for programs: typed, documented functions behind the API and the MCP tools. Knows no widget."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import gradio as gr

from app.controls import FIELDS
from app.errors import card, new_run_id
from app.race import SETTINGS
from app.summary import summarise, summarise_methods

Results = Callable[[str, dict[str, Any]], Iterator[dict[str, Any]]]


def race_endpoint(results: Results) -> Any:
    """The typed function behind ``/race`` and the MCP tool of the same name.

    Args:
        results: (prompt, settings) to what :func:`app.session.results` yields.
    """

    def race(
        prompt: str,
        pair: str = "embedded",
        drafter: str = "block",
        gamma: int = 8,
        steps: int = 1,
        auto: bool = False,
        order: str = "left_to_right",
        tree_nodes: int = 0,
        num_drafts: int = 1,
        selection: str = "self",
        rule: str = "ratio",
        temperature: float = 0.0,
        draft_temperature: float | None = None,
        top_k: int = 0,
        top_p: float = 1.0,
        seed: int = 0,
        max_new_tokens: int = 96,
        ignore_eos: bool = False,
        include_events: bool = False,
    ) -> Iterator[dict]:
        """Race speculative diffusion decoding against vanilla decoding of the same target model, and measure both.

        The lanes run one after the other. Returns the text, the measured speed-up, whether the rule is lossless, and
        for each lane: tokens, seconds of decode time, tokens per second, rounds, block efficiency tau, acceptance
        rate alpha, target passes, drafter passes, and how many threads had to wait for a processor. ``quiet`` false
        means that other programs kept the machine so busy that the speed-up cannot be trusted.

        Args:
            prompt: The text to continue, 1 to 20,000 characters.
            pair: The model pair: "embedded" (ships with the project) or "gpt2-mdlm".
            drafter: The drafter: "block", "block_markov", "mdlm", "mdlm_streak", "autoregressive", "eagle",
                "prompt_lookup", or "none" for vanilla only.
            gamma: Tokens drafted per round, 1 to 32.
            steps: Denoising steps T per round, 1 to gamma.
            auto: Choose gamma and T, or of a tree from one pass the nodes, round by round, at most those given, from
                what earlier rounds showed.
            order: Reveal order: left_to_right, random, entropy, margin, max_prob or value_confidence.
            tree_nodes: Nodes of a draft tree, 0 to 128; 0 drafts one window.
            num_drafts: Drafts K per round, 1 to 16, drawn from one drafter pass.
            selection: What becomes of several drafts: self (the target scores all, the best is tested), trie or
                multi_round.
            rule: Verification rule: ratio, match, delta (all exact) or naive (exact only where
                positions are revealed from left to right).
            temperature: Temperature of the target, 0 to 2; 0 always takes the most probable token.
            draft_temperature: Temperature of the drafter, 0 to 2; null means the target's.
            top_k: Keep the k most probable tokens, 0 to 4096; 0 keeps all.
            top_p: Keep the smallest set of tokens with this probability, 0.01 to 1.
            seed: Seed of all randomness, 0 to 2147483647.
            max_new_tokens: Stop after this many new tokens, 1 to 480.
            ignore_eos: Go on after an end-of-text token.
            include_events: Add every event of both lanes to the result (large).
        """
        arguments = dict(locals())
        values = {name: arguments[name] for name in FIELDS}
        yield from _told(results(prompt, values), lambda lanes: summarise(lanes, with_events=include_events))

    return race


def methods_endpoint(results: Results) -> Any:
    """The typed function behind ``/race_methods`` and the MCP tool of the same name; see :func:`race_endpoint`."""

    def race_methods(
        prompt: str,
        methods: list[str],
        pair: str = "embedded",
        rule: str = "ratio",
        temperature: float = 0.0,
        seed: int = 0,
        max_new_tokens: int = 96,
        include_events: bool = False,
    ) -> Iterator[dict]:
        """Race several methods of speculative decoding, and vanilla decoding, on one target model, and measure all.

        The lanes run one after the other, vanilla first. Returns for each lane its text, whether it is lossless,
        whether its text is vanilla's, the measured speed-up over vanilla, and the numbers of its run. A lane that
        cannot run says why under ``failed``, has no speed-up, and the others go on. ``quiet`` false means that other
        programs kept the machine so busy that the speed-ups cannot be trusted.

        Args:
            prompt: The text to continue, 1 to 20,000 characters.
            methods: One to five of "autoregressive", "prompt_lookup", "eagle", "eagle2", "specdiff", "specdiff2",
                "dflash", "ddtree", "markov", "markov_tree", "auto"; vanilla always runs.
            pair: The model pair: "embedded" (ships with the project) or "gpt2-mdlm" (has fewer methods).
            rule: Verification rule: ratio or match.
            temperature: Temperature of target and drafters, 0 to 2; 0 always takes the most probable token.
            seed: Seed of all randomness, 0 to 2147483647.
            max_new_tokens: Stop after this many new tokens, 1 to 480.
            include_events: Add every event of all lanes to the result (large).
        """
        arguments = dict(locals())
        values = {name: arguments[name] for name in ("methods", *SETTINGS)}
        yield from _told(results(prompt, values), lambda lanes: summarise_methods(lanes, with_events=include_events))

    return race_methods


def _told(race: Iterator[dict[str, Any]], summary: Callable[[Any], dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Progress as it comes, the lanes as their ``summary``, and an error in words: the log gets the traceback."""
    try:
        for result in race:
            yield summary(result["lanes"]) if result["finished"] else result
    except Exception as error:
        told = card(error, new_run_id())
        words = f"{told['message']} {told['hint']}".strip()
        raise gr.Error(words, print_exception=False, title=told["title"]) from None
