// Colours and marks of methods, the same in every chart; dash and pattern show how a drafter is used. Other lanes (of a
// foreign trace, or with an unnamed setting) get the colours and marks that are left. Pure.

/** @import { Lanes } from './race.js' */

/** @typedef {{label: string, short: string, about: string, colour: string, mark: string}} Method
 *  one record of specdiff_core/schema/methods.py */
/** @typedef {{label: string, about: string, colour: string, mark: string, glyph: string,
 *  dash: string, pattern: string}} Named */

/** @type {Record<string, string>} a symbol of Plotly's -> the character that looks like it */
export const GLYPHS = {
  'line-ns': '┆',
  circle: '●',
  square: '■',
  'triangle-up': '▲',
  diamond: '◆',
  'triangle-down': '▼',
  star: '★',
  cross: '✚',
  hexagon2: '⬢',
  pentagon: '⬟',
  'star-diamond': '✦',
  'triangle-right': '▶',
  'triangle-left': '◀',
  x: '✖',
  hexagram: '✶',
};
/** @type {Record<string, [string, string]>} use of a drafter -> dash, pattern */
export const USES = {
  window: ['solid', ''],
  tree: ['dash', '/'],
  'window/auto': ['dashdot', '-'],
  'tree/auto': ['15px,3px,2px,3px', '|'],
  'drafts/self': ['dot', '.'],
  'drafts/trie': ['longdash', 'x'],
  'drafts/multi_round': ['longdashdot', '\\'],
};

/** @param {string} use as in USES @returns {[string, string]} dash of a line, pattern of a bar */
export const usedAs = (use) => Object.hasOwn(USES, use) ? USES[use] : ['10px,3px,2px,3px', '+'];

/** How the settings of a run use its drafter. @param {Record<string, any> | null} config */
export function useOf(config) {
  if (!config) return 'window';
  const shape = config.tree_nodes
    ? 'tree'
    : config.num_drafts > 1
    ? `drafts/${config.selection}`
    : 'window';
  return `${shape}${config.auto ? '/auto' : ''}`;
}

/** @type {Record<string, string>} lanes with a descriptive label */
const OWN_WORDS = { drafted: 'With drafts' };

/** The colours and marks that no method has. @param {Record<string, Method>} methods */
export function spare(methods) {
  const taken = new Set(Object.values(methods).map((method) => method.mark));
  const left = Object.keys(GLYPHS).filter((mark) => !taken.has(mark));
  const roles = new Set(Object.values(methods).map((method) => method.colour));
  const colours = [...roles].filter((role) => role !== 'target');
  return (i) => ({ mark: left[i % left.length], colour: colours[i % colours.length] });
}

/** The lanes of a race by name: what they are called and how they are drawn.
 *  @param {string[]} names @param {Lanes} lanes @param {string | null} baseline
 *  @param {Record<string, Method>} methods
 *  @param {Record<string, {label: string, method?: string}>} own words that came with a recording
 *  @returns {Record<string, Named>} */
export function nameLanes(names, lanes, baseline, methods, own) {
  const free = spare(methods);
  const taken = new Set(); // no two lanes look the same
  let next = 0;
  return Object.fromEntries(names.map((name) => {
    const words = Object.hasOwn(own, name) ? own[name] : null;
    const key = words?.method || name;
    const method = Object.hasOwn(methods, key) ? methods[key] : null;
    const config = lanes[name]?.header?.config ?? null;
    const named = Object.hasOwn(OWN_WORDS, name) ? OWN_WORDS[name] : null;
    const label = words?.label ?? (method ? method.label : named ?? name.replaceAll('_', ' '));
    const about = method && !words ? method.about : '';
    if (name === baseline) {
      const style = { colour: 'target', mark: 'x', glyph: GLYPHS['line-ns'], dash: 'dot' };
      return [name, { label, about, ...style, pattern: '' }];
    }
    const wanted = method
      ? { mark: method.mark, colour: method.colour }
      : named
      ? { mark: 'circle', colour: 'lane-1' }
      : free(next++);
    const style = taken.has(`${wanted.mark} ${wanted.colour}`) ? free(next++) : wanted;
    taken.add(`${style.mark} ${style.colour}`);
    const [dash, pattern] = usedAs(useOf(config));
    return [name, { label, about, ...style, glyph: GLYPHS[style.mark], dash, pattern }];
  }));
}
