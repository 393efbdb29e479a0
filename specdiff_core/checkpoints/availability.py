"""Checks whether a pair is available here, without torch and without loading anything."""

from __future__ import annotations

from functools import cached_property

from specdiff_core.checkpoints import hub
from specdiff_core.checkpoints.folders import read_config, weight_files
from specdiff_core.checkpoints.memory import Machine, find_machine, refusal
from specdiff_core.checkpoints.sources import is_cached, is_local, resolve
from specdiff_core.schema.errors import SpecDiffError
from specdiff_core.schema.pairs import PairSpec
from specdiff_core.schema.published import FILES

ABSENT = "The files are not in the local cache, and"


class Environment:
    """The machine, and whether the hub answers, determined once for many pairs."""

    @cached_property
    def machine(self) -> Machine:
        return find_machine()

    @cached_property
    def hub_answers(self) -> bool:
        return hub.is_reachable()


def availability(spec: PairSpec, here: Environment | None = None) -> tuple[bool, str]:
    """Whether a pair is available here: ``(True, "")`` or ``(False, reason)``. Cheap; never raises.

    Local files must exist; a hub target must be cached at its revision or the hub reachable; it
    must fit into memory. Drafters are only checked when they are chosen."""
    from huggingface_hub import is_offline_mode

    here = here or Environment()
    try:
        if is_local(spec.target):
            folder = resolve(spec.target)
            read_config(folder)
            weight_files(folder)
        if spec.tokenizer:
            resolve(spec.tokenizer)
        if not is_local(spec.target) and not is_cached(spec.target, spec.revision):
            if is_offline_mode():
                return False, f"{ABSENT} the hub is switched off (offline mode)."
            if spec.target not in FILES and not here.hub_answers:  # FILES: also pip's index
                return False, f"{ABSENT} the model hub cannot be reached."
        if full := refusal(spec, here.machine, loaded_at_once(spec)):
            return False, full
    except SpecDiffError as error:
        return False, error.message
    except (OSError, ValueError, RuntimeError, ImportError) as error:
        return False, f"It could not be checked ({type(error).__name__}: {error})."
    return True, ""


def loaded_at_once(spec: PairSpec) -> list[str]:
    """The drafters that are loaded together with a pair: those that ship with the project."""
    return [drafter.name for drafter in spec.drafters if not drafter.source or is_local(drafter.source)]
