// Values that a part of the page shows: setting one draws that part, once for all that are set together.

/** @template T @param {T} values @param {() => void} changed @returns {T} */
export const store = (values, changed) =>
  new Proxy(/** @type {any} */ (values), {
    set(target, name, value) {
      const differs = target[name] !== value;
      target[name] = value;
      if (differs) changed();
      return true;
    },
  });

/** Call `draw` once for many calls, when the code that made them is done. @param {() => void} draw */
export function soon(draw) {
  let due = false;
  return () => {
    if (!due) {
      queueMicrotask(() => {
        due = false;
        draw();
      });
    }
    due = true;
  };
}
