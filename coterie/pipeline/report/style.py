"""The page's style sheet and the few lines of script it has: no font, image or script from afar."""

STYLE = """
:root { color-scheme: light dark; --ink: #1d2330; --soft: #667085; --line: #d9dee7; --back: #ffffff;
  --panel: #f6f8fb; --alarm: #b3261e; --warn: #9a6700; --link: #0b62c4; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ef; --soft: #98a2b3; --line: #343b48;
  --back: #12151c; --panel: #1a1f29; --alarm: #ff8a80; --warn: #e3b341; --link: #7ab7ff; } }
* { box-sizing: border-box }
body { margin: 0 auto; padding: 24px 28px 80px; max-width: 1180px; background: var(--back);
  color: var(--ink); font: 14px/1.45 system-ui, -apple-system, "Segoe UI", sans-serif }
h1 { font-size: 24px; margin: 0 0 2px } h2 { font-size: 18px; margin: 36px 0 8px }
h3 { font-size: 14px; margin: 22px 0 6px }
a { color: var(--link) } .note { color: var(--soft); margin: 4px 0 }
.figures { display: flex; flex-wrap: wrap; gap: 10px; margin: 16px 0 } dd { margin: 0 }
.figure { background: var(--panel); border: 1px solid var(--line); border-radius: 8px;
  padding: 8px 14px; min-width: 128px }
.figure { display: flex; flex-direction: column }
.figure dd { font-size: 20px; font-weight: 700; font-variant-numeric: tabular-nums }
.figure dt { color: var(--soft); font-size: 12px; order: 1 }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums }
th { text-align: left; color: var(--soft); font-weight: 600; font-size: 12px;
  border-bottom: 1px solid var(--line); padding: 4px 10px 4px 0 }
td { border-bottom: 1px solid var(--line); padding: 4px 10px 4px 0; vertical-align: top }
td.n, th.n { text-align: right; white-space: nowrap }
.scroll { overflow-x: auto; max-height: 420px; overflow-y: auto }
.scroll th { position: sticky; top: 0; background: var(--back) }
caption { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%) }
:focus-visible { outline: 2px solid var(--link); outline-offset: 2px }
.long { display: block; overflow-wrap: anywhere; min-width: 260px }
@media (max-width: 720px) { body { padding: 14px 12px 60px } td, th { white-space: nowrap }
  td .long { white-space: normal } input[type=search] { width: 100% } }
@media print { .scroll { max-height: none } input { display: none } }
.critical { color: var(--alarm); font-weight: 600 } .warning { color: var(--warn) }
.wide { overflow-x: auto } .charts { display: flex; flex-wrap: wrap; gap: 16px }
.key { display: inline-block; margin-right: 14px } .key i { display: inline-block; width: 10px;
  height: 10px; border-radius: 2px; margin-right: 5px }
input[type=search] { width: 320px; padding: 6px 10px; border: 1px solid var(--line);
  border-radius: 6px; background: var(--panel); color: var(--ink); font: inherit }
svg { display: block; max-width: none }
svg text { fill: var(--ink); font: 11px system-ui, sans-serif }
svg .tick, svg .chart-title { fill: var(--soft) } svg .lane { font-size: 10.5px }
svg .grid { stroke: var(--line); stroke-width: 1 }
svg .bar { rx: 2px } svg .bar:hover { opacity: .7 }
svg .mark { stroke: var(--alarm); stroke-width: 1.5; opacity: .75 }
svg .many { stroke-width: 1; opacity: .45 }
svg .mark:hover { stroke-width: 4; opacity: 1 }
svg .shade { fill: var(--alarm); opacity: .1 }
svg .guessed { stroke-dasharray: 4 3 }
svg .curve { fill: none; stroke: var(--link); stroke-width: 1.6 }
"""

# Hides the groups whose names do not hold what is typed.
SCRIPT = """
const box = document.getElementById('find');
if (box) box.addEventListener('input', () => {
  const wanted = box.value.toLowerCase();
  for (const each of document.querySelectorAll('[data-group]'))
    each.hidden = !each.dataset.group.toLowerCase().includes(wanted);
});
"""
