"""The style sheet of the HTML report: light and dark, no font and no picture from elsewhere."""

STYLE = """
:root { color-scheme: light dark; --paper: #ffffff; --ink: #1b1f24; --faint: #5c6570; --rule: #d5dae0; --panel: #f5f7f9;
  --fail: #b3261e; --warn: #8a5a00; --info: #0b5cad; --ok: #1a6b36; --none: #5c6570; --minus: #fbe5e3; --plus: #e0f3e5;
  --c0: #1f5fbf; --c1: #c2571a; --c2: #2e7d4f; --c3: #8a3fa0; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #14171a; --ink: #e4e8ec; --faint: #9aa4ae; --rule: #343a41; --panel: #1c2024;
  --fail: #ff8a80; --warn: #f2bd5a; --info: #82b8ff; --ok: #7fd79b; --none: #9aa4ae; --minus: #46211f; --plus: #1c3a27;
  --c0: #7fb0ff; --c1: #ffa766; --c2: #7fd79b; --c3: #d9a0ee; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 24px 20px 64px; max-width: 1080px; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5em; margin: 0 0 4px; overflow-wrap: anywhere; }
h2 { font-size: 1.2em; margin: 40px 0 8px; border-bottom: 1px solid var(--rule); padding-bottom: 4px; }
h3 { font-size: 1em; margin: 28px 0 4px; }
p { margin: 4px 0 8px; }
a { color: inherit; }
.faint { color: var(--faint); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; margin: 8px 0; }
th, td { text-align: left; vertical-align: top; padding: 4px 14px 4px 0; border-bottom: 1px solid var(--rule); }
th { color: var(--faint); font-weight: 600; }
td, li, p { overflow-wrap: anywhere; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; overflow-wrap: normal; white-space: nowrap; }
.findings { width: 100%; }
.findings td:nth-child(-n+2) { white-space: nowrap; }
.findings td:nth-child(-n+4) { overflow-wrap: normal; }
.status { font-weight: 600; }
.fail { color: var(--fail); } .warn { color: var(--warn); } .info { color: var(--info); } .ok { color: var(--ok); }
.no_data { color: var(--none); }
code, .tokens, .diff { font-family: ui-monospace, "DejaVu Sans Mono", monospace; font-size: 13px; }
.fault { margin: 14px 0; padding: 8px 12px; background: var(--panel); border-left: 3px solid var(--rule); }
.fault.fail { border-left-color: var(--fail); } .fault.warn { border-left-color: var(--warn); }
.fault.info { border-left-color: var(--info); }
.fault > p { color: var(--ink); }
.diff { margin: 6px 0 0; display: grid; grid-template-columns: max-content 1fr; gap: 2px 10px; color: var(--ink); }
.diff > dt { color: var(--faint); } .diff > dd { margin: 0; overflow-wrap: anywhere; }
.diff .was { background: var(--minus); } .diff .now { background: var(--plus); }
.t { display: inline-block; padding: 0 3px; margin: 1px; border: 1px solid var(--rule); border-radius: 3px;
  white-space: pre-wrap; }
.t small { color: var(--faint); margin-left: 4px; }
.tokens tr.at td { font-weight: 700; border-bottom: 2px solid var(--ink); }
.tokens td, .tokens th { padding: 1px 12px 1px 0; color: var(--ink); } .tokens td { white-space: pre-wrap; }
bdi { unicode-bidi: isolate; }
.plots { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 420px), 1fr)); gap: 12px; }
.plot { width: 100%; height: auto; background: var(--panel); }
.plot text { fill: var(--ink); font: 11px system-ui, sans-serif; } .plot .title { font-weight: 600; font-size: 12px; }
.plot .num { fill: var(--faint); } .plot .label { fill: var(--faint); }
.plot .grid { stroke: var(--rule); stroke-width: 1; } .plot .axis, .plot .tick { stroke: var(--faint); }
.line { fill: none; stroke-width: 1.5; }
.line.c0 { stroke: var(--c0); } .line.c1 { stroke: var(--c1); stroke-dasharray: 6 2; }
.line.c2 { stroke: var(--c2); stroke-dasharray: 2 2; } .line.c3 { stroke: var(--c3); stroke-dasharray: 8 3 2 3; }
.dot.c0, .bar.c0 { fill: var(--c0); } .dot.c1, .bar.c1 { fill: var(--c1); } .dot.c2, .bar.c2 { fill: var(--c2); }
.dot.c3, .bar.c3 { fill: var(--c3); }
.plot .k0 { fill: var(--c0); } .plot .k1 { fill: var(--c1); } .plot .k2 { fill: var(--c2); }
.plot .k3 { fill: var(--c3); }
@media print { body { max-width: none; } .fault { break-inside: avoid; } }
"""
