// What the page uses of vendor/preact.js: Preact, with templates by htm.
export type Child = unknown;
export function html(strings: TemplateStringsArray, ...values: unknown[]): Child;
export function render(child: Child, parent: Element): void;
export class Component<Props = any, State = any> {
  constructor(props?: Props);
  props: Props;
  state: State;
  base: HTMLElement;
  setState(change: Partial<State>): void;
  forceUpdate(): void;
  render(props: Props, state: State): Child;
  componentDidMount?(): void;
  componentDidUpdate?(before: Props, state: State): void;
  componentWillUnmount?(): void;
  shouldComponentUpdate?(next: Props, state: State): boolean;
}
export function useState<T>(initial: T | (() => T)): [T, (next: T) => void];
