// A drawing with a time axis on a canvas. Dragging over it chooses the time that all drawings show,
// a double click or Escape shows everything again, and a pointer or finger on it shows a tip.
import { colour, el, hideTip, showTip } from './view.js';
import { setRange, watchTime } from './time.js';
import { clock, offset, ticks, zone } from './words.js';

const FONT = '11px system-ui, sans-serif';
const EDGE = 8, NEAR = 5, NEAR_FINGER = 14, LEAST_DRAG = 6;
export const BAR_COLOURS = ['#0072b2', '#e69f00', '#009e73', '#cc79a7', '#56b4e9', '#d55e00', '#8a6d3b',
  '#7a5195', '#5c8a00', '#b0413e'];

// Arguments:
//   label    what the drawing shows, for screen readers
//   height   its height in pixels below the axis, of the width
//   left     the room for labels, of the width
//   span     the time to draw
//   draw     draws a frame: { context, width, height, top, left, right, from, to, x(at), at(x) }
//   hit      returns what is at a place of a frame: { lines: of the tip, pick: for a click }, or null
export function plot({ label, height, left, span, draw, hit }) {
  const canvas = el('canvas', { tabindex: 0, role: 'img', 'aria-label': label() });
  const brush = el('div', { class: 'brush', hidden: true });
  const host = el('div', { class: 'plot' }, canvas, brush);
  let frame = null, start = null, isDragging = false;

  function paint() {
    const width = host.clientWidth;
    const [from, to] = span();
    if (!width || !(to >= from)) return;
    const top = offset(from) ? 42 : 28, high = top + height(width) + 4;
    const ratio = window.devicePixelRatio || 1;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(high * ratio);
    canvas.style.height = `${high}px`;
    const context = canvas.getContext('2d');
    context.scale(ratio, ratio);
    context.font = FONT;
    const room = left(width), right = width - EDGE, length = Math.max(1, to - from);
    frame = {
      context, width, height: high, top, left: room, right, from, to,
      x: at => room + (at - from) / length * (right - room),
      at: x => from + (Math.min(Math.max(x, room), right) - room) / (right - room) * length,
    };
    axis(frame);
    draw(frame);
    canvas.setAttribute('aria-label', label());
  }

  function place(event) {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  function find(event) {
    const [x, y] = place(event);
    return frame && hit ? hit(x, y, frame, event.pointerType === 'touch' ? NEAR_FINGER : NEAR) : null;
  }

  canvas.addEventListener('pointerdown', event => {
    if (event.button) return;
    start = place(event)[0];
    isDragging = false;
  });
  canvas.addEventListener('pointermove', event => {
    if (start === null) {
      const found = event.pointerType === 'mouse' ? find(event) : null;
      if (found) showTip(found.lines, event.clientX, event.clientY);
      else if (event.pointerType === 'mouse') hideTip();
      return;
    }
    const x = Math.min(Math.max(place(event)[0], frame.left), frame.right);
    if (Math.abs(x - start) < LEAST_DRAG && !isDragging) return;
    if (!isDragging) canvas.setPointerCapture(event.pointerId);
    isDragging = true;
    hideTip();
    const begin = Math.max(start, frame.left);
    brush.hidden = false;
    brush.style.left = `${Math.min(begin, x)}px`;
    brush.style.width = `${Math.abs(x - begin)}px`;
  });
  canvas.addEventListener('pointerup', event => {
    const x = place(event)[0], begin = start;
    start = null;
    brush.hidden = true;
    if (begin === null) return;
    if (isDragging) {
      const times = [frame.at(begin), frame.at(x)].sort((a, b) => a - b);
      setRange(times);
      return;
    }
    const found = find(event);
    if (!found) hideTip();
    else if (event.pointerType === 'mouse' && found.pick) found.pick();
    else showTip(found.lines, event.clientX, event.clientY);
  });
  canvas.addEventListener('pointercancel', () => { start = null; brush.hidden = true; });
  canvas.addEventListener('pointerleave', event => { if (event.pointerType === 'mouse') hideTip(); });
  canvas.addEventListener('dblclick', () => setRange(null));
  canvas.addEventListener('keydown', event => zoomByKey(event, span()));
  new ResizeObserver(() => { if (host.clientWidth !== (frame && frame.width)) paint(); }).observe(host);
  // What is folded has no width, and is painted when it gets one.
  watchTime(paint);
  return { element: host, paint };
}

function zoomByKey(event, [from, to]) {
  const length = to - from, step = length / 5;
  const next = { ArrowLeft: [from - step, to - step], ArrowRight: [from + step, to + step],
    '+': [from + step, to - step], '-': [from - length / 3, to + length / 3] }[event.key];
  if (next) setRange(next);
  else if (event.key === 'Escape' || event.key === '0') setRange(null);
  else return;
  event.preventDefault();
}

function axis({ context, top, left, right, height, from, to, x }) {
  context.strokeStyle = colour('line');
  context.fillStyle = colour('soft');
  context.lineWidth = 1;
  context.textAlign = 'left';
  context.fillText('UTC', 0, 12);
  if (offset(from)) context.fillText(zone(from), 0, 26);
  context.textAlign = 'center';
  for (const at of ticks(from, to, Math.max(2, (right - left) / 95))) {
    const place = Math.round(x(at)) + 0.5;
    context.beginPath();
    context.moveTo(place, top - 4);
    context.lineTo(place, height);
    context.stroke();
    const text = clock(at, to - from), half = context.measureText(text).width / 2;
    const middle = Math.min(Math.max(place, left - EDGE + half), right + EDGE - half);
    context.fillText(text, middle, 12);
    if (offset(at)) context.fillText(clock(at + offset(at), to - from), middle, 26);
  }
}

// Draw only between the labels and the right edge.
export function inside({ context, left, right, height }, draw) {
  context.save();
  context.beginPath();
  context.rect(left, 0, right - left, height);
  context.clip();
  draw();
  context.restore();
}

// Write a label that is cut to the room that it has.
export function label(context, text, x, y, room) {
  let shown = text;
  if (context.measureText(shown).width > room) {
    let letters = Math.max(1, Math.floor(shown.length * room / context.measureText(shown).width) - 1);
    shown = `${text.slice(0, Math.ceil(letters / 2))}…${text.slice(text.length - Math.floor(letters / 2))}`;
  }
  context.textAlign = 'right';
  context.fillStyle = colour('ink');
  context.fillText(shown, x, y);
}
