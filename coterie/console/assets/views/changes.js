// Changes: a dialog that asks what to change, shows what that would do, and does it when the reader says so.
// The server makes each plan; what is carried out is what was shown here, or nothing.
import { Failure, post } from '/api.js';
import { isReadOnly } from '/console.js';
import { html, nothing, render } from '/vendor/lit-html.js';
import { counted, grouped } from '/shared/words.js';
import { FORMS } from '/views/change_forms.js';
import { failed } from '/views/failed.js';

let opened = null;

// Buttons that open changes: rows of a verb, words and what is known already. Nothing while read-only.
export function changeButtons(buttons) {
  if (isReadOnly()) return nothing;
  return html`<div class="buttons changes">${buttons.map(([verb, words, defaults]) => html`<button type="button"
    class="plain" @click=${() => openChange(verb, defaults())}>${words}…</button>`)}</div>`;
}

// Open the dialog of a verb. The fields that `defaults` has are filled in.
export function openChange(verb, defaults = {}) {
  if (opened) opened.dialog.close();
  const form = FORMS[verb], dialog = document.createElement('dialog');
  dialog.className = 'change';
  dialog.setAttribute('aria-labelledby', 'change-title');
  const state = { verb, form, dialog, values: { ...form.start, ...defaults }, preview: null, done: null, failure: null,
    typed: '', waits: false, stop: new AbortController() };
  opened = state;
  dialog.addEventListener('close', () => {
    state.stop.abort();
    dialog.remove();
    if (opened === state) opened = null;
  });
  document.body.append(dialog);
  draw(state);
  // Focus stays in a modal dialog, Escape closes it, and then focus is where it was.
  dialog.showModal();
  focusFirst(state);
  if (form.isReady && form.fields.every(field => !field.isRequired || state.values[field.name]?.length)) preview(state);
  return dialog;
}

function draw(state) {
  render(html`<h2 id="change-title" tabindex="-1">${state.form.title}</h2>
    ${state.done ? doneStep(state) : state.preview ? previewStep(state) : formStep(state)}
    ${failed(state.failure)}`, state.dialog);
}

function focusFirst(state) {
  const first = state.dialog.querySelector('[data-first]') || state.dialog.querySelector('input, select, textarea');
  (first || state.dialog.querySelector('h2')).focus();
}

// --- what to change ---

function formStep(state) {
  const fields = state.form.fields.filter(field => !field.when || field.when(state.values));
  return html`<p class="note">${state.form.about}</p>
    <form @submit=${event => { event.preventDefault(); preview(state); }}>
      ${fields.map(field => fieldOf(state, field))}
      <div class="buttons"><button class="plain main" ?disabled=${state.waits}>Show what it would do</button>
        <button type="button" class="plain" @click=${() => state.dialog.close()}>Cancel</button></div>
    </form>`;
}

function fieldOf(state, field) {
  const id = `change-${field.name}`, value = state.values[field.name] ?? '';
  const set = event => { state.values[field.name] = event.target.value; if (field.redraws) draw(state); };
  let input;
  if (field.kind === 'choice') {
    input = html`<select id=${id} @change=${set}>${field.choices.map(([each, words]) => html`<option value=${each}
      ?selected=${each === value}>${words}</option>`)}</select>`;
  } else if (field.kind === 'lines') {
    input = html`<textarea id=${id} rows="3" spellcheck="false" ?required=${field.isRequired} .value=${textOf(value)}
      aria-describedby=${`${id}-hint`} @input=${set}></textarea>`;
  } else {
    input = html`<input id=${id} type=${field.kind === 'number' ? 'number' : 'text'} min=${field.least ?? nothing}
      spellcheck="false" autocomplete="off" ?required=${field.isRequired} .value=${String(value)}
      aria-describedby=${`${id}-hint`} @input=${set}>`;
  }
  return html`<p class="field"><label for=${id}>${field.title}</label>${input}
    <small id=${`${id}-hint`}>${(typeof field.hint === 'function' ? field.hint(state.values) : field.hint) || ''}</small></p>`;
}

function textOf(value) {
  if (Array.isArray(value)) return value.join('\n');
  return typeof value === 'object' ? Object.entries(value).map(pair => pair.join('=')).join('\n') : String(value);
}

// The fields as the server takes them: what is empty is left out.
function bodyOf(state) {
  const body = {};
  for (const field of state.form.fields) {
    const value = state.values[field.name];
    if (value === undefined || (field.when && !field.when(state.values))) continue;
    if (value === '' && !field.keepsEmpty) continue;
    if (field.kind === 'number') body[field.name] = Number(value);
    else if (field.shape === 'names') body[field.name] = lines(value);
    else if (field.shape === 'pairs') body[field.name] = pairs(value);
    else body[field.name] = value;
  }
  return body;
}

function lines(value) {
  return Array.isArray(value) ? value : value.split('\n').map(each => each.trim()).filter(Boolean);
}

function pairs(value) {
  if (typeof value !== 'string') return value;
  return Object.fromEntries(lines(value).map(line => {
    const at = line.indexOf('=');
    if (at < 1) throw new Failure({ error: `“${line}” is not NAME=VALUE.`, remedy: 'Write one a line.' });
    return [line.slice(0, at).trim(), line.slice(at + 1)];
  }));
}

// --- what it would do ---

async function ask(state, path, body) {
  state.failure = null;
  state.waits = true;
  draw(state);
  try {
    return await post(`/api/changes/${path}`, body(), state.stop.signal);
  } catch (error) {
    if (state.stop.signal.aborted) return null;
    state.failure = error;
    return null;
  } finally {
    state.waits = false;
    if (!state.stop.signal.aborted) draw(state);
  }
}

async function preview(state) {
  const found = await ask(state, `${state.verb}/preview`, () => bodyOf(state));
  if (found) show(state, found, false);
}

function show(state, found, hasChanged) {
  state.preview = found;
  state.hasChanged = hasChanged;
  state.typed = '';
  draw(state);
  focusFirst(state);
}

function previewStep(state) {
  const { preview: found, form } = state, isAllowed = found.token !== null;
  const mayGoOn = isAllowed && !state.waits && (found.confirm === null || state.typed === found.confirm);
  return html`
    ${state.hasChanged ? html`<p class="failed" role="alert">Nothing was changed: something else has changed since.
      This is what it would do now.</p>` : nothing}
    <p class="sentence">${isAllowed ? found.title : 'Nothing would be changed.'}</p>
    ${rowsTable(form.columns, found.rows, 'What would change')}
    ${found.refused.length ? html`<h3>Left out</h3><ul class="refused">${found.refused.map(each => html`<li>
      <bdi>${each.subject}</bdi>: ${each.cause} ${each.remedy}</li>`)}</ul>` : nothing}
    ${found.warnings.map(each => html`<p class="warning">${each}</p>`)}
    ${commandOf(found.command)}
    <form @submit=${event => { event.preventDefault(); if (mayGoOn) carryOut(state); }}>
      ${isAllowed && found.confirm !== null ? html`<p class="field"><label for="change-confirm">Type <bdi
        class="typed">${found.confirm}</bdi> to confirm</label><input id="change-confirm" data-first autocomplete="off"
        spellcheck="false" .value=${state.typed} @input=${event => { state.typed = event.target.value; draw(state); }}></p>` : nothing}
      <div class="buttons">
        ${isAllowed ? html`<button class="plain main ${found.confirm === null ? '' : 'danger'}"
          ?disabled=${!mayGoOn}>${form.button}</button>` : nothing}
        <button type="button" class="plain" @click=${() => back(state)}>Back</button>
        <button type="button" class="plain" ?data-first=${found.confirm === null}
          @click=${() => state.dialog.close()}>Cancel</button></div>
    </form>`;
}

function back(state) {
  state.preview = state.failure = null;
  draw(state);
  focusFirst(state);
}

function commandOf(command) {
  if (!command) return nothing;
  return html`<p class="command"><small>The same as a command:</small> <code tabindex="0">${command}</code></p>`;
}

function rowsTable(columns, rows, title) {
  if (!rows.length) return nothing;
  const present = columns.filter(([key]) => rows.some(row => key in row));
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${title}><table><thead><tr>
    ${present.map(([, words]) => html`<th scope="col">${words}</th>`)}</tr></thead><tbody>
    ${rows.map(row => html`<tr>${present.map(([key]) => html`<td class=${typeof row[key] === 'number' ? 'n' : 'text'}>${
      cell(row[key])}</td>`)}</tr>`)}</tbody></table></div>`;
}

function cell(value) {
  if (value === null || value === undefined) return '–';
  if (typeof value === 'number') return grouped(value);
  if (Array.isArray(value)) return value.join(', ') || '–';
  if (typeof value === 'object')
    return Object.entries(value).map(([name, each]) => `${name} ${Array.isArray(each) ? each.join(' ') : each}`).join(', ') || '–';
  return typeof value === 'boolean' ? value ? 'yes' : 'no' : html`<bdi>${value}</bdi>`;
}

// --- what was done ---

async function carryOut(state) {
  const { token, confirm } = state.preview, body = confirm === null ? { token } : { token, confirm };
  const found = await ask(state, state.verb, () => body);
  if (!found) return;
  if (!found.carried_out) {
    show(state, found.preview, true);
    return;
  }
  state.done = found;
  draw(state);
  focusFirst(state);
  dispatchEvent(new CustomEvent('console-changed', { detail: { verb: state.verb } }));
}

function doneStep(state) {
  const { rows, command } = state.done, wrong = rows.filter(row => row.error);
  return html`<p class="sentence" role="status">${wrong.length
    ? `${counted(wrong.length, 'part')} of ${grouped(rows.length)} failed.` : state.form.done}</p>
    ${rowsTable([...state.form.columns, ...(state.form.results || []), ['error', 'error']], rows, 'What was done')}
    ${commandOf(command)}
    <div class="buttons"><button type="button" class="plain main" data-first
      @click=${() => state.dialog.close()}>Close</button></div>`;
}
