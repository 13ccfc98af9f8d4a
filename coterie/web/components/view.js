// Elements, names, tips and colours.
import { redraw, showAround } from './time.js';
import { localBelow, moment, offset } from './words.js';

// An element. Text is always text: nothing on this page is parsed as HTML.
export function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? '' : value);
  }
  made.append(...children.filter(each => each !== null && each !== undefined));
  return made;
}

// A name, isolated because a name in Arabic would otherwise turn the words around it.
export function nameOf(text, full) {
  return el('bdi', full ? { 'data-tip': full, tabindex: 0 } : {}, text === '' ? '(empty name)' : text);
}

export function memberOf(group, number) {
  if (number === null || number === undefined) return '';
  const [text, full] = group.names[number];
  return nameOf(text, full);
}

export function memberText(group, number) {
  return number === null || number === undefined ? '' : group.names[number][0];
}

const tip = el('div', { class: 'tip', role: 'tooltip', hidden: true });
document.body.append(tip);

export function showTip(lines, x, y) {
  tip.replaceChildren(...lines.filter(Boolean).map(line => el('p', {}, line)));
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  const left = Math.min(Math.max(8, x + 12), innerWidth - box.width - 8);
  const above = y - box.height - 12;
  tip.style.left = `${Math.max(8, left)}px`;
  tip.style.top = `${above > 8 ? above : Math.min(y + 18, innerHeight - box.height - 8)}px`;
}

export function hideTip() {
  tip.hidden = true;
}

function tipOf(target) {
  const owner = target instanceof Element ? target.closest('[data-tip]') : null;
  if (!owner) return false;
  const box = owner.getBoundingClientRect();
  showTip([owner.dataset.tip], box.left, box.top);
  return true;
}

// A mouse shows a tip by resting on it, a finger by touching it, a keyboard by the focus.
document.addEventListener('pointerover', event => {
  if (event.pointerType === 'mouse') tipOf(event.target);
});
document.addEventListener('pointerout', event => {
  if (event.pointerType === 'mouse') hideTip();
});
document.addEventListener('click', event => {
  if (!tipOf(event.target) && !(event.target instanceof HTMLCanvasElement)) hideTip();
});
document.addEventListener('focusin', event => tipOf(event.target));
document.addEventListener('focusout', hideTip);
document.addEventListener('scroll', hideTip, true);
document.addEventListener('keydown', event => {
  if (event.key === 'Escape') hideTip();
});

matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
  colours.clear();
  redraw();
});

const colours = new Map();

// The value of a colour of the style sheet, for canvases.
export function colour(name) {
  if (!colours.has(name))
    colours.set(name, getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim());
  return colours.get(name);
}

// A time in a table: UTC, below it the reader's time, and the drawings show it when it is pressed.
export function timeCell(at, to) {
  if (at === null || at === undefined) return 'unknown';
  const button = el('button', { type: 'button', onclick: () => showAround(at, to) }, moment(at));
  return el('span', {}, button, offset(at) ? el('small', {}, localBelow(at)) : null);
}
