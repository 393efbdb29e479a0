"""``train eagle``: EAGLE's head, which continues its target's features for the target's own output head to read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specdiff_core.train.cards import Words
from specdiff_core.train.jobs import DrafterJob, DrafterSettings

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM

    from specdiff_core.models.eagle import EagleHead
    from specdiff_core.train.trainer import Task


@dataclass(frozen=True, kw_only=True)
class EagleSettings(DrafterSettings):
    batch_tokens: int = 3072


class EagleJob(DrafterJob[EagleSettings]):
    """One layer over the target's features."""

    name, settings_type = "eagle", EagleSettings
    about = "Train EAGLE's head, one layer over the target's features."
    words = Words(
        kind="eagle",
        summary="EAGLE's head (arXiv 2401.15077, and with a dynamic tree EAGLE-2, 2406.16858): one decoder layer that "
        "continues its target's last hidden states, between the target's own embedding and head; trained on its "
        "distributions and features over three readings of each row, mostly on text the target wrote. Names and shapes "
        "of the released EAGLE checkpoints.",
        scores="tokens_per_round/",
        setting="γ = 4",
    )
    model: EagleHead

    def begin(self) -> EagleHead:
        start = self.settings.start
        return trainable_eagle(start) if start else new_eagle(self.target, seed=self.settings.seed)

    def task(self) -> Task:
        from specdiff_core.train.next_token_task import EagleTask, attention_for

        self.model.config._attn_implementation = attention_for(self.device, self.settings.length)
        return EagleTask(self.model, self.target, self.data, self.settings, written=self.written)

    def export(self) -> None:
        from specdiff_core.models.eagle import save_eagle

        save_eagle(self.model, self.out)


def trainable_eagle(folder: Path) -> EagleHead:
    """A trained head without the second copies of its weights that decoding reads: gradients must reach the weights."""
    from specdiff_core.models.eagle import EagleHead, load_eagle

    loaded = load_eagle(folder)
    head = EagleHead(loaded.config, bias=loaded.fc.bias is not None)
    head.load_state_dict(loaded.state_dict())
    return head


def new_eagle(target: LlamaForCausalLM, *, seed: int = 0) -> EagleHead:
    """An untrained head for ``target``; it begins by repeating the feature that it is given."""
    import torch
    from transformers import LlamaConfig

    from specdiff_core.models.eagle import EagleHead

    values = {**target.config.to_dict(), "num_hidden_layers": 1, "architectures": ["LlamaForCausalLMEagle"]}
    config = LlamaConfig(**{name: value for name, value in values.items() if name not in {"layer_types", "dtype"}})
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(seed)  # transformers initialises from the global stream
        head = EagleHead(config)
        width = config.hidden_size
        head.fc.weight[:, :width] *= 0.1
        head.fc.weight[:, width:] = torch.eye(width)
        layer: Any = head.body.layers[0]  # the layers of a ModuleList have no type
        for last in (layer.self_attn.o_proj, layer.mlp.down_proj):
            last.weight.mul_(0.1)
    return head
