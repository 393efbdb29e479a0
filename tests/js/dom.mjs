// As much of a page as the views need to be made and drawn in node: elements that remember what they were told.

class ClassList {
  constructor(element) {
    this.element = element;
  }

  get names() {
    return new Set(this.element.className.split(' ').filter(Boolean));
  }

  toggle(name, on = !this.contains(name)) {
    const { names } = this;
    if (on) names.add(name);
    else names.delete(name);
    this.element.className = [...names].join(' ');
  }

  add(name) {
    this.toggle(name, true);
  }

  remove(name) {
    this.toggle(name, false);
  }

  contains(name) {
    return this.names.has(name);
  }
}

export class FakeElement {
  constructor(tag) {
    Object.assign(this, {
      tag,
      className: '',
      attributes: {},
      children: [],
      dataset: {},
      heard: {},
      hidden: false,
      scrollWidth: 0,
      clientWidth: 0,
      offsetHeight: 0,
    });
    this.style = { setProperty: () => {} };
    this.classList = new ClassList(this);
  }

  append(...children) {
    this.children.push(...children);
  }

  replaceChildren(...children) {
    this.children = children;
  }

  querySelectorAll() {
    return [];
  }

  focus() {}

  setAttribute(name, value) {
    this.attributes[name] = value;
    if (name === 'class') this.className = value;
    if (name === 'hidden') this.hidden = true;
    if (name === 'value') this.value = value;
    if (name === 'checked') this.checked = true;
  }

  /** Of a list. */
  get options() {
    return this.children;
  }

  removeAttribute(name) {
    delete this.attributes[name];
  }

  getAttribute(name) {
    return this.attributes[name] ?? null;
  }

  removeAttribute(name) {
    delete this.attributes[name];
  }

  addEventListener(name, callback) {
    this.heard[name] = callback;
  }

  click() {
    this.heard.click();
  }

  get textContent() {
    return this.children.map((child) => (child instanceof FakeElement ? child.textContent : child))
      .join('');
  }

  set textContent(words) {
    this.children = words === '' ? [] : [words];
  }

  /** All elements below, and this one, that have a class. */
  all(name) {
    const own = this.classList.contains(name) ? [this] : [];
    return [
      ...own,
      ...this.children.flatMap((child) => (child instanceof FakeElement ? child.all(name) : [])),
    ];
  }
}

/** Let the views that are imported from now on find a document and a window. */
export function useFakePage() {
  globalThis.document = {
    createElement: (tag) => new FakeElement(tag),
    body: new FakeElement('body'),
  };
  globalThis.window = { addEventListener: () => {} };
}
