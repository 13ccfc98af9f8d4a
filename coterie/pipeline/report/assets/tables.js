// Tables that can be sorted by any column, leave out empty columns, show their first rows, and show
// that there is more to scroll to.
const FIRST_ROWS = 50;

// A column: its title, the value that orders the rows, and, if it is not that value, the cell.
function column(title, value, { cell = null, number = false, time = false } = {}) {
  return { title, value, cell, number, time };
}

function isEmpty(value) {
  return value === null || value === undefined || value === '';
}

function compare(one, other, direction) {
  if (isEmpty(one) || isEmpty(other)) return isEmpty(one) - isEmpty(other);
  if (typeof one === 'string') return direction * one.localeCompare(other, 'en', { numeric: true });
  return direction * (one - other);
}

// A table of `rows()`, which may change with the range; `update` shows them anew.
function table(caption, columns, rows, noun) {
  const every = rows();
  const used = columns.filter(each => every.some(row => !isEmpty(each.value(row))));
  let order = null, direction = 1, most = FIRST_ROWS;
  const body = el('tbody');
  const heads = used.map(each => el('th', { scope: 'col', class: each.number ? 'n' : null },
    el('button', { type: 'button', onclick: () => sortBy(each) }, each.title)));
  const inner = el('div', { class: 'scroll', role: 'region', tabindex: 0, 'aria-label': caption },
    el('table', {}, el('caption', {}, caption), el('thead', {}, el('tr', {}, ...heads)), body));
  const outer = el('div', { class: 'scroller' }, inner);
  const more = el('p', { class: 'note' });

  function sortBy(chosen) {
    direction = order === chosen ? -direction : chosen.number || chosen.time ? -1 : 1;
    order = chosen;
    heads.forEach((head, number) => {
      if (used[number] === order)
        head.setAttribute('aria-sort', direction > 0 ? 'ascending' : 'descending');
      else head.removeAttribute('aria-sort');
    });
    update();
  }

  function update() {
    const found = rows();
    if (order) found.sort((a, b) => compare(order.value(a), order.value(b), direction)
      || compare(columns[0].value(a), columns[0].value(b), 1));
    body.replaceChildren(...found.slice(0, most).map(row => el('tr', {}, ...used.map(each =>
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
