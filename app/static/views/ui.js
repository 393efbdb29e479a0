// Shared by the views: the view library and common components. Text always becomes a text node.

// @ts-types="../vendor/preact.d.ts"
import { Component, html, render } from '../vendor/preact.js';
import { until } from './dom.js';
import { splitSymbols } from './glossary.js';
// @ts-types="../vendor/preact.d.ts"
export { Component, html, render, useState } from '../vendor/preact.js';
/** @import { Child } from '../vendor/preact.d.ts' */

/**
 * A component that acts after each drawing. With `keys` it is drawn again only when its state or
 * one of these props changes.
 * @template P @template S @extends {Component<P, S>}
 */
export class View extends Component {
  /** @type {string[] | null} */
  keys = null;

  /** @param {P} [before] the props of the drawing before; undefined: the first drawing */
  drawn(before) {}

  /** @param {P} next @param {S} state @override */
  shouldComponentUpdate(next, state) {
    const { keys, props } = this;
    return !keys || state !== this.state || keys.some((key) => next[key] !== props[key]);
  }

  /** @override */ componentDidMount() {
    this.drawn();
  }

  /** @param {P} before @override */
  componentDidUpdate(before) {
    this.drawn(before);
  }
}

/** The names of classes, without those that are false or empty. */
export const classes = (...names) => names.filter(Boolean).join(' ');

/** Holds an element that other code fills, such as a job's card. */
export class ElementSlot extends View {
  /** @override */ keys = [];

  /** @override */ drawn() {
    this.base.append(this.props.element);
  }

  /** @override */ render() {
    return html`<div class="sd-held"></div>`;
  }
}

/** Draws its children into another element of the page, `in`, as soon as that is there.
 *  @extends {View<{in: string, children: Child}, {}>} */
export class Elsewhere extends View {
  /** @override */ drawn() {
    const place = document.querySelector(this.props.in);
    if (place) render(this.props.children, place);
    else {until(() => document.querySelector(this.props.in), Infinity).then(() =>
        this.forceUpdate()
      );}
  }

  /** @override */ render() {
    return null;
  }
}

/** Words with tips on their symbols, and with `^(…)` raised. The Tab key stops at symbols that are
 *  not in `stops` yet; null: at none. @param {Set<string> | null} [stops] */
export const glossed = (words, stops = new Set()) => {
  const said = /** @type {Set<string>} */ (new Set());
  const marked = (part, i) => {
    if (i % 2 === 0) return part;
    const first = stops !== null && !stops.has(part);
    stops?.add(part);
    return html`<abbr class="sd-sym" data-symbol=${part} title="" tabindex=${
      first ? 0 : null
    }>${part}</abbr>`;
  };
  return words.split(/\^\(([^()]*)\)/).map((piece, i) =>
    i % 2
      ? html`<sup>${splitSymbols(piece, said).map(marked)}</sup>`
      : splitSymbols(piece, said).map(marked)
  );
};

/** A button of a bar. It loses the focus after a click, so that the space bar plays again, but not
 *  after a key.
 *  @param {{label: string, act: () => void, children: Child, name?: string,
 *  [attribute: string]: unknown}} props `label`: its
 *  action, for assistive technology and on hover; `name`: a class */
export const Button = ({ label, act, name = '', children, ...attributes }) => {
  const press = (event) => {
    act();
    if (event.detail) /** @type {HTMLElement} */ (event.currentTarget).blur();
  };
  return html`
    <button type="button" class="sd-button ${name}" aria-label=${label} title=${label}
      onclick=${press} ...${attributes}>
        ${children}</button>
  `;
};

/** A button that looks like a link.
 *  @param {{act: (event: MouseEvent) => void, children: Child, [attribute: string]: unknown}}
 *  props */
export const Link = ({ act, children, ...attributes }) =>
  html`<button type="button" class="sd-link" onclick=${act} ...${attributes}>${children}</button>`;

/** A list to choose from.
 *  @param {{label: string, value: string | number, options: [value: string | number,
 *  words: string][], act: (value: string) => void, [attribute: string]: unknown}} props */
export const Select = ({ label, value, options, act, ...attributes }) =>
  html`
    <select aria-label=${label} value=${value}
      onchange=${(event) => act(event.currentTarget.value)} ...${attributes}>
      ${options.map(([option, words]) => html`<option value=${option}>${words}</option>`)}</select>
  `;

/** A labelled slider that shows its value.
 *  @param {{label: string, title: string, min: number, max: number, step: number, value: number,
 *    act: (value: number) => void, hidden?: boolean}} props */
export const Slider = ({ label, title, value, act, hidden = false, ...limits }) =>
  html`
    <label class="sd-slider" title=${title} hidden=${hidden}><span>${glossed(label, null)}</span>
      <input type="range" ...${limits} value=${value} aria-label=${label} title=${title}
        oninput=${({ currentTarget }) => act(Number(currentTarget.value))} />
      <output>${Number(value.toFixed(2))}</output></label>
  `;

/** A list of things to open. It always shows its own name; empty lists are left out.
 *  @param {{label: string, all: any[], words: (item: any) => string, open: (item: any) => void,
 *  name?: string}} props */
export const Pick = ({ label, all, words, open, name = '' }) =>
  all.length > 0 && html`
    <select class="sd-pick ${name}" aria-label=${label} value="" onchange=${(event) => {
      open(all[event.currentTarget.value]);
      event.currentTarget.value = '';
    }}>
      <option value="">${label}…</option>
      ${all.map((item, i) => html`<option value=${i}>${words(item)}</option>`)}</select>
  `;

/** Names, and what each stands for. @param {{all: [name: Child, words: Child][]}} props */
export const Facts = ({ all }) =>
  html`
    <dl class="sd-facts">${all.map(([name, words]) =>
      html`
        <dt>${name}</dt>
        <dd>${words}</dd>
      `
    )}</dl>
  `;

/** A dialog; `open` shows it, and `closed` is called when it is closed.
 *  @extends {View<{title: string, open: boolean, closed: () => void, children: Child}, {}>} */
export class Dialog extends View {
  /** @override */ drawn() {
    const dialog = /** @type {HTMLDialogElement} */ (this.base);
    if (this.props.open === dialog.open) return;
    if (this.props.open) dialog.showModal();
    else dialog.close();
  }

  /** @param {{title: string, closed: () => void, children: Child}} props @override */
  render({ title, closed, children }) {
    const away = (event) => event.target === this.base && closed();
    return html`<dialog class="sd-dialog" aria-label=${title} onclose=${closed} onclick=${away}>
      <form method="dialog"><h2>${title}</h2>
        <button class="sd-button" aria-label="Close">✕</button></form>
      ${children}
    </dialog>`;
  }
}

const PATHS = {
  play: 'M5 3.2v9.6c0 .6.7 1 1.2.6l7-4.8c.4-.3.4-.9 0-1.2l-7-4.8C5.7 2.3 5 2.6 5 3.2z',
  pause: 'M4.5 3h2v10h-2zM9.5 3h2v10h-2z',
  start:
    'M3.5 3h1.6v10H3.5zM12.5 3.6v8.8c0 .5-.6.8-1 .5L6 8.5a.6.6 0 0 1 0-1l5.5-4.4c.4-.3 1 0 1 .5z',
  back: 'M10.2 3.5 5.7 8l4.5 4.5-1 1L3.7 8l5.5-5.5z',
  next: 'M5.8 3.5 10.3 8l-4.5 4.5 1 1L12.3 8 6.8 2.5z',
  save: 'M7.3 2h1.4v6.3l2.2-2.2 1 1L8 11 4.1 7.1l1-1 2.2 2.2zM3 12.5h10V14H3z',
};

/** A drawing that needs no icon font; decorative, so hidden from assistive technology. */
export const icon = (name) =>
  html`
    <svg viewBox="0 0 16 16" width="16" height="16" aria-hidden="true" focusable="false">
      <path d=${PATHS[name]} fill="currentColor" />
    </svg>
  `;
