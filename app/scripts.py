"""The few lines of JavaScript that Gradio's own events run in the browser. Knows element ids, no decoding, no player.

The player itself is ``app/static``; what stands here must be a string, because Gradio takes it as one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from app.html import json_for_script

THEME = """() => {
  const dark = document.body.classList.toggle('dark');
  try { localStorage.setItem('specdiff-theme', dark ? 'dark' : 'light'); }
  catch (error) { console.info('theme not kept', error); }
}"""

OWN_ADDRESS = """
const own = document.baseURI.split(/[?#]/)[0];
element.querySelectorAll('code').forEach((code) => {
  code.textContent = code.textContent.replaceAll('http://127.0.0.1:7860/', own);
});"""

KEEP_STEPS_BELOW_GAMMA = "(gamma, steps) => Math.min(gamma, steps)"
KEEP_GAMMA_ABOVE_STEPS = "(gamma, steps) => Math.max(gamma, steps)"

_SHARE = """(prompt, ...values) => {
  const names = NAMES;
  const query = new URLSearchParams({ prompt });
  names.forEach((name, i) => { if (values[i] !== null && values[i] !== undefined) query.set(name, values[i]); });
  const address = location.pathname + '?' + query;
  const button = document.getElementById('sd-share');
  const say = (words) => {
    button.textContent = words;
    setTimeout(() => { button.textContent = 'Share link'; }, 2200);
  };
  if (address.length > 8000) { say('Prompt too long'); return; }
  history.replaceState(null, '', address);
  if (window.parent !== window) window.parent.postMessage({ queryString: query.toString() }, 'https://huggingface.co');
  const fallback = () => say('Link in address bar');
  if (navigator.clipboard) navigator.clipboard.writeText(location.href).then(() => say('Link copied'), fallback);
  else fallback();
}"""


def constant(value: Any) -> str:
    """A function that returns a value."""
    return f"() => {json_for_script(value)}"


def share(names: Sequence[str]) -> str:
    """Put every setting and the prompt into the address, and copy it (inside a Space, tell the frame around it)."""
    return _SHARE.replace("NAMES", json_for_script(list(names)))


def choose(options: Sequence[dict[str, Any]]) -> str:
    """From the index of an option to its values, in order."""
    return f"(index) => Object.values({json_for_script(list(options))}[+index])"
