// Figures of the Learn tab: described by the server, drawn by Plotly when they scroll into view.

import { Charts } from './views/charts.js';
import { drawn } from './views/figure.js';
/** @import { Colours } from './views/charts.js' */
/** @import { Figure } from './state/exploration.js' */

const WITHOUT = 'The chart library could not be loaded; the numbers are below.';

/** Draw the figures below an element. @param {HTMLElement} element @param {{plotly: string}} options */
export function drawFigures(element, { plotly }) {
  const places = /** @type {HTMLElement[]} */ ([...element.querySelectorAll('[data-figure]')]);
  const figures = places.map((place) => {
    /** @type {Figure} */
    const figure = JSON.parse(place.dataset.figure ?? '');
    return (/** @type {unknown} */ _, /** @type {Colours} */ c) => drawn(figure, c);
  });
  const named = (/** @type {any[]} */ all) => Object.fromEntries(all.entries());
  new Charts(named(places), named(figures), { plotly, without: WITHOUT, share: 0 }).offer({});
}
