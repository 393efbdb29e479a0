"""The few lines of JavaScript that Gradio's own events run in the browser. Knows element ids, no decoding, no player.

The player itself is ``app/static``; what stands here must be a string, because Gradio takes it as one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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

_BOND = """(gamma, steps) => {
  const typing = document.activeElement && document.activeElement.type === 'number';
  return typing || !(gamma >= 1) || !(steps >= 1) ? OWN : Math.BOUND(gamma, steps);
}"""
"""While somebody types a number, 16 passes through 1 and through nothing: the other knob waits for the end."""
KEEP_STEPS_BELOW_GAMMA = _BOND.replace("OWN", "steps").replace("BOUND", "min")
KEEP_GAMMA_ABOVE_STEPS = _BOND.replace("OWN", "gamma").replace("BOUND", "max")

_QUERY = """((names, values) => {
  const query = new URLSearchParams();
  names.forEach((name, i) => { if (values[i] !== null && values[i] !== undefined) query.set(name, values[i]); });
  return query;
})"""

_SHARE = """(...values) => {
  const { live, race } = NAMES;
  const racing = document.getElementById('race-controls')?.offsetParent;
  const [names, own] = racing ? [race, values.slice(live.length)] : [live, values];
  const query = QUERY(names, own);
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


def share(names: Mapping[str, Sequence[str]]) -> str:
    """Put the prompt and every setting of the tab on screen into the address, and copy it (inside a Space, tell the
    frame around it). ``names`` are those of Live's values, which come first, and of Race's."""
    known = json_for_script({tab: list(own) for tab, own in names.items()})
    return _SHARE.replace("QUERY", _QUERY).replace("NAMES", known)


def remember(prefix: str, names: Sequence[str]) -> str:
    """Keep what a run was asked for, as its link holds it, under the ``prefix`` of the player's controls: a page that
    loses its server is reloaded (app/static/app.js)."""
    keep = "(...values) => { (window.specdiffAsked ??= {})[PREFIX] = QUERY(NAMES, values).toString(); }"
    return (
        keep.replace("QUERY", _QUERY)
        .replace("PREFIX", json_for_script(prefix))
        .replace("NAMES", json_for_script(list(names)))
    )


_CHOOSE = """(index, pair, ...values) => {
  const chosen = OPTIONS[index];
  if (!chosen) return values;
  const fits = (DRAFTERS[pair] || []).includes(chosen.drafter);
  return Object.keys(chosen).map((name, i) => (name === 'drafter' && !fits ? values[i] : chosen[name]));
}"""


def choose(options: Sequence[dict[str, Any]], drafters: Mapping[str, Sequence[str]]) -> str:
    """From the index of an option, the pair, and the values on the page to the option's values, in order.

    No option of that index, or a drafter that the pair has not: what is on the page stays. Gradio tells of a choice
    also when somebody only passes by the list; that is harmless, because a setting that is changed takes the list's
    own value away (see :data:`app.build.CUSTOM`).
    """
    return _CHOOSE.replace("OPTIONS", json_for_script(list(options))).replace("DRAFTERS", json_for_script(drafters))
