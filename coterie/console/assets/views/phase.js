// For whom a group waits, and how long still: the journal answers it, and exactly the broker itself.
import { html, nothing, render } from '/vendor/lit-html.js';
import { duration } from '/shared/words.js';

// Of more members a page would be nothing else.
const MOST_NAMES = 20;
const CLASSIC = ['PreparingRebalance', 'CompletingRebalance'];

// The box as an element; `update(phase, state)` shows a phase, whose countdowns go on by themselves.
export function phaseBox() {
  const element = document.createElement('section');
  element.className = 'phase';
  element.hidden = true;
  let phase = null, state = '', arrived = 0, timer = null;

  function draw() {
    const waits = (phase && phase.waits_for) || [];
    element.hidden = !waits.length;
    if (element.hidden) return stop();
    timer ??= setInterval(draw, 200);
    render(html`<h2>${state}${phase.name && phase.name !== state ? `: ${phase.name}` : ''}${phase.since_ms
      ? html` <span class="note">for ${seconds(Date.now() - phase.since_ms)}</span>` : nothing}</h2>
      <ul>${waits.slice(0, MOST_NAMES).map(each => html`<li>${each.is_certain === false ? 'Perhaps waits' : 'Waits'} for ${each.for}${
        each.member ? html` of <bdi class="member">${each.member}</bdi>` : nothing}${left(each)}${each.why
        ? html` <span class="note">${each.why}</span>` : nothing}</li>`)}</ul>
      ${waits.length > MOST_NAMES ? html`<p class="note">and ${waits.length - MOST_NAMES} more</p>` : nothing}
      ${names(CLASSIC.includes(phase.name) ? 'Has sent JoinGroup' : 'Has reached the target', phase.joined)}
      ${names('Has sent SyncGroup', phase.synced)}`, element);
    return undefined;
  }

  function names(words, found) {
    if (!found || !found.length) return nothing;
    const more = found.length - MOST_NAMES;
    return html`<p class="note">${words}: ${found.slice(0, MOST_NAMES).map((name, n) =>
      html`${n ? ', ' : ''}<bdi>${name}</bdi>`)}${more > 0 ? ` and ${more} more` : nothing}</p>`;
  }

  // The time that is left counts down from when the event arrived: both clocks need not agree.
  function left({ at_most_ms: most }) {
    if (most === null || most === undefined) return nothing;
    const rest = Math.max(0, most - (performance.now() - arrived));
    return html`, at most <b class="countdown">${seconds(rest)}</b> more`;
  }

  function stop() {
    clearInterval(timer);
    timer = null;
  }

  function update(next, words) {
    phase = next;
    state = words;
    arrived = performance.now();
    draw();
  }

  return { element, update, stop };
}

function seconds(ms) {
  return ms < 60_000 ? `${Math.ceil(Math.max(0, ms) / 1000)} s` : duration(ms);
}
