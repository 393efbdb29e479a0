// Colours and marks of methods, the same in every chart; the dash shows how a drafter is used.
// Lanes without a known method (of a foreign trace) get the colours and marks that are left. Pure.

/** @import { Lanes } from './race.js' */

/** @typedef {{label: string, short: string, about: string, colour: string, mark: string}} Method
 *  one record of specdiff_core/schema/methods.py */
/** @typedef {{methods: Record<string, Method>, glyphs: Record<string, string>,
 *  dashes: Record<string, string>}} Looks from the server: by method, by symbol of Plotly's, and by
 *  use of a drafter (specdiff_core/explorations/figures.py) */
/** @typedef {Method & {glyph: string, dash: string}} Named */

const OTHER_DASH = '10px,3px,2px,3px'; // of a use that is not known

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

/** The drafted lane of a race of two, whose method has no name. @type {Method} */
const DRAFTED = {
  label: 'With drafts',
  short: 'With drafts',
  about: '',
  colour: 'lane-1',
  mark: 'circle',
};

/** The colours and marks that no method has. @param {Pick<Looks, 'methods' | 'glyphs'>} looks */
export function spare({ methods, glyphs }) {
  const taken = new Set(Object.values(methods).map((method) => method.mark));
  const left = Object.keys(glyphs).filter((mark) => !taken.has(mark));
  const roles = new Set(Object.values(methods).map((method) => method.colour));
  const colours = [...roles].filter((role) => role !== 'target');
  return (i) => ({ mark: left[i % left.length], colour: colours[i % colours.length] });
}

/** The lanes of a race by name: what they are called and how they are drawn.
 *  @param {string[]} names @param {Lanes} lanes @param {string | null} baseline
 *  @param {Looks} looks
 *  @param {Record<string, {label: string, method?: string}>} labels that came with a recording
 *  @returns {Record<string, Named>} */
export function nameLanes(names, lanes, baseline, looks, labels) {
  const { glyphs, dashes } = looks;
  const methods = { drafted: DRAFTED, ...looks.methods };
  const free = spare(looks);
  const taken = new Set(); // no two lanes look the same
  let next = 0;
  return Object.fromEntries(names.map((name) => {
    const words = Object.hasOwn(labels, name) ? labels[name] : null;
    const key = words?.method || name;
    const method = Object.hasOwn(methods, key) ? methods[key] : null;
    const config = lanes[name]?.header?.config ?? null;
    const label = words?.label ?? method?.label ?? name.replaceAll('_', ' ');
    const short = (!words && method?.short) || label;
    const about = (!words && method?.about) || '';
    if (name === baseline) {
      const style = { colour: 'target', mark: 'x', glyph: glyphs['line-ns'], dash: 'dot' };
      return [name, { label, short, about, ...style }];
    }
    const preferred = method ?? free(next++);
    const style = taken.has(`${preferred.mark} ${preferred.colour}`) ? free(next++) : preferred;
    taken.add(`${style.mark} ${style.colour}`);
    const use = useOf(config);
    const dash = Object.hasOwn(dashes, use) ? dashes[use] : OTHER_DASH;
    return [name, { ...style, label, short, about, glyph: glyphs[style.mark], dash }];
  }));
}
