"""The few lines of JavaScript that Gradio's own events run in the browser. They must be strings, because Gradio takes
them so; the player itself is ``app/static``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.content.html import json_for_script

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

_BOND = """(gamma, steps) => {
  const typing = document.activeElement && document.activeElement.type === 'number';
  return typing || !(gamma >= 1) || !(steps >= 1) ? OWN : Math.BOUND(gamma, steps);
}"""
"""While somebody types a number, 16 passes through 1 and through nothing: the other knob waits for the end."""
KEEP_STEPS_BELOW_GAMMA = _BOND.replace("OWN", "steps").replace("BOUND", "min")
KEEP_GAMMA_ABOVE_STEPS = _BOND.replace("OWN", "gamma").replace("BOUND", "max")

_FIT = "(pair, drafter, gamma) => Math.min(gamma, LONGEST[pair]?.[drafter] ?? gamma)"

_QUERY = """((names, values) => {
  const query = new URLSearchParams();
  names.forEach((name, i) => {
    const value = values[i];
    if (value !== null && value !== undefined && value !== '') query.set(name, value);
  });
  return query;
})"""

SHARE = """() => {
  const button = document.getElementById('sd-share');
  const racing = document.getElementById('race-controls')?.offsetParent;
  const exploring = document.querySelector('#explore-player .sd-exp')?.offsetParent;
  const explored = exploring ? window.specdiff.players.explore.query() : null;
  const query = explored ?? (window.specdiffAsked ?? {})[racing ? 'race' : 'live'] ?? '';
  if (location.pathname.length + query.length > 8000) { window.specdiff.say(button, 'Prompt too long'); return; }
  window.specdiff.giveLink(button, query);
  if (window.parent !== window) window.parent.postMessage({ queryString: query }, 'https://huggingface.co');
}"""
"""A link with the prompt and every setting of the tab on screen (``static/views/link.js``); inside a Space, the frame
around the page is told of it too."""

_CONTROLS = """(...values) => {
  const asked = QUERY(NAMES, values).toString();
  (window.specdiffAsked ??= {})[TAB] = asked;
  window.specdiff?.players[TAB]?.controls(asked);
}"""

_RUN = """(...values) => {
  const player = window.specdiff?.players[TAB];
  const threads = player?.threads ?? '';
  if (player) player.threads = null;
  return [...values.slice(0, -1), String(threads)];
}"""

_CHOOSE = """(index, pair, ...values) => {
  const chosen = OPTIONS[index];
  if (!chosen) return values;
  const fits = (DRAFTERS[pair] || []).includes(chosen.drafter);
  return Object.keys(chosen).map((name, i) => (name === 'drafter' && !fits ? values[i] : chosen[name]));
}"""


def constant(value: Any) -> str:
    """A function that returns a value."""
    return f"() => {json_for_script(value)}"


def controls(tab: str, names: Sequence[str]) -> str:
    """Tell the player what the controls ask for, as a link holds it. The same words make share links, and a page that
    loses its server is reloaded with them."""
    return (
        _CONTROLS.replace("QUERY", _QUERY)
        .replace("NAMES", json_for_script(list(names)))
        .replace("TAB", json_for_script(tab))
    )


def run(tab: str) -> str:
    """A run's values, the last of which is the number of threads that the player wants for this run."""
    return _RUN.replace("TAB", json_for_script(tab))


def choose(options: Sequence[dict[str, Any]], drafters: Mapping[str, Sequence[str]]) -> str:
    """From the index of an option, the pair, and the values on the page to the option's values, in order.

    No option of that index, or a drafter that the pair has not: what is on the page stays. Gradio tells of a choice
    also when somebody only passes by the list; that is harmless, because a setting that is changed takes the list's
    own value away (see :data:`app.controls.CUSTOM`).
    """
    return _CHOOSE.replace("OPTIONS", json_for_script(list(options))).replace("DRAFTERS", json_for_script(drafters))


def fit(longest: Mapping[str, Mapping[str, int]]) -> str:
    """From pair, drafter and γ to a γ that the drafter takes: asked here, where a preset may just have set it."""
    return _FIT.replace("LONGEST", json_for_script(longest))
