// The page from top to bottom: totals, the chosen time, findings, the timeline, groups, the log.
import { readData, readSegments } from '/shared/data.js';
import { compare, column, allRows, table } from '/shared/tables.js';
import { range, setRange, setWhole, showAround, watch } from '/shared/time.js';
import { el, nameOf } from '/shared/view.js';
import { UNKNOWN, counted, duration, grouped, local, localBelow, moment, offset } from '/shared/words.js';
import { anchorOf, groupElement } from './group.js';
import { FIRST_GROUPS, timeline } from './timeline.js';

const DATA = readData(JSON.parse(document.getElementById('data').textContent));
const WHOLE = DATA.whole, FINDINGS = DATA.findings;
const main = document.querySelector('main');
const FIRST_FINDINGS = 10;
// More findings of one rule than this are one line until it is pressed.
const MOST_ALIKE = 2;

function header() {
  const note = el('p', { class: 'note' });
  DATA.inputs.forEach((each, n) => note.append(n ? ', ' : '', nameOf(each)));
  note.append(DATA.inputs.length ? '' : 'no input', el('br'),
    WHOLE ? `${moment(WHOLE[0])} to ${moment(WHOLE[1])} UTC${
      offset(WHOLE[0]) ? ` (${local(WHOLE[0])} to ${local(WHOLE[1])})` : ''}` : 'no records');
  const figures = el('dl', { class: 'figures' }, ...DATA.figures.map(([value, words]) =>
    el('div', { class: 'figure' }, el('dd', {}, typeof value === 'number' ? grouped(value) : value),
      el('dt', {}, words))));
  document.querySelector('header').append(note, figures);
}

// The fields with the chosen time. What is typed is UTC.
function rangeBar() {
  const note = el('p', { class: 'note', role: 'status' });
  const all = el('button', { type: 'button', class: 'plain', onclick: () => setRange(null) }, 'Whole time');
  const fields = ['from', 'to'].map(name => el('input', { 'aria-label': `${name}, UTC`,
    spellcheck: 'false', autocomplete: 'off', onchange: typed }));

  function typed() {
    const times = fields.map(field => Date.parse(`${field.value.trim().replace(' ', 'T')}Z`));
    fields.forEach((field, n) => field.setAttribute('aria-invalid', Number.isNaN(times[n])));
    if (!times.some(Number.isNaN)) setRange(times);
  }

  function update() {
    const [from, to] = range || WHOLE;
    [from, to].forEach((at, n) => { fields[n].value = moment(at); fields[n].removeAttribute('aria-invalid'); });
    all.disabled = !range;
    note.textContent = `${duration(to - from)}${offset(from) ? `, ${localBelow(from)} to ${localBelow(to)}` : ''}`;
  }

  watch(update);
  update();
  return el('div', { class: 'range' }, el('span', {}, 'Time, UTC'), fields[0], 'to', fields[1], all, note);
}

function findings(open) {
  if (!FINDINGS.length) return [el('p', { class: 'note' }, 'No rule found anything.')];
  const counts = new Map();
  for (const each of FINDINGS) counts.set(each.rule, (counts.get(each.rule) || 0) + 1);
  let rule = null, most = FIRST_FINDINGS;
  const unfolded = new Set();
  const list = el('ol', { class: 'findings' }), more = el('p', { class: 'note' });
  const buttons = [null, ...counts.keys()].map(name => el('button', { type: 'button', class: 'plain',
    onclick: () => { rule = name; most = FIRST_FINDINGS; update(); } },
  name === null ? `all ${grouped(DATA.found)}` : `${name} ${grouped(counts.get(name))}`));

  function likeOnes(one) {
    return FINDINGS.filter(each => each.rule === one.rule);
  }

  function isUnfolded(name) {
    return rule !== null || unfolded.has(name) || counts.get(name) <= MOST_ALIKE;
  }

  function update() {
    const found = (rule === null ? FINDINGS : FINDINGS.filter(each => each.rule === rule))
      .filter(each => isUnfolded(each.rule) || each === likeOnes(each)[0]);
    list.replaceChildren(...found.slice(0, most).map(each => isUnfolded(each.rule)
      ? findingElement(each, open)
      : likeElement(likeOnes(each), open, () => { unfolded.add(each.rule); update(); })));
    [null, ...counts.keys()].forEach((name, n) => buttons[n].setAttribute('aria-pressed', name === rule));
    more.replaceChildren(found.length <= most ? '' : el('button', { type: 'button',
      onclick: () => { most = Infinity; update(); } }, `Show all ${grouped(found.length)}`));
  }

  update();
  return [el('div', { class: 'chips' }, ...buttons), list, more];
}

// Several findings of one rule in a line: their number, their groups, and the first of them.
function likeElement(found, open, unfold) {
  const ids = [...new Set(found.flatMap(each => each.group === null ? each.groups : [each.group]))]
    .sort((one, other) => compare(one, other, 1));
  const element = findingElement(found[0], open), evidence = element.querySelector('.evidence');
  element.classList.add('like');
  element.dataset.group = ids.join(' ');
  element.querySelector('.rule').append(` × ${grouped(found.length)}`);
  evidence.prepend(el('span', { class: 'of' }, `${counted(ids.length, 'group')}: `,
    ...ids.slice(0, 8).flatMap((id, n) => [n ? ', ' : '', nameOf(id)]),
    ids.length > 8 ? ` and ${grouped(ids.length - 8)} more` : '', '. The first: '));
  evidence.append(' ', el('button', { type: 'button', class: 'plain', onclick: unfold },
    `Show all ${grouped(found.length)}`));
  return element;
}

function findingElement(each, open) {
  const to = id => el('button', { type: 'button', onclick: () => open(id) }, nameOf(id));
  const severity = ['critical', 'warning', 'info'].includes(each.severity) ? each.severity : null;
  const at = each.at === null ? each.from : each.at;
  const others = each.groups.filter(id => id !== each.group);
  const subject = each.subject && !each.evidence.includes(each.subject[0])
    ? [' · ', nameOf(...each.subject)] : [];
  const named = el('span', { class: 'evidence' }, each.group === null ? '' : to(each.group),
    ...subject, ' ', each.evidence, ...others.slice(0, 20).flatMap(id => [' ', to(id)]),
    others.length > 20 ? ` and ${others.length - 20} more` : '');
  return el('li', { 'data-group': [each.group || '', ...others].join(' ') },
    el('span', { class: severity }, each.severity), el('span', { class: 'rule' }, each.rule), named,
    el('span', {}, at === null ? '' : el('button', { type: 'button', onclick: () => {
      showAround(each.from, each.to);
      open(each.group === null ? others[0] : each.group);
    } }, moment(at).slice(0, 19)), at !== null && offset(at)
      ? el('small', {}, local(at).slice(11, 19)) : null));
}

function groupList() {
  const heads = [['group', group => group.id], ['rebalances', group => group.count],
    ['time without owner', group => group.unowned[0]], ['moved', group => group.moved],
    ['moved without need', group => group.excess],
    ['most often caused by', group => group.by && group.by[0]]];
  const elements = new Map(DATA.groups.map(group => [group, groupElement(group)]));
  // On a narrow screen the first ones are shown; the style sheet hides the others.
  const list = el('div', { id: 'groups', class: 'cut' }, ...elements.values());
  const all = DATA.groups.length > FIRST_GROUPS ? el('button', { type: 'button', id: 'all-groups',
    class: 'plain', onclick: showAllGroups }, `Show all ${grouped(DATA.groups.length)} groups`) : '';
  let order = null, direction = 1;
  const buttons = heads.map(([title, value], n) => el('button', { type: 'button',
    class: n && n < 5 ? 'n' : null, onclick: event => {
      direction = order === title ? -direction : n && n < 5 ? -1 : 1;
      order = title;
      buttons.forEach(button => button.removeAttribute('aria-sort'));
      event.target.setAttribute('aria-sort', direction > 0 ? 'ascending' : 'descending');
      list.append(...[...elements.keys()].sort((a, b) => compare(value(a), value(b), direction)
        || compare(a.id, b.id, 1))
        .map(group => elements.get(group)));
    } }, title));
  const find = el('input', { id: 'find', type: 'search', placeholder: 'Find a group',
    'aria-label': 'Find a group', oninput: () => {
      const typed = find.value.toLowerCase();
      showAllGroups();
      for (const each of document.querySelectorAll('[data-group]'))
        each.hidden = !each.dataset.group.toLowerCase().includes(typed);
    } });
  return [find, el('div', { class: 'heads' }, el('span', {}, 'Sort by'), ...buttons), list, all];
}

function showAllGroups() {
  document.getElementById('groups').classList.remove('cut');
  const button = document.getElementById('all-groups');
  if (button) button.remove();
}

function openGroup(group) {
  const element = document.getElementById(anchorOf(typeof group === 'string' ? group : group.id));
  if (!element) return;
  showAllGroups();
  element.open = true;
  element.hidden = false;
  element.scrollIntoView({ block: 'start' });
}

function segments() {
  const rows = readSegments(DATA), { total } = DATA.health, number = { number: true };
  if (!rows.length) return [];
  const columns = [column('log', row => row.log, { cell: row => nameOf(row.log) }),
    column('segment', row => row.segment, number), column('records', row => row.records, number),
    column('keys', row => row.keys, number),
    column('overwritten', row => row.overwritten, { number: true,
      cell: row => row.overwritten === null ? UNKNOWN : `${Math.round(row.overwritten * 100)} %` }),
    column('tombstones', row => row.tombstones, number),
    column('cleaned batches', row => row.cleaned, number),
    column('damaged', row => row.damaged, { number: true, cell: row => row.damaged
      ? el('span', { class: 'critical' }, grouped(row.damaged)) : '0' }),
    column('bytes', row => row.bytes, number)];
  return [el('h2', {}, 'Log segments'), table('Segments of the log', columns, allRows(() => rows), 'segment').element,
    total > rows.length ? el('p', { class: 'note' }, `${grouped(rows.length)} of ${counted(total, 'segment')}.`) : ''];
}

setWhole(WHOLE);
header();
if (WHOLE) main.append(rangeBar());
main.append(el('h2', {}, 'Findings'), ...findings(openGroup));
if (WHOLE && DATA.groups.some(group => group.count))
  main.append(el('h2', {}, 'All groups over time'),
    el('p', { class: 'note' }, 'Drag over a drawing to choose a time; press a group to open it.'),
    timeline(DATA, openGroup));
if (DATA.groups.length) main.append(el('h2', {}, 'Groups'), ...groupList());
main.append(...segments());

const linked = DATA.groups.find(group => location.hash === `#${anchorOf(group.id)}`);
if (linked) openGroup(linked);
else if (DATA.groups.length === 1) document.querySelector('#groups details').open = true;
requestAnimationFrame(() => requestAnimationFrame(() => performance.mark('painted')));
