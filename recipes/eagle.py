"""EAGLE's head, one layer over the target's features: python recipes/eagle.py --corpus DIR

Soft cross-entropy to the target and smooth L1 to its features (EAGLE, arXiv 2401.15077), the mean
over three readings of each row: the later ones are given the head's own features, in part.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from common import DrafterModelSettings, DrafterSession, generator, run
from objectives import probs_without, soft_cross_entropy
from torch import Tensor
from transformers import LlamaForCausalLM

from specdiff_core.models.eagle import EagleHead, load_eagle, save_eagle
from specdiff_core.train.learners import FEATURE, OWN, PASSES, autocast, eagle_readings, new_eagle

SUMMARY = (
    "EAGLE's head (arXiv 2401.15077, and with a dynamic tree EAGLE-2, 2406.16858): one decoder "
    "layer that continues its target's last hidden states, between the target's own embedding and "
    "head; trained on its distributions and features over three readings of each row, mostly on "
    "text the target wrote. Names and shapes of the released EAGLE checkpoints."
)


def objective(head: EagleHead, target: LlamaForCausalLM, ids: Tensor, use_own: Tensor, mask: int) -> Tensor:
    """The loss of rows ``ids [B, L]``; it is not a plain number of nats.

    Args:
        use_own: ``[P − 1, B, L − 2, 1]`` bool, where later readings read the head's own features.
    """
    with autocast(ids.device):
        with torch.no_grad():
            states = target.model(input_ids=ids, use_cache=False).last_hidden_state
            labels = probs_without(target.lm_head(states[:, 1:]), mask)  # after tokens 2 .. L
            embeddings = target.get_input_embeddings()(ids[:, 1:])
        loss = torch.zeros((), device=ids.device)
        for hidden in eagle_readings(head, embeddings, states, use_own):
            loss = loss + soft_cross_entropy(F.linear(hidden, target.lm_head.weight), labels).mean()
            loss = loss + FEATURE * F.smooth_l1_loss(hidden.float(), states[:, 1:].float())
    return loss / PASSES


def main(settings: DrafterModelSettings) -> Path:
    session = DrafterSession(settings, "eagle", gamma=4)
    head = load_eagle(settings.start) if settings.start else new_eagle(session.target.config, seed=settings.seed)
    head.to(session.device).requires_grad_(True)
    written = session.write_text().packed
    compiled = torch.compile(objective, dynamic=False) if settings.compile else objective

    def loss(step: int) -> Tensor:
        rng = generator(settings, step)
        rows, _ = session.draw_rows(written, rng, settings.rows)
        use_own = rng.random((PASSES - 1, len(rows), rows.shape[1] - 2, 1)) < OWN
        ids, mixed = (torch.from_numpy(array).to(session.device) for array in (rows, use_own))
        value: Tensor = compiled(head, session.target, ids, mixed, session.text.mask)
        return value

    tokens = settings.rows * settings.length
    return session.fit(head, loss, lambda folder: save_eagle(head, folder), tokens, SUMMARY)


if __name__ == "__main__":
    sys.exit(run(main, DrafterModelSettings(batch_tokens=3072)))
