// Draws the page at most once a second while a lane is being measured, and less often if a frame takes long: frames get
// one part in `share` of the time. Browser and decoder often share a processor, and Gradio's own waiting clock asks for
// sixty frames. Runs before Gradio's scripts (app/gradio_patches.py).

(function throttle(page, race, interval, longest, share) {
  const ask = page.requestAnimationFrame.bind(page);
  const drop = page.cancelAnimationFrame.bind(page);
  const held = new Map(); // our number -> {callback, frame}; frame 0: it waits
  let count = 0;
  let drawn = -Infinity; // when the last frame of a measurement was drawn
  let cost = 0; // its milliseconds, with layout and paint
  let timer = 0;
  let painting = 0; // the timer that fires when the frame is painted

  function painted(began) {
    painting = 0;
    cost = page.performance.now() - began;
  }

  function release() {
    page.clearTimeout(timer);
    timer = 0;
    for (const [number, wait] of held) {
      if (wait.frame) continue;
      wait.frame = ask((now) => {
        held.delete(number);
        drawn = page.performance.now();
        painting ||= page.setTimeout(painted, 0, drawn);
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
    held.set(count, { callback, frame: 0 });
    if (!timer) {
      const pause = Math.max(interval, Math.min(longest, share * cost));
      timer = page.setTimeout(release, Math.max(0, drawn + pause - page.performance.now()));
    }
    return count;
  };

  page.cancelAnimationFrame = (number) => {
    const wait = held.get(number);
    held.delete(number);
    if (!wait) drop(number);
    else if (wait.frame) drop(wait.frame);
  };

  page.addEventListener('specdiff:measured', release);
})(
  /** @type {any} */ (window),
  () =>
    Object.values((/** @type {any} */ (window).specdiff ?? { players: {} }).players).map((one) =>
      one.live
    ).find(Boolean),
  1000,
  4000,
  40,
);
