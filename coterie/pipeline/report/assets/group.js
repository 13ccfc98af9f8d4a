// A group in the list: a line that is always there, and a body that is made when the group is opened.
import { groupBody } from '/shared/group.js';
import { redraw } from '/shared/time.js';
import { el, nameOf } from '/shared/view.js';
import { atLeast, counted, grouped } from '/shared/words.js';

export function groupElement(group) {
  const by = group.by ? [nameOf(group.by[0]), ` (${counted(group.by[1], 'time')}, ${group.by[1] > 1 ? 'mostly ' : ''}${group.by[2]})`] : [];
  const element = el('details', { 'data-group': group.id, id: anchorOf(group.id) }, el('summary', {},
    el('span', { class: 'id' }, nameOf(group.id)),
    el('span', { class: 'n', 'data-label': group.count === 1 ? 'rebalance' : 'rebalances' },
      grouped(group.count)),
    el('span', { class: 'n', 'data-label': 'without owner' }, atLeast(...group.unowned)),
    el('span', { class: 'n', 'data-label': 'moved' }, grouped(group.moved)),
    el('span', { class: 'n', 'data-label': 'without need' }, grouped(group.excess)),
    el('span', { class: 'by' }, ...by)));
  element.addEventListener('toggle', () => {
    if (!element.open || element.querySelector('.body')) return;
    element.append(group.rebalances ? groupBody(group).element : el('div', { class: 'body' },
      el('p', { class: 'note' }, 'The page has no details of this group.')));
    redraw();
  });
  return element;
}

export function anchorOf(id) {
  return `group-${encodeURIComponent(id)}`;
}

