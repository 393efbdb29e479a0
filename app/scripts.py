"""JavaScript for Gradio's events, which takes strings; the player is in ``app/static``."""

from __future__ import annotations

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
