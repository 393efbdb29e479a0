"""JavaScript that Gradio's components and events take as strings; it loads the scripts of ``app/static``."""

from __future__ import annotations

import json
from typing import Any

from .content.html import json_for_script
from .content.symbols import glossary
from .first_load import PLOTLY

THEME = """() => {
  const dark = document.body.classList.toggle('dark');
  try { localStorage.setItem('specdiff-theme', dark ? 'dark' : 'light'); }
  catch (error) { console.info('theme not kept', error); }
}"""

OWN_ADDRESS = """
const address = document.baseURI.split(/[?#]/)[0].replace(/[/]*$/, '/');
element.querySelectorAll('code').forEach((code) => {
  code.textContent = code.textContent.replaceAll('http://127.0.0.1:7860/', address);
});"""

SHARE = """() => {
  const query = window.specdiff.share();
  if (query && window.parent !== window) window.parent.postMessage({ queryString: query }, 'https://huggingface.co');
}"""
"""In a Space, the link is also sent to the surrounding frame."""

MISSING = "This part of the page wasn’t loaded. Reload the page."
MODEL = """watch('value', () => dispatchEvent(new CustomEvent('specdiff:model', {
  detail: { tab: TAB, ...JSON.parse(props.value) },
})));"""
"""JavaScript of a form's element: passes on messages about its model."""


EVENTS = {
    "run": "submit",
    "stop": "stop",
    "get_model": "apply",
    "stop_model": "clear",
    "redraft": "retry",
    "stop_redraft": "end",
}
"""What a script triggers -> the event of Gradio's components that stands for it."""


def when(element: Any, triggered: str) -> Any:
    """The event of an element that its script triggers by this name."""
    return getattr(element, EVENTS[triggered])


def mount(script: str, options: dict[str, Any]) -> str:
    """JavaScript that a component runs when it appears: import a module and mount it once. The module starts
    :data:`EVENTS` of the component with ``trigger``."""
    values = json_for_script({"plotly": PLOTLY.name, "symbols": glossary(), **options})
    gradio = f"{{ props, watch, server, trigger: (name, data) => trigger({json.dumps(EVENTS)}[name], data) }}"
    mounted = f"import('sd/{script}').then((module) => module.mount(element, {gradio}, {values}))"
    return f"{mounted}.catch((error) => {{ element.append({json.dumps(MISSING)}); throw error; }});"
