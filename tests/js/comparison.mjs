// A table of the Compare tab, with invented numbers.
const part = (value, tau, low = value - 0.1, high = value + 0.2) => ({ value, low, high, tau, alpha: 0.5, cost: tau / value });
export function cell(drafter, shape, key, speeds, more = {}) {
  const value = (speeds.code + speeds.stories) / 2;
  const tau = drafter === 'none' ? 1 : 4;
  return {
    key, drafter, shape, method: { 'none/window': 'vanilla', 'block/window': 'dflash' }[`${drafter}/${shape}`] ?? '', group: `${drafter}/${shape}`, label: `${drafter} ${shape}`, short: drafter, words: drafter === 'none' ? '' : 'γ 9, T 1',
    speedup: { value, low: value - 0.2, high: value + 0.3, level: 0.95 }, tau, alpha: 0.5, cost: tau / value, alpha_at: [0.9, 0.8], tested_at: [100, 10],
    by_flavour: { code: part(speeds.code, tau), stories: part(speeds.stories, tau / 2) }, target_passes_per_token: 1 / tau, drafter_passes_per_round: 1,
    peak_bytes: 6.5e8, same_text_as_vanilla: 20, texts: 20, ...more,
  };
}
/** Vanilla and three uses of two drafters; one race is recorded for each flavour. */
export const table = (temperature = 0) => ({
  temperature, rule: 'ratio', lossless: true, prompts: { code: 10, stories: 10 }, flavours: ['code', 'stories'], repeats: 2, left_out: [], settings: { max_new_tokens: 96, ignore_eos: true },
  origin: { device: 'cpu: X', cpu: 'A processor', cores: 2, gpu: '', system: 'Linux', dtype: 'fp32', threads: 2, versions: { torch: '2', numpy: '' }, date: '2026-01-02T03:04+00:00', commit: 'abc', dirty: true, command: 'python -m specdiff_core bench', sittings: 2 },
  cells: [cell('none', 'window', 'none/1/1', { code: 1, stories: 1 }), cell('block', 'window', 'block/9/1', { code: 3, stories: 2 }), cell('block', 'tree', 'block/9/1/9', { code: 2, stories: 3.5 }), cell('mdlm', 'window', 'mdlm/4/1', { code: 0.8, stories: 0.9 })],
  races: { code: { file: 'races/0-code.jsonl.gz', lanes: ['vanilla', 'block/9/1', 'block/9/1/9'], title: 'code race', data: 'AA==' }, stories: { file: 'races/0-stories.jsonl.gz', lanes: ['vanilla', 'block/9/1', 'block/9/1/9'], title: 'stories race' } },
});
