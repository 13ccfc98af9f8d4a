// The same history under another assignor or protocol, and files to take away.
import { Failure, get, save } from '/api.js';
import { html, nothing, render } from '/vendor/lit-html.js';
import { duration, grouped } from '/shared/words.js';

const ROW = '/api/groups/{group}/replay';
const RECORDED = 'recorded_', NAMES = ['group', 'assignor', 'machine', 'protocol'];
const EXPORTS = [['report', 'Report page'], ['script', 'Script for the lab'], ['records', 'Records of the journal']];

export function replayPart(group) {
  const element = document.createElement('section');
  const path = `/api/groups/${encodeURIComponent(group)}`;
  const stop = new AbortController();
  let names = [], chosen = '', answer = null, failure = null, isBusy = false, canReplay = true;
  let isLoading = false;

  function draw() {
    render(html`${canReplay ? replayForm() : nothing}
      <h2>Take away</h2>
      <div class="buttons">${EXPORTS.map(([kind, words]) => html`<button type="button" class="plain"
        @click=${() => take(`${path}/export/${kind}`)}>${words}</button>`)}
        <button type="button" class="plain" @click=${() => take(path)}>JSON</button></div>
      ${failure ? html`<p class="broken" role="alert">${failure.message} ${failure.remedy || ''}</p>` : nothing}`, element);
  }

  function replayForm() {
    return html`<h2>The same under another protocol</h2>
      <div class="buttons"><select aria-label="Assignor or protocol" @change=${event => { chosen = event.target.value; }}>
        ${names.map(name => html`<option .selected=${name === chosen}>${name}</option>`)}</select>
        <button type="button" class="plain" ?disabled=${isBusy} @click=${replay}>Replay</button></div>
      ${isBusy ? html`<p class="note" role="status">The history is being replayed.</p>` : nothing}
      ${answer ? answerOf(answer) : nothing}`;
  }

  function update(can) {
    // A request that failed once is repeated with the next news of the group.
    load();
    if (canReplay === can) return;
    canReplay = can;
    draw();
  }

  async function guarded(work) {
    failure = null;
    try {
      await work();
    } catch (error) {
      if (stop.signal.aborted) return;
      if (!(error instanceof Failure)) throw error;
      failure = error;
    }
    isBusy = false;
    draw();
  }

  function replay() {
    isBusy = true;
    answer = null;
    draw();
    guarded(async () => {
      answer = await get(`${path}/replay?assignor=${encodeURIComponent(chosen)}`, stop.signal);
    });
  }

  function take(from) {
    guarded(() => save(from, stop.signal));
  }

  async function load() {
    if (names.length || isLoading) return;
    isLoading = true;
    await guarded(async () => {
      const { paths } = await get('/openapi.json', stop.signal);
      names = paths[ROW].get.parameters.find(each => each.name === 'assignor').schema.enum;
      [chosen] = names;
    });
    isLoading = false;
  }

  draw();
  load();
  return { element, update, close() { stop.abort(); } };
}

// What would have been, in a table of numbers.
function answerOf({ assignor, about, summed, recorded, outcome, assumptions }) {
  const other = summed || outcome || {};
  // A replay of an assignor has what was recorded beside each number.
  const now = recorded || Object.fromEntries(Object.entries(other).filter(([name]) => name.startsWith(RECORDED))
    .map(([name, value]) => [name.slice(RECORDED.length), value]));
  const rows = Object.keys({ ...now, ...other }).filter(name => !NAMES.includes(name) && !name.startsWith(RECORDED)
    && (isPlain(now[name]) || isPlain(other[name])));
  return html`<h3>${assignor}</h3>${about ? html`<p class="note">${about}</p>` : nothing}
    <div class="scroll answer" tabindex="0" role="region" aria-label=${`The history under ${assignor}`}><table>
      <thead><tr><td></td><th scope="col" class="n">as recorded</th>
        <th scope="col" class="n">under ${assignor}</th></tr></thead>
      <tbody>${rows.map(name => html`<tr><th scope="row">${words(name)}</th>
        <td class="n">${shown(name, now[name])}</td>
        <td class="n">${shown(name, other[name])}</td></tr>`)}</tbody></table></div>
    ${(assumptions || []).map(each => html`<p class="note">${each}</p>`)}`;
}

function isPlain(value) {
  return value !== null && ['number', 'string', 'boolean'].includes(typeof value);
}

function words(name) {
  return name.replace(/_(ms|s)$/, '').replaceAll('_', ' ');
}

function shown(name, value) {
  if (!isPlain(value)) return '';
  if (name.endsWith('_ms')) return duration(value);
  return typeof value === 'number' ? grouped(Math.round(value * 100) / 100) : String(value);
}
