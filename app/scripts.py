"""JavaScript for Gradio's events, which takes strings; the player is in ``app/static``."""

from __future__ import annotations

from collections.abc import Sequence

from .content.html import json_for_script

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

STEPS = """(gamma, steps) => {
  const typing = globalThis.document?.activeElement?.type === 'number';
  return typing || !(gamma >= 1) || !(steps >= 1) ? steps : Math.min(steps, gamma);
}"""
"""T, at most γ. Does nothing while a visitor types: before 16 comes 1."""

SHARE = """() => {
  const query = window.specdiff.share();
  if (query && window.parent !== window) window.parent.postMessage({ queryString: query }, 'https://huggingface.co');
}"""
"""In a Space, the link is also sent to the surrounding frame."""

_SETTINGS = "Object.fromEntries(NAMES.map((name, i) => [name, values[i]]))"

_TAKE = "(...values) => window.specdiff.players[TAB].form.take(SETTINGS)"

_CONTROLS = """(...values) => {
  const settings = SETTINGS;
  (window.specdiffControls ??= {})[TAB] = settings;
  window.specdiff?.players[TAB]?.form.controlsChanged(settings);
}"""

_RUN = """(...values) => [
  ...values.slice(0, -1), String(window.specdiff?.players[TAB]?.form.runSubmitted(SETTINGS) ?? '')
]"""


def press(button: str) -> str:
    """Press a button."""
    return f"() => document.getElementById({json_for_script(button)})?.click()"


def dare(prompt: str, temperature: float | None) -> str:
    """The values of prompt and temperature for a dare; an empty prompt and None leave them."""
    return (
        f"(prompt, temperature) => [{json_for_script(prompt)} || prompt, {json_for_script(temperature)} ?? temperature]"
    )


def take(tab: str, names: Sequence[str]) -> str:
    """The controls' values with those of the race on the stage."""
    return _filled(_TAKE, tab, names)


def controls(tab: str, names: Sequence[str]) -> str:
    """Send the controls' values by their names in a link to the player, or keep them until it is there."""
    return _filled(_CONTROLS, tab, names)


def run(tab: str, names: Sequence[str]) -> str:
    """Send a run's values to the player; the last becomes the player's number of threads for this run."""
    return _filled(_RUN, tab, names)


def _filled(script: str, tab: str, names: Sequence[str]) -> str:
    filled = script.replace("SETTINGS", _SETTINGS).replace("NAMES", json_for_script(list(names)))
    return filled.replace("TAB", json_for_script(tab))
