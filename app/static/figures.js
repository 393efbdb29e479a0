// Figures of the Learn tab: the server describes them, and Plotly draws them when they come into view.
// @ts-check

import { Charts } from './views/charts.js';
import { drawn } from './views/figure.js';
/** @import { Colours } from './views/charts.js' */
/** @import { Figure } from './state/exploration.js' */

const WITHOUT = 'The chart library could not be loaded; the numbers are below.';

/** Draw every described figure below `element`. @param {HTMLElement} element @param {{plotly: string}} options */
export function drawFigures(element, { plotly }) {
  const places = /** @type {HTMLElement[]} */ ([...element.querySelectorAll('[data-figure]')]);
  const figures = places.map((place) => {
    /** @type {Figure} */
    const told = JSON.parse(place.dataset.figure ?? '');
    return (/** @type {unknown} */ _, /** @type {Colours} */ c) => drawn(told, c);
  });
  const named = (/** @type {any[]} */ all) => Object.fromEntries(all.entries());
  new Charts(named(places), named(figures), { plotly, without: WITHOUT, share: 0 }).offer({});
}
