"""The workloads of the papers, streamed from the dataset hub at pinned revisions."""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from specdiff_core.measure.prompts import Prompt
from specdiff_core.schema.errors import ConfigError, no_such

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A published set of prompts."""

    name: str
    label: str
    source: str  # of the dataset hub, at ``revision``
    revision: str
    licence: str
    config: str | None = None
    split: str = "test"
    flavour: Callable[[Row], str]
    prompt: Callable[[Row], str]
    answer: Callable[[Row], str] = lambda row: ""  # empty: nothing to score


def _gsm8k_answer(row: Row) -> str:
    return str(row["answer"]).rpartition("####")[2].strip()


BOXED = "\n\nReason step by step, and put the final answer within \\boxed{}."

WORKLOADS: dict[str, Workload] = {
    workload.name: workload
    for workload in (
        Workload(
            name="cnn_dailymail", label="CNN/DailyMail, summaries", source="abisee/cnn_dailymail", config="3.0.0",
            revision="96df5e686bee6baa90b8bee7c28b81fa3fa6223d", licence="apache-2.0", flavour=lambda row: "summary",
            prompt=lambda row: f"Summarise this article.\n\n{row['article']}\n\nSummary:",
        ),
        Workload(
            name="openwebtext", label="OpenWebText, continued", source="Skylion007/openwebtext", split="train",
            revision="79d93d786212f7344586290adb811d4ae6a1762c", licence="cc0-1.0", flavour=lambda row: "web",
            prompt=lambda row: " ".join(str(row["text"]).split(" ")[:64]),
        ),
        Workload(
            name="mt_bench", label="MT-Bench, first turns", source="HuggingFaceH4/mt_bench_prompts", split="train",
            revision="e3a795c5e9a82ee40611c416b8a7786c73198991", licence="apache-2.0",
            flavour=lambda row: str(row["category"]), prompt=lambda row: str(row["prompt"][0]),
        ),
        Workload(
            name="math500", label="MATH-500", source="HuggingFaceH4/MATH-500",
            revision="6e4ed1a2a79af7d8630a6b768ec859cb5af4d3be", licence="mit",
            flavour=lambda row: str(row["subject"]).lower(), prompt=lambda row: f"{row['problem']}{BOXED}",
            answer=lambda row: str(row["answer"]),
        ),
        Workload(
            name="gsm8k", label="GSM8K", source="openai/gsm8k", config="main",
            revision="e53f048856ff4f594e959d75785d2c2d37b678ee", licence="mit", flavour=lambda row: "math",
            prompt=lambda row: f"{row['question']}{BOXED}", answer=_gsm8k_answer,
        ),
        Workload(
            name="humaneval", label="HumanEval", source="openai/openai_humaneval",
            revision="7dce6050a7d6d172f3cc5c32aa97f52fa1a2e544", licence="mit", flavour=lambda row: "code",
            prompt=lambda row: str(row["prompt"]),
        ),
    )
}  # fmt: skip  # several fields a line
"""By name. Spec-Bench is a file of its authors' repository, which ``--prompts FILE`` reads."""


def load_workload(name: str, count: int) -> tuple[Prompt, ...]:
    """The first ``count`` prompts of a workload, in its order.

    Raises:
        ConfigError: there is no such workload, ``datasets`` is not installed, or the hub cannot be
            reached; the hint says what to do.
    """
    if name not in WORKLOADS:
        raise no_such("workload", name, WORKLOADS, "workload")
    spec = WORKLOADS[name]
    local = 'or write a file of your own: JSON lines {"id", "flavour", "prompt", "answer"}.'
    try:
        datasets = importlib.import_module("datasets")
    except ImportError as error:
        hint = f"pip install 'datasets>=4' (which runs no code of a dataset), {local}"
        raise ConfigError(f"{spec.label} needs a package: datasets.", field="workload", hint=hint) from error
    try:
        rows = datasets.load_dataset(spec.source, spec.config, split=spec.split, revision=spec.revision, streaming=True)
        prompts = tuple(itertools.islice(_prompts(spec, rows), count))
        if not prompts:
            raise ValueError("it holds no prompt")
    except Exception as error:  # whatever the hub, the network or a file raises
        why = f"{type(error).__name__}: {' '.join(str(error).split())[:120]}"
        message = f"{spec.label} ({spec.source}) could not be read: {why}."
        raise ConfigError(message, field="workload", hint=f"Check the network, {local}") from error
    return prompts


def _prompts(spec: Workload, rows: Iterator[Row]) -> Iterator[Prompt]:
    for number, row in enumerate(rows, start=1):
        yield Prompt(
            id=f"{spec.name}-{number:04}", flavour=spec.flavour(row), prompt=spec.prompt(row), answer=spec.answer(row)
        )
