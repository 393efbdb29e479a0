"""Published models: where each is, at which commit, how large it is, and under which licence. Data only, read without
torch. Which of them draft for which, ``schema/pairs.py`` says.

Sizes are what a model's config.json makes; a test counts them again. A commit stands here only where public sources
name it for that repository.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A repository of the hub, as it is known before anything of it is here."""

    repo: str
    revision: str = ""  # a commit; empty: nobody names one, so the first fetch decides, and is remembered
    parameters: int = 0  # 0: no public source tells
    stored: int = 2  # bytes of each in the files
    cache: int = 0  # keys and values, as numbers, that one token of the text costs
    vocabulary: int = 0  # rows of the output head; 0: it has none of its own
    tied: int = 0  # width of the embedding where it is the head too: a processor packs a copy of that
    licence: str = ""  # as its page names it
    gated: bool = False  # its owner grants access to those who ask


GPT2 = Model(
    repo="openai-community/gpt2",
    revision="607a30d783dfa663caf39e06633721c8d4cfcd7e",
    parameters=124_439_808,
    stored=4,
    cache=2 * 12 * 768,
    vocabulary=50257,
    tied=768,
    licence="mit",
)
GPT2_MEDIUM = Model(
    repo="openai-community/gpt2-medium",
    revision="6dcaa7a952f72f9298047fd5137cd6e4f05f41da",
    parameters=354_823_168,
    stored=4,
    cache=2 * 24 * 1024,
    vocabulary=50257,
    tied=1024,
    licence="mit",
)
GPT2_LARGE = Model(
    repo="openai-community/gpt2-large",
    revision="32b71b12589c2f8d625668d2335a01cac3249519",
    parameters=774_030_080,
    stored=4,
    cache=2 * 36 * 1280,
    vocabulary=50257,
    tied=1280,
    licence="mit",
)
GPT2_XL = Model(
    repo="openai-community/gpt2-xl",
    revision="15ea56dee5df4983c59b2538573817e1667135e2",
    parameters=1_557_611_200,
    stored=4,
    cache=2 * 48 * 1600,
    vocabulary=50257,
    tied=1600,
    licence="mit",
)
GPT_NEO = Model(
    repo="EleutherAI/gpt-neo-2.7B",
    revision="e24fa291132763e59f4a5422741b424fb5d59056",
    parameters=2_651_307_520,
    stored=4,
    cache=2 * 32 * 2560,
    vocabulary=50257,
    licence="mit",
)
DISTILGPT2 = Model(
    repo="distilbert/distilgpt2",
    revision="2290a62682d06624634c1f46a6ad5be0f47f38aa",
    parameters=81_912_576,
    stored=4,
    cache=2 * 6 * 768,
    vocabulary=50257,
    tied=768,
    licence="apache-2.0",
)
MDLM_OWT = Model(
    repo="kuleshov-group/mdlm-owt",
    revision="d0958fa851335ece6c15260ce0025f030673c0fb",
    parameters=169_627_218,
    stored=4,
    vocabulary=50258,
    licence="apache-2.0",
)
DIFFUGPT_S = Model(
    repo="diffusionfamily/diffugpt-s",
    parameters=124_439_808,
    stored=4,
    vocabulary=50257,
    tied=768,
    licence="apache-2.0",
)
DIFFUGPT_M = Model(
    repo="diffusionfamily/diffugpt-m",
    parameters=354_824_192,
    stored=4,
    vocabulary=50258,
    tied=1024,
    licence="apache-2.0",
)

TINYLLAMA = Model(
    repo="TinyLlama/TinyLlama-1.1B-Chat-v1.0",
    revision="fe8a4ea1ffedaf415f4da2f062534de366a451e6",
    parameters=1_100_048_384,
    cache=2 * 22 * 4 * 64,
    vocabulary=32000,
    licence="apache-2.0",
)
LLAMA2_7B = Model(
    repo="meta-llama/Llama-2-7b-chat-hf",
    revision="f5db02db724555f92da89c216ac04704f23d4590",
    parameters=6_738_415_616,
    cache=2 * 32 * 4096,
    vocabulary=32000,
    licence="llama2",
    gated=True,
)
LLAMA2_13B = Model(
    repo="meta-llama/Llama-2-13b-chat-hf",
    revision="a2cb7a712bb6e5e736ca7f8cd98167f81a0b5bd8",
    parameters=13_015_864_320,
    cache=2 * 40 * 5120,
    vocabulary=32000,
    licence="llama2",
    gated=True,
)
LLAMA2_70B = Model(
    repo="meta-llama/Llama-2-70b-chat-hf",
    revision="e9149a12809580e8602995856f8098ce973d1080",
    parameters=68_976_648_192,
    cache=2 * 80 * 8 * 128,
    vocabulary=32000,
    licence="llama2",
    gated=True,
)
DIFFULLAMA = Model(repo="diffusionfamily/diffullama", parameters=6_738_415_616, vocabulary=32000, licence="apache-2.0")

QWEN25_7B = Model(
    repo="Qwen/Qwen2.5-7B-Instruct",
    revision="a09a35458c702b33eeacc393d103063234e8bc28",
    parameters=7_615_616_512,
    cache=2 * 28 * 4 * 128,
    vocabulary=152064,
    licence="apache-2.0",
)
QWEN25_14B = Model(
    repo="Qwen/Qwen2.5-14B-Instruct",
    revision="cf98f3b3bbb457ad9e2bb7baf9a0125b6b88caa8",
    parameters=14_770_033_664,
    cache=2 * 48 * 8 * 128,
    vocabulary=152064,
    licence="apache-2.0",
)
QWEN25_32B = Model(
    repo="Qwen/Qwen2.5-32B-Instruct",
    revision="5ede1c97bbab6ce5cda5812749b4c0bdf79b18dd",
    parameters=32_763_876_352,
    cache=2 * 64 * 8 * 128,
    vocabulary=152064,
    licence="apache-2.0",
)
QWEN25_72B = Model(
    repo="Qwen/Qwen2.5-72B-Instruct",
    revision="495f39366efef23836d0cfae4fbe635880d2be31",
    parameters=72_706_203_648,
    cache=2 * 80 * 8 * 128,
    vocabulary=152064,
    licence="qwen",
)
QWEN25_CODER_7B = Model(
    repo="Qwen/Qwen2.5-Coder-7B-Instruct",
    revision="c03e6d358207e414f1eca0bb1891e29f1db0e242",
    parameters=7_615_616_512,
    cache=2 * 28 * 4 * 128,
    vocabulary=152064,
    licence="apache-2.0",
)
QWEN25_CODER_14B = Model(
    repo="Qwen/Qwen2.5-Coder-14B-Instruct",
    revision="aedcc2d42b622764e023cf882b6652e646b95671",
    parameters=14_770_033_664,
    cache=2 * 48 * 8 * 128,
    vocabulary=152064,
    licence="apache-2.0",
)
QWEN25_CODER_32B = Model(
    repo="Qwen/Qwen2.5-Coder-32B-Instruct",
    revision="381fc969f78efac66bc87ff7ddeadb7e73c218a7",
    parameters=32_763_876_352,
    cache=2 * 64 * 8 * 128,
    vocabulary=152064,
    licence="apache-2.0",
)
QWEN25_HALF = Model(
    repo="Qwen/Qwen2.5-0.5B-Instruct",
    revision="7ae557604adf67be50417f59c2c2f167def9a775",
    parameters=494_032_768,
    cache=2 * 24 * 2 * 64,
    vocabulary=151936,
    tied=896,
    licence="apache-2.0",
)
DIFFUCODER = Model(repo="apple/DiffuCoder-7B-cpGRPO", parameters=7_615_616_512, vocabulary=152064, licence="apple-amlr")
DREAM = Model(
    repo="Dream-org/Dream-v0-Instruct-7B",
    revision="05334cb9faaf763692dcf9d8737c642be2b2a6ae",
    parameters=7_615_616_512,
    vocabulary=152064,
    licence="apache-2.0",
)

QWEN3_4B = Model(
    repo="Qwen/Qwen3-4B",
    revision="1cfa9a7208912126459214e8b04321603b3df60c",
    parameters=4_022_468_096,
    cache=2 * 36 * 8 * 128,
    vocabulary=151936,
    tied=2560,
    licence="apache-2.0",
)
QWEN3_8B = Model(
    repo="Qwen/Qwen3-8B",
    revision="b968826d9c46dd6066d109eabc6255188de91218",
    parameters=8_190_735_360,
    cache=2 * 36 * 8 * 128,
    vocabulary=151936,
    licence="apache-2.0",
)
QWEN3_HALF = Model(
    repo="Qwen/Qwen3-0.6B",
    revision="c1899de289a04d12100db370d81485cdf75e47ca",
    parameters=596_049_920,
    cache=2 * 28 * 8 * 128,
    vocabulary=151936,
    tied=1024,
    licence="apache-2.0",
)
QWEN3_4B_DFLASH = Model(
    repo="z-lab/Qwen3-4B-DFlash-b16",
    revision="b74e3a329c4d963783143b1e970d95b002be72bd",
    parameters=537_427_200,
    cache=2 * 5 * 8 * 128,
    licence="mit",
)
QWEN3_8B_DFLASH = Model(
    repo="z-lab/Qwen3-8B-DFlash-b16",
    revision="9b41424b7109f9c5413454f481b09a82b85333f4",
    parameters=1_048_626_432,
    cache=2 * 5 * 8 * 128,
    licence="mit",
)
QWEN3_4B_DSPARK = Model(  # sizes of the DSpark drafters as public listings of the files give them
    repo="deepseek-ai/dspark_qwen3_4b_block7",
    revision="3457dff1417cb84927f6098a5fcb7cee85c934b7",
    parameters=1_395_000_000,
    cache=2 * 5 * 8 * 128,
)
QWEN3_4B_DFLASH2 = Model(
    repo="mgoin/Qwen3-4B-speculator.dflash2",
    revision="e3e7a18e4f541fa3841c2fb0666a7759079ab6fd",
    cache=2 * 5 * 8 * 128,
)
QWEN3_4B_EAGLE3 = Model(
    repo="deepseek-ai/eagle3_qwen3_4b_ttt7", revision="b0b90fd15d052217c226be5e46d468d8d129e0cd", cache=2 * 8 * 128
)
QWEN3_8B_EAGLE3 = Model(
    repo="deepseek-ai/eagle3_qwen3_8b_ttt7", revision="f6485ba8d21e11942958617dbe7e71b467f38f38", cache=2 * 8 * 128
)
QWEN3_8B_DSPARK = Model(
    repo="deepseek-ai/dspark_qwen3_8b_block7",
    revision="03326e5043815da1f81b109078b2889737c26017",
    parameters=2_370_000_000,
    cache=2 * 5 * 8 * 128,
)

LLAMA31_8B = Model(
    repo="meta-llama/Llama-3.1-8B-Instruct",
    revision="0e9e39f249a16976918f6564b8830bc894c89659",
    parameters=8_030_261_248,
    cache=2 * 32 * 8 * 128,
    vocabulary=128256,
    licence="llama3.1",
    gated=True,
)
LLAMA32_1B = Model(
    repo="meta-llama/Llama-3.2-1B-Instruct",
    revision="9213176726f574b556790deb65791e0c5aa438b6",
    parameters=1_235_814_400,
    cache=2 * 16 * 8 * 64,
    vocabulary=128256,
    tied=2048,
    licence="llama3.2",
    gated=True,
)
LLAMA31_8B_DFLASH = Model(
    repo="z-lab/LLaMA3.1-8B-Instruct-DFlash-UltraChat",
    revision="d3af30def9601abdd10810aba220d692f0e803f0",
    parameters=1_048_626_432,
    cache=2 * 5 * 8 * 128,
    licence="mit",
)
