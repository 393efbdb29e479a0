"""Says whether a pair can be used here, and if not, why. Needs no torch: the page asks it too. Loads nothing."""

from __future__ import annotations

from functools import cached_property

from specdiff_core.models import hub
from specdiff_core.models.folders import is_cached, is_local, read_config, resolve, weight_files
from specdiff_core.models.memory import Machine, find_machine, refusal
from specdiff_core.schema.errors import SpecDiffError
from specdiff_core.schema.pairs import PairSpec
from specdiff_core.schema.published import FILES

ABSENT = "Its files are not in the local cache, and"


class Here:
    """What is here, asked once for any number of pairs: the machine, and whether the hub answers."""

    @cached_property
    def machine(self) -> Machine:
        return find_machine()

    @cached_property
    def hub_answers(self) -> bool:
        return hub.answers()


def availability(spec: PairSpec, here: Here | None = None) -> tuple[bool, str]:
    """Whether a pair can be used here, and if not, why: ``(True, "")`` or ``(False, reason)``. Cheap; never raises.

    Local files must exist; a target of the hub must be cached at its revision or the hub be reachable; it must fit into
    memory. A drafter that is missing or too large does not count: it says so when it is chosen.
    """
    from huggingface_hub import is_offline_mode

    here = here or Here()
    try:
        if is_local(spec.target):
            folder = resolve(spec.target)
            read_config(folder)
            weight_files(folder)
        if spec.tokenizer and is_local(spec.tokenizer):
            resolve(spec.tokenizer)
        if not is_local(spec.target) and not is_cached(spec.target, spec.revision):
            if is_offline_mode():
                return False, f"{ABSENT} the hub is switched off (offline mode)."
            if spec.target not in FILES and not here.hub_answers:  # pip's index has files too
                return False, f"{ABSENT} the model hub cannot be reached."
        if full := refusal(spec, here.machine, loaded(spec)):
            return False, full
    except SpecDiffError as error:
        return False, error.message
    except (OSError, ValueError, RuntimeError, ImportError) as error:
        return False, f"It could not be checked ({type(error).__name__}: {error})."
    return True, ""


def loaded(spec: PairSpec) -> list[str]:
    """The drafters that are loaded with a pair, before anybody asks for one: those that ship with the project."""
    return [drafter.name for drafter in spec.drafters if not drafter.source or is_local(drafter.source)]
