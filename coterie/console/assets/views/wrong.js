// What is wrong now: at most five sentences, the worst first; each can be put aside for an hour.
import { addressOf } from '/address.js';
import { html, nothing, render, repeat } from '/vendor/lit-html.js';
import { HOUR, counted, duration, grouped } from '/shared/words.js';

const MOST = 5, SNOOZE_MS = HOUR, KEY = 'coterie-snoozed';
const SEVERITIES = ['critical', 'error', 'warning', 'info'];
const CLASSES = { critical: 'critical', error: 'critical', warning: 'warning', info: 'info' };

function keyOf(finding) {
  return JSON.stringify([finding.group, finding.check ?? finding.rule, finding.subject]);
}

// What was put aside, until when; what is over is forgotten.
function snoozed() {
  let found = {};
  try {
    found = JSON.parse(localStorage.getItem(KEY)) || {};
  } catch { /* Another version of the console wrote it. */ }
  return Object.fromEntries(Object.entries(found).filter(([, until]) => until > Date.now()));
}

function snooze(finding) {
  localStorage.setItem(KEY, JSON.stringify({ ...snoozed(), [keyOf(finding)]: Date.now() + SNOOZE_MS }));
}

// The list as an element; `update(findings, summary)` shows them, `summary` says how the groups are if
// nothing is wrong. Findings that are null are not known yet, and for `undefined` nobody looks. With
// `ofGroup` it belongs to the page of a group, whose name is not repeated.
export function wrongList({ ofGroup = false } = {}) {
  const element = document.createElement('section');
  element.className = 'wrong-now';
  let findings = null, summary = '', isWhole = false;

  function draw() {
    const away = snoozed();
    const rank = each => SEVERITIES.indexOf(each.severity);
    const every = (findings || []).filter(each => !away[keyOf(each)])
      .sort((one, other) => rank(one) - rank(other) || (one.since_ms ?? 0) - (other.since_ms ?? 0));
    const shown = isWhole ? every : every.slice(0, MOST), hidden = (findings || []).length - every.length;
    render(html`
      <h2>What is wrong now</h2>
      ${findings === null ? html`<p class="note">The first check is under way.</p>` : nothing}
      ${findings === undefined ? html`<p class="note">Groups of this type are not checked.</p>` : nothing}
      ${findings && !every.length ? html`<p class="fine">Nothing${hidden ? ' else' : ''}. ${summary}</p>` : nothing}
      <ol class="wrong">${repeat(shown, keyOf, line)}</ol>
      ${every.length > shown.length || hidden ? html`<p class="note">
        ${every.length > shown.length ? html`<button type="button" @click=${showAll}>Show all ${
          grouped(every.length)}</button>` : nothing}
        ${hidden ? html`${counted(hidden, 'finding')} put aside.
          <button type="button" @click=${bringBack}>Show</button>` : nothing}</p>` : nothing}`, element);
  }

  function line(each) {
    const { group, cause, remedy, severity, since_ms: since } = each;
    return html`<li>
      <span class=${CLASSES[severity] ?? nothing}>${severity}</span>
      <span>${ofGroup || group === null ? nothing
        : html`<a href=${addressOf({ group })}><bdi>${group || '(empty name)'}</bdi></a>: `}${cause}${
        since ? html` <span class="note">for ${duration(Math.max(0, Date.now() - since))}</span>` : nothing}
        ${remedy ? html`<span class="remedy">${remedy}</span>` : nothing}</span>
      <span class="does">${ofGroup || group === null ? nothing
        : html`<a href=${addressOf({ group, at: since })} aria-label=${`Why, group ${group}`}>Why</a>`}
        <button type="button" @click=${() => { snooze(each); draw(); }}
          aria-label=${`Put aside for an hour: ${cause}`}>Snooze</button></span></li>`;
  }

  function showAll() {
    isWhole = true;
    draw();
  }

  function bringBack() {
    localStorage.removeItem(KEY);
    draw();
  }

  function update(next, words = '') {
    findings = next;
    summary = words;
    draw();
  }

  draw();
  return { element, update };
}
