// Tables that can be sorted by any column, leave out empty columns, show their first rows, and show
// that there is more to scroll to.
import { el } from './view.js';
import { counted, grouped } from './words.js';

const FIRST_ROWS = 50;

// A column: its title, the value that orders the rows, and, if it is not that value, the cell.
export function column(title, value, { cell = null, number = false, time = false } = {}) {
  return { title, value, cell, number, time };
}

export function isEmpty(value) {
  return value === null || value === undefined || value === '';
}

export function compare(one, other, direction) {
  if (isEmpty(one) || isEmpty(other)) return isEmpty(one) - isEmpty(other);
  if (typeof one === 'string') return direction * one.localeCompare(other, 'en', { numeric: true });
  return direction * (one - other);
}

// A table of `rows()`, which may change; `update` shows them anew, in the order that was chosen.
export function table(caption, columns, rows, noun) {
  let used = [], heads = [], order = null, direction = 1, most = FIRST_ROWS;
  const body = el('tbody'), head = el('tr');
  const inner = el('div', { class: 'scroll', role: 'region', tabindex: 0, 'aria-label': caption },
    el('table', {}, el('caption', {}, caption), el('thead', {}, head), body));
  const outer = el('div', { class: 'scroller' }, inner);
  const more = el('p', { class: 'note' });

  function sortBy(chosen) {
    direction = order === chosen ? -direction : chosen.number || chosen.time ? -1 : 1;
    order = chosen;
    markOrder();
    update();
  }

  function markOrder() {
    heads.forEach((each, number) => {
      if (used[number] === order)
        each.setAttribute('aria-sort', direction > 0 ? 'ascending' : 'descending');
      else each.removeAttribute('aria-sort');
    });
  }

  // The heads of columns that have a value in any row.
  function updateHeads(every) {
    const next = columns.filter(each => every.some(row => !isEmpty(each.value(row))));
    if (heads.length && next.length === used.length && next.every((each, n) => each === used[n])) return;
    used = next;
    heads = used.map(each => el('th', { scope: 'col', class: each.number ? 'n' : null },
      el('button', { type: 'button', onclick: () => sortBy(each) }, each.title)));
    head.replaceChildren(...heads);
    markOrder();
  }

  function update() {
    const { found, every } = rows();
    updateHeads(every);
    if (order) found.sort((a, b) => compare(order.value(a), order.value(b), direction)
      || compare(columns[0].value(a), columns[0].value(b), 1));
    showRows(body, found.slice(0, most).map(row => el('tr', {}, ...used.map(each =>
      el('td', { class: each.number ? 'n' : each.time ? 't' : null }, cellOf(each, row))))));
    const isCut = found.length > most;
    more.replaceChildren(
      isCut || found.length < every.length ? `${grouped(Math.min(most, found.length))} of ${
        counted(every.length, noun)}${found.length < every.length ? ', those of the chosen time' : ''}. `
        : '',
      isCut ? el('button', { type: 'button', onclick: () => { most = Infinity; update(); } },
        'Show all') : '');
    more.hidden = !more.textContent;
    hintScroll(outer, inner);
  }

  inner.addEventListener('scroll', () => hintScroll(outer, inner), { passive: true });
  new ResizeObserver(() => hintScroll(outer, inner)).observe(inner);
  update();
  return { element: el('div', {}, outer, more), update };
}

// Rows that are all shown, whatever the chosen time.
export function allRows(rows) {
  return () => ({ found: [...rows()], every: rows() });
}

// Show rows. Those that say the same as before stay, so that a live table does not disturb its reader, and
// what has the focus keeps it, by its place.
function showRows(body, rows) {
  const before = [...body.children];
  const next = rows.map((row, n) => before[n] && before[n].isEqualNode(row) ? before[n] : row);
  if (next.length === before.length && next.every((row, n) => row === before[n])) return;
  const places = () => [...body.querySelectorAll('button, a, [tabindex]')];
  const place = places().indexOf(document.activeElement);
  next.forEach((row, n) => {
    if (row === before[n]) return;
    if (before[n]) before[n].replaceWith(row);
    else body.append(row);
  });
  for (const row of before.slice(next.length)) row.remove();
  if (place >= 0 && places()[place]) places()[place].focus({ preventScroll: true });
}

function cellOf(each, row) {
  if (each.cell) {
    const made = each.cell(row);
    return made === null || made === undefined ? '' : made;
  }
  const value = each.value(row);
  return each.number ? grouped(value) : isEmpty(value) ? '' : value;
}

function hintScroll(outer, inner) {
  outer.classList.toggle('more-right', inner.scrollLeft + inner.clientWidth < inner.scrollWidth - 2);
  outer.classList.toggle('more-below', inner.scrollTop + inner.clientHeight < inner.scrollHeight - 2);
}
