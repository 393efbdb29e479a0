"""A target split over two processes, as ``torchrun`` starts them: the same text as in one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from test_loading import save_tokenizer
from test_released import IDS, LLAMA, randomly
from transformers import LlamaConfig, LlamaForCausalLM

ROOT = Path(__file__).resolve().parent.parent


def texts_of(*flags: str, processes: int) -> list[str]:
    torchrun = (
        ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)] if processes > 1 else []
    )
    command = [sys.executable, *torchrun, "-m", "specdiff_core", "decode", "--prompt", "the cat", *flags]
    command += ["--max-new-tokens", "16", "--ignore-eos", "--device", "cpu"]
    finished = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, timeout=240, check=False
    )
    assert finished.returncode == 0, finished.stderr.decode()[-2000:]
    return finished.stdout.decode(errors="replace").splitlines()


@pytest.mark.slow
def test_two_processes_write_what_one_does(tmp_path: Path) -> None:
    """With a drafter, whose refused tokens the other process must forget, too."""
    save_tokenizer(tmp_path / "target")
    for name in ("target", "drafter"):
        model = randomly(LlamaForCausalLM(LlamaConfig(vocab_size=IDS, **LLAMA)))
        if name == "drafter":
            model.model.layers[1].mlp.down_proj.weight.data *= 0.5  # agrees at times
        model.save_pretrained(tmp_path / name)
    flags = ["--target", str(tmp_path / "target"), "--drafter", str(tmp_path / "drafter")]
    alone = texts_of(*flags, "--temperature", "0.8", "--rule", "match", processes=1)
    split = texts_of(*flags, "--temperature", "0.8", "--rule", "match", processes=2)
    assert alone[0].startswith("the cat") and split[0] == alone[0]
    rounds = [line for line in split if "new tokens" in line]
    assert rounds == [line for line in alone if "new tokens" in line] and " in 16 rounds" not in rounds[0]
    assert any("split over several processes" in line for line in split)
    assert not any("split over" in line for line in alone)
