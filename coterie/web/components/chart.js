import { colour, el } from './view.js';
import { inside, label, plot } from './plot.js';
import { both, duration, grouped, short } from './words.js';

// Values over time as a line of steps; null interrupts it. `values` is the time of the first step, the
// length of a step in milliseconds, and the values; `left` the room for labels, of the width.
export function chart(title, series, span, left = () => 62) {
  let [start, step, values] = series;
  const shown = ({ from, to }) => values.map((value, n) => [start + n * step, value])
    .filter(([at]) => at + step >= from && at <= to);

  function draw(frame) {
    const { context, top, right, height, x } = frame, points = shown(frame);
    const known = points.map(([, value]) => value).filter(value => value !== null);
    context.textAlign = 'left';
    context.fillStyle = colour('soft');
    if (!known.length) return context.fillText('unknown', frame.left + 8, top + 40);
    const low = Math.min(0, ...known), high = Math.max(1, ...known);
    const y = value => height - 6 - (value - low) / (high - low) * (height - top - 14);
    context.strokeStyle = colour('line');
    for (const level of [low, (low + high) / 2, high]) {
      context.beginPath();
      context.moveTo(frame.left, y(level));
      context.lineTo(right, y(level));
      context.stroke();
      label(context, short(level), frame.left - 6, y(level) + 4, frame.left);
    }
    inside(frame, () => {
      context.strokeStyle = colour('link');
      context.lineWidth = 1.6;
      context.beginPath();
      let isOpen = false;
      for (const [at, value] of points) {
        if (value !== null) {
          if (isOpen) context.lineTo(x(at), y(value));
          else context.moveTo(x(at), y(value));
          context.lineTo(x(at + step), y(value));
        }
        isOpen = value !== null;
      }
      context.stroke();
    });
    return undefined;
  }

  function hit(x, y, frame) {
    const number = Math.floor((frame.at(x) - start) / step);
    if (x < frame.left || number < 0 || number >= values.length) return null;
    const value = values[number] === null ? 'unknown' : grouped(values[number]);
    return { lines: [`${title}: ${value}`, both(start + number * step), `over ${duration(step)}`] };
  }

  function update(next) {
    [start, step, values] = next;
    drawing.paint();
  }

  const drawing = plot({ label: () => title, height: () => 130, left, span, draw, hit });
  return { element: el('div', {}, el('p', { class: 'note' }, title), drawing.element), update };
}
