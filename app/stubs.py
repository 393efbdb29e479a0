"""Lets Gradio be imported in half the time. Knows one function of Gradio's, and nothing of this page.

At every import Gradio parses the source of all its components and renders their type stubs, for editors. That is one
of the 2.3 seconds of processor time that the import takes (measured, 6.31), and nothing can be shown before its end.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType

MODULE, FUNCTION = "gradio.component_meta", "create_or_modify_pyi"


class _Loader(SourceFileLoader):
    """Loads the module and takes the writing of stubs out of it."""

    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        if hasattr(module, FUNCTION):
            setattr(module, FUNCTION, lambda component, name, events: None)


class _Finder(MetaPathFinder):
    """Finds that one module, and leaves all others to the finders behind it."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != MODULE:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and type(spec.loader) is SourceFileLoader:
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


def skip_stubs() -> None:
    """Call it before Gradio is imported. Later calls, and a Gradio without that function, change nothing."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
