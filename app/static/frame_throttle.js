// Draws the page at most once a second while a lane is being measured. Browser and decoder often
// share a processor, and Gradio's own waiting clock asks for sixty frames. Runs before Gradio's
// scripts (app/gradio_patches.py).

(function throttle(page, race, interval) {
  const ask = page.requestAnimationFrame.bind(page);
  const drop = page.cancelAnimationFrame.bind(page);
  const requests = new Map(); // our number -> {callback, frame}; frame 0: it waits
  let count = 0;
  let drawn = -Infinity; // when the last frame of a measurement was drawn
  let timer = 0;

  function release() {
    page.clearTimeout(timer);
    timer = 0;
    for (const [number, wait] of requests) {
      if (wait.frame) continue;
      wait.frame = ask((now) => {
        requests.delete(number);
        drawn = page.performance.now();
        wait.callback(now);
      });
    }
  }

  page.requestAnimationFrame = (/** @type {FrameRequestCallback} */ callback) => {
    const live = race();
    if (!live || live.warming) {
      if (live && live.hasEvents) drawn = page.performance.now(); // a lane is already shown
      return ask(callback);
    }
    count -= 1; // the browser's own numbers are positive
    requests.set(count, { callback, frame: 0 });
    if (!timer) {
      timer = page.setTimeout(release, Math.max(0, drawn + interval - page.performance.now()));
    }
    return count;
  };

  page.cancelAnimationFrame = (number) => {
    const wait = requests.get(number);
    requests.delete(number);
    if (!wait) drop(number);
    else if (wait.frame) drop(wait.frame);
  };

  page.addEventListener('specdiff:measured', release);
})(
  /** @type {any} */ (window),
  () =>
    Object.values((/** @type {any} */ (window).specdiff ?? { players: {} }).players).map((player) =>
      player.live
    ).find(Boolean),
  1000,
);
