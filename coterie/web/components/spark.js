// Small drawings in the row of a table, without an axis: values over time, and rebalances over time.
import { causeKind } from './marks.js';
import { colour } from './view.js';

function prepared(canvas) {
  const ratio = window.devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const context = canvas.getContext('2d');
  context.scale(ratio, ratio);
  return { context, width, height };
}

// A line through points `[at, value]`; null interrupts it.
export function drawSpark(canvas, points, [from, to]) {
  const { context, width, height } = prepared(canvas);
  const most = Math.max(1, ...points.map(([, value]) => value ?? 0));
  context.strokeStyle = colour('link');
  context.lineWidth = 1.3;
  context.beginPath();
  let isOpen = false;
  for (const [at, value] of points) {
    if (value !== null) {
      const place = [(at - from) / (to - from) * width, height - 2 - value / most * (height - 4)];
      if (isOpen) context.lineTo(...place);
      else context.moveTo(...place);
    }
    isOpen = value !== null;
  }
  context.stroke();
}

// Rebalances `[from, to, cause, unowned]`: a mark in the colour of the cause, and the time without owner.
export function drawStrip(canvas, rebalances, [from, to]) {
  const { context, width, height } = prepared(canvas);
  const x = at => (at - from) / (to - from) * width;
  context.fillStyle = colour('panel');
  context.fillRect(0, 3, width, height - 6);
  for (const [begin, end, cause, unowned] of rebalances) {
    if ((end ?? to) < from) continue;
    if (unowned) {
      context.fillStyle = colour('outage');
      context.fillRect(x(begin), 3, Math.max(4, x(end ?? to) - x(begin)), height - 6);
    }
    [, context.fillStyle] = causeKind(cause || '');
    context.fillRect(x(begin) - 1, 3, 2.5, height - 6);
  }
}
