// Holds every animation of the page back to four frames a second while a lane is being measured. Browser and decoder
// often share a processor, and Gradio's own waiting clock asks for sixty. Runs before Gradio's scripts (app/early.py).

(function calm(page, measuring, interval) {
  const ask = page.requestAnimationFrame.bind(page);
  const drop = page.cancelAnimationFrame.bind(page);
  const held = new Map(); // our number -> its timer, then the browser's frame
  let count = 0;

  page.requestAnimationFrame = (callback) => {
    if (!measuring()) return ask(callback);
    count -= 1; // the browser's own numbers are positive
    const number = count;
    const wait = { timer: 0, frame: 0 };
    const rest = interval - (page.performance.now() % interval); // all who wait share one frame
    wait.timer = page.setTimeout(() => {
      wait.frame = ask((now) => {
        held.delete(number);
        callback(now);
      });
    }, rest);
    held.set(number, wait);
    return number;
  };

  page.cancelAnimationFrame = (number) => {
    const wait = held.get(number);
    if (!wait) {
      drop(number);
      return;
    }
    held.delete(number);
    page.clearTimeout(wait.timer);
    if (wait.frame) drop(wait.frame);
  };
})(window, () => Boolean(window.specdiff && window.specdiff.live), 250);
