"""The embedded target as a GGUF file for llama.cpp. Run by an interpreter that has ``gguf`` and numpy, not torch:
``python tests/gguf_target.py FOLDER WEIGHTS.npz OUT.gguf``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import gguf
import numpy as np

NAMES = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def convert(folder: Path, weights: Path, out: Path) -> None:
    """Write it, in fp32. llama.cpp turns neighbouring pairs of a head, Llama's own weights its two halves."""
    config = json.loads((folder / "config.json").read_text())
    spelled = json.loads((folder / "tokenizer.json").read_text())
    heads, size = config["num_attention_heads"], config["vocab_size"]
    writer = gguf.GGUFWriter(str(out), "llama")
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_dimension_count(config["head_dim"])
    writer.add_rope_freq_base(config["rope_parameters"]["rope_theta"])
    writer.add_vocab_size(size)
    words = {token: word for word, token in spelled["model"]["vocab"].items()}
    special = {one["id"]: one["content"] for one in spelled["added_tokens"]}
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("starcoder")  # every digit by itself, then GPT-2's words
    writer.add_token_list([special.get(i) or words.get(i) or f"<unused {i}>" for i in range(size)])
    writer.add_token_types([3 if i in special else 1 if i in words else 5 for i in range(size)])
    writer.add_token_merges([one if isinstance(one, str) else " ".join(one) for one in spelled["model"]["merges"]])
    writer.add_bos_token_id(config["bos_token_id"])
    writer.add_eos_token_id(config["eos_token_id"])
    writer.add_add_bos_token(True)  # a document begins with the end of the one before
    for name, values in np.load(weights).items():
        if name == "model.embed_tokens.weight":
            to = "token_embd.weight"
        elif name == "model.norm.weight":
            to = "output_norm.weight"
        else:
            _, _, layer, part = name.removesuffix(".weight").split(".", 3)
            to = f"blk.{layer}.{NAMES[part]}.weight"
        if to.endswith(("attn_q.weight", "attn_k.weight")):
            rows, columns = values.shape
            values = values.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2).reshape(rows, columns)
        writer.add_tensor(to, np.ascontiguousarray(values))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    convert(*map(Path, sys.argv[1:4]))
