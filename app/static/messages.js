// The component that carries the server's messages to a tab (app/page.py).

/** @import { Gradio, Job } from './job.js' */

/** Pass the messages of a component to its job; an unchanged value is ignored.
 *  @param {Job<any>} job @param {Gradio} gradio
 *  @param {{title: string, message: string, hint: string}} unreadable shown on an error
 *  @param {Record<string, (message: any) => unknown>} [others] take messages of other sources than runs */
export function listen(job, { props, watch }, unreadable, others = {}) {
  const first = props.value ? JSON.parse(props.value) : {};
  let last = first.card && first.source === 'file' ? props.value : ''; // shown by the open tab
  let turn = Promise.resolve(); // keeps messages in order although unpacking takes a moment
  const take = () => {
    const { value } = props;
    if (!value || value === last) return;
    last = value;
    const message = JSON.parse(value);
    turn = turn.then(async () => {
      await (others[message.source]?.(message) ?? job.receive(message));
    }).catch((error) => {
      job.card.show(unreadable);
      console.warn('not shown:', error);
    });
  };
  watch('value', take);
  take();
}
