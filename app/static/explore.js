// The Explore and the Compare tab: one form, one answer and its figures for each question, all described by the server
// (specdiff_core/explorations). Opens on recorded answers; a reload finds a question that is still being measured.
// @ts-nocheck: its fields are made in many places

import { BRANCH, Opened } from './state/alignment.js';
import {
  Addresses,
  busyMachine,
  columnsOf,
  csvOf,
  originOf,
  originWords,
  progressWords,
} from './state/exploration.js';
import { chart, Charts } from './views/charts.js';
import { Form } from './views/form.js';
import { Job, listen } from './job.js';
import { PlaygroundView, SandboxView, SideBySideView } from './views/widgets.js';
import { address } from './views/link.js';
import { download, h, refill, text } from './views/dom.js';
import { drawBoard } from './views/board.js';
import { drawn, isShown, settled } from './views/figure.js';
import { fetchFile, fromBase64, gzip, readFile, serialise, unzip } from './state/trace.js';
import { gloss, know, means, once } from './views/glossary.js';
import { openRace, pauseAll, register } from './page.js';

const WIDGETS = {
  'what-it-takes': SandboxView,
  losslessness: PlaygroundView,
  'side-by-side': SideBySideView,
};
const FIRST = ['what-it-takes', 'side-by-side']; // whose widget stands above the figures
const OPENS = 'side-by-side'; // takes traces of the visitor
const MOST_RACES = 8; // that this browser holds at once
const WORDS = {
  waits: 'Waiting for a free place…',
  alone: 'One question is measured at a time.',
  stops: 'Stopping; what was measured is kept…',
};
const UNREADABLE = {
  title: 'This answer cannot be shown',
  message: 'The server sent one that does not fit together.',
  hint: 'Measure again.',
};

/** A word that only this tab knows. `crypto.randomUUID` is missing where a page is served without TLS. */
const newToken = () =>
  [...crypto.getRandomValues(new Uint8Array(12))].map((byte) => byte.toString(16).padStart(2, '0'))
    .join('');
class Explore extends Job {
  constructor(root, options) {
    super(root, options.prefix, options.patience, WORDS);
    this.options = options;
    this.kept = `specdiff-exploring-${options.prefix}`; // the token of what this tab measures, for after a reload
    this.chosen = {}; // by name: values of the report's switches
    [this.widgets, this.boards] = [{}, {}]; // by name: what a visitor drags, and the charts
    this.aside = h('div', { class: 'sd-exp-aside' });
    this.answers = { recorded: {}, live: {}, opened: {} }; // by file, by name, by name
    this.opened = new Opened(); // traces of the visitor: two of their lanes can be held against each other
    this.more = {}; // what the next measurement asks for besides the form
    this.races = { recorded: {}, live: {} }; // the same: row's race -> base64
    this.stems = Object.fromEntries(
      Object.entries(options.recorded).map(([name, stems]) => [name, stems[0]]),
    ); // the file that is shown
    this.made = {}; // by name: the token with which the server gives away what the live answer made
    this.addresses = new Addresses(MOST_RACES);
    this.token = '';
    /** @type {{name: string, source: string, search: string, form: object, answer: object, races: object} | null} what there was before a widget asked, while its answer is not whole */
    this.before = null;
    this.forms = Object.fromEntries(
      Object.entries(options.forms).map((
        [name, { fields }],
      ) => [name, new Form(fields, `${options.prefix}-${name}`, options.pairs)]),
    );
    this.questions = h('div', {
      class: 'sd-cmp-legend sd-exp-questions',
      role: 'group',
      'aria-label': 'Questions',
      hidden: Object.keys(options.forms).length < 2,
    });
    this.title = h('h2', {});
    this.question = h('p', { class: 'sd-exp-question' });
    this.fields = h('div', { class: 'sd-exp-fields' });
    this.run = h('button', {
      type: 'button',
      class: 'sd-exp-run',
      onclick: () => this.press('run'),
    }, 'Measure here');
    this.halt = h('button', {
      type: 'button',
      class: 'sd-exp-stop',
      onclick: () => this.press('stop'),
    }, 'Stop');
    this.bar = h('progress', { class: 'sd-exp-bar', 'aria-label': 'Progress', hidden: true });
    this.chip = h('span', { class: 'sd-chip' });
    this.words = h('span', { class: 'sd-source-words' });
    this.sources = h('span', { class: 'sd-cmp-choice' });
    this.files = h('input', {
      type: 'file',
      multiple: true,
      accept: '.jsonl,.gz',
      hidden: true,
      onchange: () => this.read([...this.files.files]),
    });
    this.openFiles = h('button', {
      type: 'button',
      class: 'sd-link',
      onclick: () => this.files.click(),
    }, 'Open traces');
    this.lanesOf = h('span', { class: 'sd-row-selects sd-exp-lanes' });
    this.doubt = h('p', { class: 'sd-busy-machine', role: 'status' });
    this.notes = h('div', { class: 'sd-exp-notes' });
    this.switches = h('div', { class: 'sd-cmp-choices' });
    this.board = h('div', {
      class: 'sd-cmp-wrap',
      tabindex: '0',
      role: 'region',
      'aria-label': 'Leaderboard',
    });
    this.boards = h(
      'section',
      { class: 'sd-panel sd-exp-board' },
      h('header', {}, h('h2', {}, 'Leaderboard'), this.switches),
      this.board,
    );
    this.charts = h('div', { class: 'sd-cmp-charts' });
    this.rows = h('table', { class: 'sd-exp-table' });
    this.facts = h('dl', { class: 'sd-cmp-facts' });
    this.voice = h('div', { class: 'sd-voice', 'aria-live': 'polite' });
    this.status.element.removeAttribute('role'); // it changes every second: the voice says what is new
    const save = (label, what) =>
      h('button', { type: 'button', class: 'sd-link', onclick: what }, label);
    this.saves = h(
      'span',
      { class: 'sd-exp-saves' },
      'Download: ',
      save('CSV', () => this.save('csv')),
      save('JSON', () => this.save('json')),
      save('PNG', () => this.image('png')),
      save('SVG', () => this.image('svg')),
      this.weights = h('a', { class: 'sd-link', hidden: true }, 'Weights'),
    );
    this.numbers = h(
      'details',
      {
        class: 'sd-panel sd-exp-numbers',
        ontoggle: () => {
          if (this.numbers.open && this.answer) this.drawRows();
        },
      },
      h('summary', {}, 'All numbers'),
      h(
        'div',
        { class: 'sd-cmp-wrap', tabindex: '0', role: 'region', 'aria-label': 'All numbers' },
        this.rows,
      ),
    );
    this.content = this.full = h(
      'div',
      { class: 'sd-cmp-full' },
      this.notes,
      this.boards,
      this.charts,
      this.aside,
      this.numbers,
      h(
        'section',
        { class: 'sd-panel sd-cmp-origin', 'aria-label': 'Where these numbers come from' },
        h('header', {}, h('h2', {}, 'Where these numbers come from'), this.saves),
        this.facts,
      ),
    );
    const buttons = h('div', { class: 'sd-exp-buttons' }, this.run, this.halt, this.bar);
    const form = options.folded
      ? h(
        'details',
        { class: 'sd-exp-folded' },
        h('summary', {}, 'Measure here, on this machine'),
        this.fields,
        buttons,
      )
      : null;
    this.root.append(
      this.questions,
      this.card.element,
      h(
        'section',
        { class: 'sd-panel sd-exp-ask', 'aria-label': 'What to measure' },
        h('header', {}, this.title),
        this.question,
        ...(form ? [form] : [this.fields, buttons]),
      ),
      this.status.element,
      this.voice,
      h(
        'div',
        { class: 'sd-source' },
        this.chip,
        this.words,
        this.sources,
        this.openFiles,
        this.lanesOf,
        this.files,
      ),
      this.doubt,
      this.full,
    );
    this.place();
    this.fields.addEventListener('toggle', ({ target }) => {
      if (target.open) this.press('pairs');
    }, true); // which can be chosen here, and the visitor’s own
    const watcher = new IntersectionObserver((entries) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      watcher.disconnect();
      this.shown = true;
      this.fetchRecorded();
    });
    watcher.observe(root);
    this.again();
  }

  /** Press a hidden button of Gradio's. @param {string} id */
  press(id) {
    document.getElementById(`${this.prefix}-${id}`)?.click();
  }

  /** Begin where the link or the browser says. */
  place() {
    const query = new URLSearchParams(location.search);
    const named = query.get('explore');
    const asked = this.options.renamed[named] ?? named;
    const known = Object.keys(this.forms);
    if (this.options.recorded[asked]?.includes(query.get('answer'))) {
      this.stems[asked] = query.get('answer');
    }
    this.select(known.includes(asked) ? asked : known[0]);
    if (known.includes(asked)) this.form.fill(Object.fromEntries(query));
  }

  /** Follow what ran when the page was reloaded. */
  again() {
    let kept = null;
    try {
      kept = sessionStorage.getItem(this.kept);
    } catch { /* a browser that keeps nothing has nothing to follow */ }
    if (!kept) return;
    this.token = kept;
    this.follows = true;
    const wait = setInterval(() => { // Gradio makes its buttons a moment later
      if (!document.getElementById(`${this.prefix}-again`)) return;
      clearInterval(wait);
      this.press('again');
    }, 100);
  }

  /** Called by Gradio with the pairs that can be chosen here, as JSON. */
  offer(told) {
    const pairs = JSON.parse(told);
    Object.assign(this.options.pairs, pairs);
    for (const form of Object.values(this.forms)) {
      form.offer(Object.keys(pairs), this.options.pairs);
    }
  }

  get form() {
    return this.forms[this.name];
  }

  get answer() {
    const all = {
      recorded: this.answers.recorded[this.stem],
      live: this.answers.live[this.name],
      opened: this.answers.opened[this.name],
    };
    return all[this.source] || all.recorded || all.live || null;
  }

  /** The recorded answer that is chosen, by its file; undefined where none ships. */
  get stem() {
    return this.stems[this.name];
  }

  /** Whether the exploration on the screen is being measured. */
  get runs() {
    return this.busy && this.live?.name === this.name;
  }

  /** Whether the races of the answer come with it, or will at its end: an export leaves some out, and a server that breaks off loses them. */
  get hasRaces() {
    if (this.isLive) {
      return this.runs || Boolean(Object.keys(this.races.live[this.name] ?? {}).length);
    }
    return this.isOpened || !this.options.without_races.includes(this.stem);
  }

  get isLive() {
    return Boolean(this.answer) && this.answer === this.answers.live[this.name];
  }

  /** Whether it was made here of the visitor's traces. */
  get isOpened() {
    return Boolean(this.answer) && this.answer === this.answers.opened[this.name];
  }

  /** Called by Gradio when a run, a stop or a reload asks the server: what it gets. */
  asked() {
    if (this.follows) return JSON.stringify({ token: this.token });
    const choice = { ...this.form.values(), ...this.more };
    this.more = {};
    return JSON.stringify({ token: this.token, explore: this.name, choice });
  }

  /** This exploration with its settings, and which of several recorded answers is shown, as a link holds them. */
  query() {
    const query = new URLSearchParams({ explore: this.name });
    for (const [name, value] of Object.entries(this.form.changed())) {
      query.set(name, Array.isArray(value) ? value.join(',') : String(value));
    }
    if (!this.isLive && this.stem !== this.options.recorded[this.name][0]) {
      query.set('answer', this.stem);
    }
    return query.toString();
  }

  select(name) {
    this.name = name;
    this.card.prefix = `${this.prefix}-${name}`; // of its form's ids
    this.source = this.answers.live[name] ? 'live' : 'recorded';
    const told = this.options.forms[name];
    text(this.title, told.title);
    text(this.question, told.question);
    gloss(this.question);
    this.fields.replaceChildren(this.form.element);
    const isNew = !(name in this.widgets);
    const Widget = WIDGETS[name];
    this.widgets[name] ??= Widget
      ? new Widget(() => this.draw(), {
        race: (race) => this.race(race),
        open: (race) => this.openRace(race),
        ask: (values) => this.ask(values),
        given: (run, round) => this.opened.given(run, round, Object.keys(this.options.pairs)),
      })
      : null;
    this.widget = this.widgets[name];
    this.charts[FIRST.includes(name) ? 'before' : 'after'](this.aside);
    this.aside.replaceChildren(...(this.widget ? [this.widget.element] : []));
    if (isNew) gloss(this.aside); // later also names are written there: B is a run
    this.panels = '';
    this.drawQuestions();
    this.draw();
    if (this.shown) this.fetchRecorded();
  }

  /** The figures of the report that its switches choose, one for each key. */
  get figuresShown() {
    const { report } = this.answer;
    this.chosen[this.name] = settled(report, this.chosen[this.name] ?? {});
    return (report.figures ?? []).filter((figure) => isShown(figure, this.chosen[this.name]));
  }

  /** Panels for the figures, made anew only where other ones are shown, and what draws them. */
  drawFigures() {
    const shown = this.figuresShown;
    const keys = `${this.name} ${shown.map(({ key }) => key).join(' ')}`;
    if (keys !== this.panels) {
      this.panels = keys;
      const made = shown.map(({ key, title, wide }) => {
        const [place, panel] = chart(
          title,
          '',
          (own) =>
            h('div', {
              class: 'sd-cmp-scroll',
              role: 'group',
              'aria-label': `Chart: ${title}`,
              tabindex: wide ? '0' : null,
            }, own),
        );
        if (wide) panel.classList.add('sd-cmp-bars');
        return { key, place, panel };
      });
      this.charts.replaceChildren(...made.map(({ panel }) => panel));
      this.hints = Object.fromEntries(
        made.map(({ key, panel }) => [key, panel.querySelector('header .sd-sub')]),
      );
      this.figures = new Charts(
        Object.fromEntries(made.map(({ key, place }) => [key, place])),
        Object.fromEntries(
          made.map((
            { key },
          ) => [key, ({ figures, widget }, c) => drawn(figures[key], c, widget?.adds?.(key))]),
        ),
        {
          plotly: this.options.plotly,
          without: 'The chart library could not be loaded; the table below is complete without it.',
          share: 0,
          drawn: (place) => this.bind(place),
        },
      );
    }
    for (const { key, hint, opens } of shown) {
      text(this.hints[key], [hint, this.hasRaces && opens].filter(Boolean).join('; '));
      gloss(this.hints[key]);
    }
    once(this.charts);
    this.figures.offer({
      figures: Object.fromEntries(shown.map((figure) => [figure.key, figure])),
      widget: this.widget,
    });
  }

  /** The board of the report that its switches choose, and the switches. */
  drawBoards() {
    const { boards = [], switches = [] } = this.answer.report;
    const chosen = this.chosen[this.name];
    this.boards.hidden = !boards.length;
    const groups = switches.map(({ name, title, options }) => {
      const group = h('div', { class: 'sd-cmp-choice', role: 'group', 'aria-label': title });
      refill(
        group,
        title,
        options.map(([value, words, meaning]) =>
          h('button', {
            type: 'button',
            'aria-pressed': String(chosen[name] === value),
            title: meaning || null,
            onclick: () => {
              chosen[name] = value;
              this.draw();
              [...this.switches.querySelectorAll('button')].find((button) =>
                button.textContent === words
              )?.focus();
            },
          }, words)
        ),
      );
      return group;
    });
    const shown = JSON.stringify([
      chosen,
      this.answer.origin.date,
      this.answer.done,
      this.hasRaces,
      this.isLive,
    ]);
    if (this.boards.dataset.shown === shown) return;
    this.boards.dataset.shown = shown;
    this.switches.replaceChildren(...groups);
    const board = boards.find((one) => isShown(one, chosen));
    this.board.replaceChildren(
      ...(board ? [drawBoard(board, this.hasRaces, (race) => this.openRace(race))] : []),
    );
  }

  drawQuestions() {
    refill(
      this.questions,
      '',
      Object.entries(this.options.forms).map(([name, { title, question }]) =>
        h('button', {
          type: 'button',
          'aria-pressed': String(name === this.name),
          title: question,
          onclick: () => this.select(name),
        }, title)
      ),
    );
  }

  /** Show a recorded answer, with what it asked for in the form, or the visitor's own. */
  async choose(source, stem) {
    this.source = source;
    this.stems[this.name] = stem;
    this.draw();
    await this.fetchRecorded();
    if (this.stem === stem && this.answer && !this.isLive) this.form.repeat(this.answer.choice);
  }

  /** The answer to an exploration, and whether this visitor measured it: the recorded one where they have not. */
  async answerOf(name) {
    const live = this.answers.live[name];
    if (live) {
      return { answer: live, own: true, busy: Boolean(busyMachine(live, this.options.crowded)) };
    }
    await this.fetchRecorded(this.stems[name]);
    const answer = this.answers.recorded[this.stems[name]];
    return answer ? { answer, own: false, busy: false } : null;
  }

  /** A recorded answer is asked for when it is first looked at. */
  async fetchRecorded(stem = this.stem) {
    if (!stem || this.answers.recorded[stem]) return;
    try {
      const found = await this.get(`${stem}.json`);
      if (found.kind !== 'exploration' || found.schema !== 1 || !found.report) {
        throw new Error('no answer of a known form');
      }
      this.answers.recorded[stem] = found;
      this.draw();
    } catch (error) {
      this.card.show({
        title: 'The recorded answer could not be shown',
        message: 'The server did not send it whole, or it was written by another version.',
        hint: 'Reload the page, or measure here.',
      });
      console.warn('answer not shown:', error);
    }
  }

  /** Open traces of the visitor, in this browser. What is shown stays until two lanes are there. @param {File[]} files */
  async read(files) {
    this.files.value = ''; // the same file may be chosen again
    const { name } = this;
    const wrong = [];
    this.card.hide();
    for (const file of files) {
      try {
        this.opened.add(file.name, await readFile(file));
      } catch (error) {
        wrong.push(`${file.name}: ${error instanceof Error ? error.message : error}`);
        console.warn('trace not opened:', error);
      }
    }
    if (wrong.length) {
      this.card.show({
        title: wrong.length > 1 ? 'These files are no traces' : 'This file is no trace',
        message: `${wrong.join('; ')}.`,
        hint:
          'Choose .jsonl or .jsonl.gz files that were downloaded from this page or written with --trace. What was opened before is kept.',
      });
    }
    if (this.name !== name) return;
    if (this.opened.answer) await this.showOpened();
    else if (this.opened.lanes.length) {
      this.card.show({
        title: 'One more is needed',
        message: 'This trace holds one lane: open another to hold it against.',
        hint: '',
      });
    }
  }

  /** Two lanes of what was opened. */
  async showOpened() {
    this.answers.opened[this.name] = this.opened.answer;
    this.source = 'opened';
    this.draw();
  }

  /** Which lanes of the opened traces are run A and run B. */
  drawLanes() {
    const chosen = (run) =>
      h(
        'label',
        {},
        `${run.toUpperCase()} `,
        h(
          'select',
          {
            'aria-label': `Run ${run.toUpperCase()}`,
            onchange: ({ target }) => {
              this.opened.choose(run, Number(target.value));
              this.showOpened();
            },
          },
          ...this.opened.lanes.map(({ file, name }, i) =>
            h('option', { value: i, selected: i === this.opened.chosen[run] }, `${name} of ${file}`)
          ),
        ),
      );
    const shown = this.isOpened
      ? JSON.stringify([
        this.opened.chosen,
        this.opened.lanes.map(({ file, name }) => [file, name]),
      ])
      : '';
    if (this.lanesOf.dataset.shown === shown) return; // a list that is open stays
    this.lanesOf.dataset.shown = shown;
    this.lanesOf.replaceChildren(...(shown ? [chosen('a'), chosen('b')] : []));
  }

  async get(file) {
    return (await fetchFile(this.options.folder + file)).json();
  }

  draw() {
    const { answer } = this;
    this.run.disabled = this.busy || this.waiting;
    this.halt.disabled = !this.run.disabled;
    this.full.hidden = !answer;
    const known = [
      ...this.options.recorded[this.name].map((
        stem,
      ) => [
        'recorded',
        stem,
        `Recorded${stem === this.name ? '' : `: ${stem.slice(this.name.length + 1)}`}`,
      ]),
      ...(this.answers.live[this.name] ? [['live', this.stem, 'Measured here']] : []),
      ...(this.answers.opened[this.name] ? [['opened', this.stem, 'Opened traces']] : []),
    ];
    const now = this.isLive ? 'live' : this.isOpened ? 'opened' : 'recorded';
    refill(
      this.sources,
      '',
      known.length < 2 ? [] : known.map(([source, stem, words]) =>
        h('button', {
          type: 'button',
          'aria-pressed': String(source === now && (source !== 'recorded' || stem === this.stem)),
          onclick: () => this.choose(source, stem),
        }, words)
      ),
    );
    this.openFiles.hidden = this.name !== OPENS;
    this.drawLanes();
    this.chip.dataset.kind = this.isLive ? 'measured' : 'recording';
    text(
      this.chip,
      answer
        ? { live: '● Measured here', opened: '◉ Opened traces', recorded: '◉ Recording' }[now]
        : '',
    );
    text(
      this.words,
      answer
        ? (this.isOpened
          ? 'Read in this browser; the server was not asked.'
          : `${originWords(answer)}${this.ofPair(answer)}`)
        : this.stem
        ? 'Loading the recorded answer…'
        : 'Nothing is recorded yet: press Measure here.',
    );
    const token = this.isLive ? this.made[this.name] : '';
    this.weights.hidden = !token;
    if (token) this.weights.href = new URL(`weights?token=${token}`, document.baseURI).href;
    text(this.doubt, answer ? busyMachine(answer, this.options.crowded) : '');
    if (!answer) return;
    const { report } = answer;
    this.notes.replaceChildren(
      ...(report.answer ? [h('p', { class: 'sd-exp-answer' }, report.answer)] : []),
      ...(report.notes ?? []).map((words) => h('p', {}, words)),
      ...(answer.facts.skipped ?? []).map((words) =>
        h('p', { class: 'sd-sub' }, `Left out: ${words}`)
      ),
    );
    gloss(this.notes);
    if (this.numbers.open) this.drawRows();
    const from = this.isOpened
      ? Object.entries(answer.facts.files).flatMap(([run, about]) =>
        Object.entries(about).map(([name, value]) => [`${run.toUpperCase()}: ${name}`, value])
      )
      : originOf(answer);
    this.facts.replaceChildren(
      ...from.flatMap((
        [name, value],
      ) => [h('dt', {}, name), h('dd', {}, name === 'command' ? h('code', {}, value) : value)]),
    );
    this.widget?.show(answer);
    this.drawFigures();
    this.drawBoards();
  }

  /** Of which pair an answer is, where it is not the embedded one. */
  ofPair({ choice: { pair = 'embedded' } }) {
    return pair === 'embedded' ? '' : ` Pair: ${this.options.pairs[pair]?.label ?? pair}.`;
  }

  /** The table: only while it is open, because an answer comes every second. */
  drawRows() {
    const { rows } = this.answer;
    const columns = columnsOf(rows);
    const meanings = this.options.forms[this.name].columns;
    this.rows.replaceChildren(
      h(
        'thead',
        {},
        h(
          'tr',
          {},
          ...columns.map((name) =>
            h('th', { scope: 'col', title: means(meanings[name]) || meanings[name] }, name)
          ),
        ),
      ),
      h(
        'tbody',
        {},
        ...rows.map((row) => h('tr', {}, ...columns.map((name) => h('td', {}, shown(row[name]))))),
      ),
    );
  }

  /** Let marks of a figure open races, or be looked at in the widget, as soon as it is drawn. */
  bind(element) {
    if (element.dataset.bound) return;
    element.dataset.bound = 'yes';
    element.on('plotly_click', ({ points }) => {
      const clicked = points[0].customdata?.[0];
      if (clicked && this.widget?.pick) this.widget.pick(clicked);
      else if (clicked) this.openRace(clicked);
    });
  }

  /** The bytes of the trace of a race of this answer; undefined until the exploration is over. */
  async race(race) {
    const file = this.answer.files?.[race];
    if (file) {
      return new Uint8Array(await (await fetchFile(this.options.folder + file)).arrayBuffer());
    }
    if (this.isOpened) return gzip(new TextEncoder().encode(serialise(this.opened.trace)));
    const source = this.isLive ? 'live' : 'recorded';
    const [held, name] = [this.races[source], source === 'live' ? this.name : this.stem];
    if (source === 'recorded') held[name] ??= await this.get(`${name}.races.json`);
    return held[name]?.[race] && fromBase64(held[name][race]);
  }

  /** Let the Race tab play a race; `RACE#LANE` plays vanilla and that lane of it. */
  async openRace(race) {
    const [file, drafted = 'drafted'] = race.split('#');
    const data = await this.race(file);
    if (!data) {
      this.tell(
        this.isLive
          ? (this.runs
            ? 'The race can be opened when the measurement is over.'
            : 'This race is gone: the measurement broke off before it was sent.')
          : this.hasRaces
          ? 'This race was not recorded.'
          : 'This export does not hold the races of this answer.',
      );
      return;
    }
    const { titles = {}, lanes } = this.answer.report;
    const key = this.isOpened
      ? `opened ${JSON.stringify(this.opened.chosen)}`
      : `${
        this.isLive ? `live ${this.name}` : `recorded ${this.stem}`
      } ${file} ${this.answer.origin.date}`;
    const title = titles[race] ?? race;
    const labels = lanes && Object.keys(lanes).length
      ? Object.fromEntries(Object.entries(lanes).map(([lane, label]) => [lane, { label }]))
      : { vanilla: { label: 'Vanilla' }, [drafted]: { label: title } };
    openRace({
      url: this.addresses.of(key, data),
      lanes: Object.keys(labels),
      title,
      labels,
      source: this.isLive ? 'measured' : this.isOpened ? 'file' : 'recording',
    });
  }

  /** What the server decoded from where an opened run was left. */
  async goOn(result, data) {
    const { lanes } = await unzip(fromBase64(data));
    if (
      !this.opened.goOn(result.choice.given, {
        ...result.facts.branch,
        seed: result.choice.branch_seed,
      }, lanes[BRANCH])
    ) {
      this.card.show({
        title: 'This continues a trace that is not open here',
        message: 'Other lanes were chosen meanwhile, or the page was reloaded.',
        hint: 'Open the traces again, and choose the token once more.',
      });
      return;
    }
    await this.showOpened();
  }

  /** Measure what is shown again, with some values changed; of an opened run only what follows. Says whether it began: an export has nothing to run. */
  ask(values) {
    if (this.busy || this.waiting || !document.getElementById(`${this.prefix}-run`)) return false;
    const { name, source } = this;
    const before = {
      name,
      source,
      search: location.search,
      form: this.form.values(),
      answer: this.answers.live[name],
      races: this.races.live[name],
    };
    if (this.isOpened) this.more = values;
    else this.form.repeat({ ...this.answer.choice, ...values });
    this.press('run');
    this.before = before;
    return true;
  }

  /** What a widget asked for was refused, failed or was stopped: give back what there was before. */
  putBack() {
    const { before } = this;
    if (!before) return;
    const { name } = before;
    this.before = null;
    this.forms[name].fill(before.form);
    Object.assign(this.answers.live, { [name]: before.answer });
    Object.assign(this.races.live, { [name]: before.races });
    if (name !== this.name) return;
    this.source = before.source;
    address(before.search);
  }

  fileName(end) {
    return `specdiff-${this.name}-${this.isOpened ? 'opened-' : ''}${
      this.answer.origin.date.slice(0, 16).replace(/[^0-9]/g, '')
    }.${end}`;
  }

  save(kind) {
    const content = kind === 'csv' ? csvOf(this.answer.rows) : JSON.stringify(this.answer, null, 1);
    download(content, kind === 'csv' ? 'text/csv' : 'application/json', this.fileName(kind));
  }

  /** The first figure as a picture, made in this browser. */
  async image(format) {
    const place = Object.values(this.figures.places).find((one) =>
      one.classList.contains('js-plotly-plot')
    );
    if (!place) return;
    const address = await this.figures.plotly.toImage(place, {
      format,
      width: 1200,
      height: 700,
      scale: format === 'png' ? 2 : 1,
    });
    const picture = await (await fetch(address)).blob();
    download(picture, picture.type, this.fileName(format));
  }

  pressedRun() {
    this.token = newToken();
    this.follows = false;
    try {
      sessionStorage.setItem(this.kept, this.token);
    } catch (error) {
      console.info('a reload will not find this measurement', error);
    }
    this.before = null;
    const query = this.query();
    if (this.prefix === 'explore' && query.length < 8000) address(query); // a reload opens this tab again
    this.busy = true;
    pauseAll();
    super.pressedRun();
    this.draw();
  }

  over() {
    super.over();
    this.putBack();
    this.more = {};
    this.bar.hidden = true;
    for (const widget of Object.values(this.widgets)) widget?.over?.();
    try {
      sessionStorage.removeItem(this.kept);
    } catch { /* nothing was kept */ }
    this.draw();
  }

  failed(message) {
    this.over();
    this.card.show({
      title: 'The measurement ended early',
      message,
      hint:
        'What was measured before is kept. Measure again; if many people measure, wait a little.',
    });
  }

  lost(stopped) {
    this.failed(
      stopped
        ? 'The server was asked to stop and has not answered.'
        : 'The server does not answer any more.',
    );
  }

  /** The server's event is over, however it ended: without a last frame, nothing more will come. */
  ended() {
    const { token } = this;
    setTimeout(() => {
      if (token === this.token && (this.busy || this.waiting)) {
        this.failed('The server refused it, or the connection was lost.');
      }
    }, 2500);
  }

  /** A frame of the server. */
  receive(message) {
    super.receive(message);
    if (message.phase === 'gone') {
      this.over();
      return;
    }
    const name = message.explore;
    if (name && name !== this.name && this.follows) this.select(name);
    const branch = name === 'side-by-side' && message.result?.choice.given; // what follows on an opened run
    if (branch && message.finished && message.races?.runs) {
      this.goOn(message.result, message.races.runs);
    }
    if (message.result && !branch) {
      this.answers.live[name] = message.result;
      delete this.races.live[name]; // they are of the answer before
      delete this.made[name];
      if (this.follows) this.form.repeat(message.result.choice);
      if (name === this.name) this.source = 'live';
    }
    if (message.finished || message.card) {
      if (message.result && !branch) this.races.live[name] = message.races;
      if (message.made) this.made[name] = this.token;
      const { done = 0, card } = message;
      if (message.phase === 'finished') this.before = null;
      const back = Boolean(this.before);
      this.over();
      if (card) this.card.show(back ? { ...card, field: '' } : card); // its value is not in the form any more
      const ended = message.phase === 'stopped' ? 'Stopped' : 'Measured';
      text(
        this.voice,
        card
          ? ''
          : back
          ? 'Stopped: what was there before is shown.'
          : `${ended}: ${done} steps are shown.`,
      );
      return;
    }
    this.busy = true;
    this.live = { run: message.run, warming: message.phase !== 'exploring', name };
    this.bar.hidden = !message.total;
    if (message.total) Object.assign(this.bar, { max: message.total, value: message.done });
    this.tell(progressWords(message));
    this.draw();
  }
}

/** A value in the table. */
function shown(value) {
  if (value === null || value === undefined) return '';
  if (Array.isArray(value)) return value.map(shown).join(' ');
  return typeof value === 'number' && !Number.isInteger(value)
    ? String(Number(value.toPrecision(4)))
    : String(value);
}

/** Called by the components (app/tabs/explore.py) once per page. */
export function mount(element, props, watch, options) {
  know(options.symbols);
  const explore = new Explore(element.querySelector('.sd-exp'), options);
  register(options.prefix, explore);
  listen(explore, props, watch, UNREADABLE);
}
