// For whom a group waits, and how long still: the question that only the journal answers.
import { html, nothing, render } from '/vendor/lit-html.js';
import { duration } from '/shared/words.js';

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
      <ul>${waits.map(each => html`<li>${each.is_certain === false ? 'Perhaps waits' : 'Waits'} for ${each.for}${
        each.member ? html` of <bdi class="member">${each.member}</bdi>` : nothing}${left(each)}${each.why
        ? html` <span class="note">${each.why}</span>` : nothing}</li>`)}</ul>
      ${(phase.joined || []).length ? html`<p class="note">Has joined: ${phase.joined.map((name, n) =>
        html`${n ? ', ' : ''}<bdi>${name}</bdi>`)}</p>` : nothing}`, element);
    return undefined;
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
