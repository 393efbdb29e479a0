// Plotly figures of the latest state, updated at most 12 times a second and only while visible.
// Keeps its own reference to Plotly, because other components may replace the global one.

import { styledFigure } from './figure.js';
import { glossAxis } from './glossary.js';
/** @import { Figure } from '../state/exploration.js' */

const LEAST_MS = 1000 / 12;
const SHARE = 5; // at most a fifth of the time goes into charts
let library = null;

/** Load Plotly once, from this server. */
function loadPlotly(address) {
  return library ??= new Promise((resolve, reject) => {
    const script = document.createElement('script');
    script.src = address;
    script.onload = () => resolve(/** @type {any} */ (window).Plotly);
    script.onerror = () => reject(new Error('Plotly could not be loaded'));
    document.head.append(script);
  });
}

/** Colours of the page by role, from the palette's custom properties. */
function colours(element) {
  const style = getComputedStyle(element);
  return new Proxy({}, { get: (_, role) => style.getPropertyValue(`--sd-${String(role)}`).trim() });
}

/** Attach the meanings of symbols to the titles of a figure's axes. @param {HTMLElement} element */
function titles(element) {
  for (const title of element.querySelectorAll('.xtitle, .ytitle, .y2title')) {
    const name = title.classList[0].replace('title', '').replace(/^[xy]/, '$&axis'); // yaxis2
    const words = /** @type {any} */ (element).layout[name].title.text;
    glossAxis(title, words.replace('<sub>', '_').replace(/<[^>]*>/g, '')); // as in prose
  }
}

/** Draws figures in its own animation frames, while something new is on screen. */
export class Charts {
  /** @param {Iterable<any>} places elements whose `data-figure` names their figure
   *  @param {{plotly: string, without: string, share?: number,
   *    made?: (place: HTMLElement) => void}} options address of Plotly;
   *    shown if it cannot be loaded; at most one part in `share` of the time goes into figures;
   *    called when a place gets a new figure, which has no listeners yet */
  constructor(places, { plotly: address, without, share = SHARE, made = () => {} }) {
    /** @type {Record<string, HTMLElement>} */
    this.places = Object.fromEntries([...places].map((one) => [one.dataset.figure ?? '', one]));
    /** @type {((name: string) => Partial<Figure>) | null} */
    this.figures = null;
    this.share = share;
    this.made = made;
    this.visible = new Set();
    this.last = 0;
    this.pause = LEAST_MS;
    this.dirty = new Set();
    this.frame = 0; // id of the requested animation frame
    this.plotly = null;
    this.loading = null;
    const watcher = new IntersectionObserver((entries) => {
      for (const { target, isIntersecting } of entries) {
        const name = /** @type {HTMLElement} */ (target).dataset.figure ?? '';
        if (isIntersecting) this.visible.add(name);
        else this.visible.delete(name);
      }
      this.last = 0;
      this.wake();
    });
    for (const element of places) watcher.observe(element);
    new MutationObserver(() => this.offer(this.figures)).observe(document.body, {
      attributeFilter: ['class'],
    }); // figures contain the theme's colours
    /** Only for a figure that is visible: it is a third of the work of opening the page. */
    this.load = () =>
      this.loading ??= loadPlotly(address).then((plotly) => {
        this.plotly = plotly;
        this.wake();
      }, (error) => {
        console.warn('no charts:', error);
        for (const element of places) element.textContent = without;
        this.places = {}; // nothing else is said there
      });
  }

  /** Set the newest figures; earlier undrawn ones are dropped.
   *  @param {Charts['figures']} figures */
  offer(figures) {
    this.figures = figures;
    for (const name of Object.keys(this.places)) this.dirty.add(name); // in waiting order
    this.wake();
  }

  /** Show a sentence instead of every figure. */
  blank(words) {
    this.figures = null;
    for (const element of Object.values(this.places)) this.say(element, words);
  }

  say(element, words) {
    if (element.classList.contains('js-plotly-plot')) this.plotly.purge(element); // the class stays
    element.classList.remove('js-plotly-plot');
    element.dataset.empty = 'true';
    if (element.textContent !== words) element.textContent = words;
  }

  /** The visible figure that has waited longest for an update, if any. */
  get waiting() {
    return this.figures && [...this.dirty].find((name) => this.visible.has(name));
  }

  wake() {
    if (this.frame || !this.waiting) return;
    if (this.plotly) this.frame = requestAnimationFrame((now) => this.tick(now));
    else this.load();
  }

  tick(now) {
    this.frame = 0;
    const name = this.waiting;
    if (this.figures && name && now - this.last >= this.pause && this.places[name].offsetParent) {
      const began = performance.now();
      this.dirty.delete(name);
      try {
        const place = this.places[name];
        this.draw(place, styledFigure(this.figures(name), colours(place)));
      } catch (error) {
        console.error('a figure could not be drawn:', error); // others continue
      }
      this.last = now;
      this.pause = Math.max(LEAST_MS, this.share * (performance.now() - began)); // no backlog
    }
    this.wake();
  }

  /** @param {ReturnType<typeof styledFigure>} figure */
  draw(element, figure) {
    if (typeof figure === 'string') {
      this.say(element, figure);
      return;
    }
    if (element.dataset.empty) element.textContent = '';
    delete element.dataset.empty;
    const isNew = !element.classList.contains('js-plotly-plot');
    this.plotly.react(element, figure.data, figure.layout, {
      displayModeBar: false,
      responsive: true,
    });
    if (isNew) {
      /** @type {any} */ (element).on('plotly_afterplot', () => titles(element)); // resized
      this.made(element);
    }
    titles(element);
  }
}
