"""Says whether a pair can be used here, and if not, why. Needs no torch: the page asks it too. Loads nothing."""

from __future__ import annotations

import contextlib
import sys
import threading

from specdiff_core.models.folders import INDEX, WEIGHTS, is_local, read_config, resolve, weight_files
from specdiff_core.schema.errors import SpecDiffError
from specdiff_core.schema.pairs import PairSpec

PATIENCE = 2.0  # seconds to wait for the hub before calling it unreachable


def availability(spec: PairSpec) -> tuple[bool, str]:
    """Whether a pair can be used here, and if not, why: ``(True, "")`` or ``(False, reason)``. Cheap; never raises.

    Local files must exist; a hub repository must be cached at its revision or the hub be reachable; memory must do.
    A missing local drafter does not count (see ``LoadedPair.missing``).
    """
    from huggingface_hub import is_offline_mode

    try:
        sources = [(spec.target, spec.revision), *((d.source, d.revision) for d in spec.drafters if d.source)]
        if is_local(spec.target):
            folder = resolve(spec.target)
            read_config(folder)
            weight_files(folder)
        if spec.tokenizer and is_local(spec.tokenizer):
            resolve(spec.tokenizer)
        absent = [repo for repo, revision in sources if not is_local(repo) and not _is_cached(repo, revision)]
        if absent and is_offline_mode():
            return False, f"Not in the local cache: {', '.join(absent)}; and the hub is switched off (offline mode)."
        if absent and not _hub_answers():
            return False, f"Not in the local cache: {', '.join(absent)}; and the model hub cannot be reached."
        free = _free_memory()
        if free < spec.memory_bytes:
            return False, f"It needs about {spec.memory_bytes / 1e9:.1f} GB of memory; {free / 1e9:.1f} GB are free."
    except SpecDiffError as error:
        return False, error.message
    except (OSError, ValueError, RuntimeError, ImportError) as error:
        return False, f"It could not be checked ({type(error).__name__}: {error})."
    return True, ""


def _is_cached(repo: str, revision: str) -> bool:
    from huggingface_hub import try_to_load_from_cache

    def has(name: str) -> bool:
        return isinstance(try_to_load_from_cache(repo, name, revision=revision or None), str)

    return has("config.json") and (has(WEIGHTS) or has(INDEX))


def _hub_answers() -> bool:
    """Whether the hub answers within :data:`PATIENCE`; an error status is an answer."""
    from huggingface_hub import constants, get_session

    answered = threading.Event()

    def ask() -> None:
        with contextlib.suppress(Exception):  # whatever it is, no answer came
            get_session().head(constants.ENDPOINT, timeout=PATIENCE)
            answered.set()

    # A thread, since resolving a name obeys no timeout.
    threading.Thread(target=ask, daemon=True, name="hub-check").start()
    return answered.wait(PATIENCE)


def _free_memory() -> int:
    """Bytes free where models would go: the CUDA device if this process has one, else main memory."""
    torch = sys.modules.get("torch")  # a process that has not imported it shall not begin to because of this
    if torch is not None and torch.cuda.is_available():
        return int(torch.cuda.mem_get_info()[0])
    import psutil  # comes with accelerate

    return int(psutil.virtual_memory().available)
