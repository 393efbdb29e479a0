// A page for views that are drawn in a test: as much of a document as Preact draws into.

class Node {
  constructor(name, data) {
    Object.assign(this, { localName: name, nodeName: name, data, childNodes: [], attributes: {} });
    Object.assign(this, {
      nodeType: data === undefined ? 1 : 3,
      style: { setProperty() {} },
      listeners: {},
    });
    this.dataset = {};
    this.classList = { add() {}, remove() {}, toggle() {}, contains: () => false };
  }
  get firstChild() {
    return this.childNodes[0] ?? null;
  }
  get nextSibling() {
    return this.parentNode.childNodes[this.parentNode.childNodes.indexOf(this) + 1] ?? null;
  }
  get textContent() {
    return this.data ?? this.childNodes.map((child) => child.textContent).join('');
  }
  insertBefore(child, next) {
    child.parentNode?.removeChild(child);
    child.parentNode = this;
    this.childNodes.splice(next ? this.childNodes.indexOf(next) : Infinity, 0, child);
  }
  appendChild(child) {
    this.insertBefore(child, null);
  }
  append(...children) {
    children.forEach((child) => this.appendChild(child));
  }
  removeChild(child) {
    this.childNodes.splice(this.childNodes.indexOf(child), 1);
    child.parentNode = null;
  }
  setAttribute(name, value) {
    this.attributes[name] = String(value);
  }
  removeAttribute(name) {
    delete this.attributes[name];
  }
  addEventListener(name, listener) {
    this.listeners[name] = listener;
  }
  removeEventListener(name) {
    delete this.listeners[name];
  }
  querySelectorAll() {
    return [];
  }
  showModal() {
    this.open = true;
  }
  close() {
    this.open = false;
  }
  /** All elements of a kind, with these words if given. */
  all(name, words = '') {
    return this.childNodes.flatMap((child) => [
      ...(child.localName === name && child.textContent.includes(words) ? [child] : []),
      ...child.all(name, words),
    ]);
  }
  /** Let something happen to it, and draw what that changes. */
  async fire(type, more = {}) {
    const event = { type, target: this, currentTarget: this, preventDefault() {}, ...more };
    this.listeners[type].call(this, event);
    await new Promise((drawn) => setTimeout(drawn));
  }
}

const create = (name, data) => new Node(name, data);
Object.assign(globalThis, {
  HTMLElement: Node,
  IntersectionObserver: class {
    observe() {}
  },
  MutationObserver: class {
    observe() {}
  },
  addEventListener() {},
  location: new URL('http://lab/'),
  document: {
    baseURI: 'http://lab/',
    body: create('body'),
    addEventListener() {},
    createElement: (name) => create(name),
    createElementNS: (_, name) => create(name),
    createTextNode: (data) => create('#text', data),
    getElementById: () => null,
    querySelector: () => null,
  },
});
globalThis.window = globalThis;
const { render } = await import('../../app/static/vendor/preact.js');

/** Draw a view; `place` draws it again. */
export function drawn(view, place = create('div')) {
  render(view, place);
  return place;
}
