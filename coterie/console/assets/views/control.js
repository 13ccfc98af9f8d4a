// Faults and the clock of the brokers that run with this console: what is installed, and forms for more.
import { get, post } from '/api.js';
import { html, nothing, render } from '/vendor/lit-html.js';
import { counted, duration, grouped, moment } from '/shared/words.js';
import { failed } from '/views/failed.js';
import { poll } from '/views/polled.js';

// What goes wrong, by the kinds of the control port: words, and the field that some have.
const ACTIONS = {
  AnswerError: { words: 'is answered with an error', field: 'error' },
  Delay: { words: 'is handled later', field: 'seconds' },
  NeverAnswer: { words: 'is never answered, and not handled' },
  CloseBefore: { words: 'is not handled: the connection is closed' },
  CloseAfter: { words: 'is handled, and the connection is closed instead of an answer' },
  CutAnswer: { words: 'is handled, and its answer is cut' },
  AnswerGarbage: { words: 'is answered with garbage' },
  Throttle: { words: 'is handled, and the client is throttled', field: 'milliseconds' },
  CoordinatorLoads: { words: 'finds a coordinator that loads' },
  CoordinatorMoves: { words: 'finds another coordinator' },
  NoLeader: { words: 'finds partitions without a leader' },
  DiskFull: { words: 'finds a full disk' },
  SlowDisk: { words: 'waits for a slow disk', field: 'seconds' },
};
const FIELDS = { error: ['Error', 'text'], seconds: ['Seconds', 'number'], milliseconds: ['Milliseconds', 'number'] };
const SCOPE = [['api', 'API', 'such as Heartbeat; empty for all'], ['group', 'Group', 'empty for all'],
  ['topic', 'Topic', 'empty for all'], ['client_id', 'Client id', 'empty for all, and then also for this console']];

export function open(main) {
  const clock = { seconds: '' }, start = { kind: 'AnswerError', error: '', seconds: '', milliseconds: '', api: '', group: '',
    topic: '', client_id: '', times: '' }, stop = new AbortController();
  let fault = { ...start }, data = null, names = { apis: [], errors: [] }, failure = null, refused = null, waits = false,
    asked = 0, said = '';

  function draw() {
    render(html`<h1>Faults and clock</h1>
      <p class="sentence">${data === null ? failure ? nothing : 'The brokers are being asked.' : sentence(data)}</p>
      ${[failure, refused].map(failed)}
      <p class="note" role="status">${said}</p>
      ${data && data.faults.length ? faultsTable(data.faults) : nothing}
      ${data === null ? nothing : !data.allows_changes ? html`<p class="note">This console is read-only.</p>`
        : html`${faultForm()}${clockForm()}`}`, main);
  }

  // What is answered to a change is newer than what was asked before.
  async function change(path, body, words) {
    const mine = ++asked;
    waits = true;
    refused = null;
    draw();
    let isDone = false;
    try {
      const next = await post(`/api/control/${path}`, body, stop.signal);
      if (mine === asked) data = next;
      said = words;
      isDone = true;
    } catch (error) {
      if (stop.signal.aborted) return false;
      refused = error;
      said = '';
    }
    waits = false;
    draw();
    return isDone;
  }

  // --- faults ---

  function faultsTable(faults) {
    return html`<div class="scroll" tabindex="0" role="region" aria-label="Faults"><table><thead><tr>${
      data.allows_changes ? html`<td></td>` : nothing}<th scope="col">a request</th>
      <th scope="col">what happens to it</th><th scope="col" class="n">hits</th><th scope="col">until</th></tr></thead>
      <tbody>${faults.map(each => html`<tr>${data.allows_changes ? html`<td><button type="button" class="plain" ?disabled=${waits}
          aria-label=${`Remove: ${scopeText(each.scope)} ${actionText(each.action)}`}
          @click=${() => change(`faults/${each.fault_id}/remove`, {}, 'The fault is removed.')}>Remove</button></td>` : nothing}
        <td class="text"><bdi>${scopeText(each.scope)}</bdi></td>
        <td class="text"><bdi>${actionText(each.action)}</bdi></td><td class="n">${grouped(each.hits)}</td>
        <td>${each.until_ms === null ? 'it is removed' : `${moment(each.until_ms)} UTC`}</td></tr>`)}
      </tbody></table></div>`;
  }

  function faultForm() {
    const action = ACTIONS[fault.kind];
    return html`<h2 id="fault-title">Add a fault</h2>
      <p class="note">It holds from now on, for each request that all of these fields describe.</p>
      <form class="change" aria-labelledby="fault-title" @submit=${event => { event.preventDefault(); install(); }}>
        <p class="field"><label for="fault-kind">A request</label><select id="fault-kind"
          @change=${event => { fault.kind = event.target.value; draw(); }}>${Object.entries(ACTIONS).map(([kind, { words }]) =>
          html`<option value=${kind} ?selected=${kind === fault.kind}>${words}</option>`)}</select></p>
        ${action.field ? fieldOf(fault, action.field, ...FIELDS[action.field], '', true) : nothing}
        ${SCOPE.map(([name, title, hint]) => fieldOf(fault, name, title, 'text', hint))}
        ${fieldOf(fault, 'times', 'How often', 'number', 'so many requests meet it; empty for all')}
        <datalist id="fault-error-names">${names.errors.map(each => html`<option value=${each}></option>`)}</datalist>
        <datalist id="fault-api-names">${names.apis.map(each => html`<option value=${each}></option>`)}</datalist>
        <div class="buttons"><button class="plain main" ?disabled=${waits}>Add the fault</button></div>
      </form>`;
  }

  function fieldOf(values, name, title, kind, hint, isRequired = false) {
    const id = `fault-${name}`, isNumber = kind === 'number', isWhole = name === 'times' || name === 'milliseconds';
    return html`<p class="field"><label for=${id}>${title}</label><input id=${id} type=${kind} ?required=${isRequired}
      min=${isNumber ? name === 'times' ? 1 : 0 : nothing} step=${isNumber ? isWhole ? 1 : 'any' : nothing} autocomplete="off"
      spellcheck="false" list=${name === 'error' || name === 'api' ? `${id}-names` : nothing} .value=${values[name]}
      aria-describedby=${`${id}-hint`} @input=${event => { values[name] = event.target.value; }}>
      <small id=${`${id}-hint`}>${hint}</small></p>`;
  }

  async function install() {
    const { field } = ACTIONS[fault.kind], action = { kind: fault.kind }, body = { action };
    if (field) action[field] = field === 'error' ? fault.error.trim() : Number(fault[field]);
    for (const [name] of SCOPE) if (fault[name] !== '') body[name] = fault[name];
    if (fault.times !== '') body.times = Number(fault.times);
    if (!await change('faults', body, 'The fault is installed.')) return;
    fault = { ...start, kind: fault.kind };
    draw();
  }

  // --- the clock ---

  function clockForm() {
    return html`<h2 id="clock-title">Put the clock forward</h2>
      <p class="note">Sessions end, rebalances time out and offsets expire as if so much time had passed at the brokers. The
        clocks of clients stay. A clock cannot be put back.</p>
      <form class="change" aria-labelledby="clock-title" @submit=${event => { event.preventDefault(); advance(); }}>
        <p class="field"><label for="clock-seconds">By seconds</label><input id="clock-seconds" type="number" min="0" step="any"
          required autocomplete="off" .value=${clock.seconds} @input=${event => { clock.seconds = event.target.value; }}></p>
        <div class="buttons"><button class="plain main" ?disabled=${waits}>Put it forward</button></div>
      </form>`;
  }

  async function advance() {
    const seconds = Number(clock.seconds);
    if (!await change('advance', { seconds }, `The clock was put forward by ${duration(seconds * 1000)}.`)) return;
    clock.seconds = '';
    draw();
  }

  draw();
  get('/api/control/names', stop.signal).then(found => { names = found; draw(); }, () => {});
  let before = asked;
  const end = poll('/api/control', next => {
    // An answer to what was asked before a change is older than that of the change.
    if (before === asked && !waits) { data = next; failure = null; }
    before = asked;
    draw();
  }, error => { failure = error; draw(); });
  return { close: () => { stop.abort(); end(); } };
}

function sentence({ faults, ahead_s: aheadS }) {
  const many = faults.length ? `${counted(faults.length, 'fault')} ${faults.length === 1 ? 'is' : 'are'} installed` : 'No fault is installed';
  return `${many}. The clock of the brokers ${aheadS ? `is ${duration(aheadS * 1000)} ahead` : 'goes with that of this machine'}.`;
}

function scopeText(scope) {
  const parts = [['client_id', 'of client'], ['group', 'for group'], ['topic', 'about topic'], ['version', 'in version'],
    ['connection_id', 'on connection'], ['node_id', 'at broker']];
  const of = parts.filter(([name]) => scope[name] !== null).map(([name, words]) => `${words} ${scope[name]}`);
  return [scope.api || 'each request', ...of].join(' ');
}

function actionText(action) {
  const { words, field } = ACTIONS[action.kind] || { words: action.kind };
  if (!field) return words;
  const value = field === 'error' ? action.error : duration(action[field] * (field === 'seconds' ? 1000 : 1));
  return `${words}: ${value}`;
}
