"""The look of the study's page: light and dark, phone, desk and paper."""

STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #ffffff; --line: #d7dbe0;
        --soft: #5c6670; --band: #f4f6f8; --good: #23752b; --part: #94600a; --bad: #b3261e; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e9ec; --paper: #15181c; --line: #363c44; --soft: #9aa4ae; --band: #1d2126;
          --good: #7ccf81; --part: #e6b35a; --bad: #f28b82; }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0 auto; max-width: 74rem; padding: 2rem 1.1rem 4rem; color: var(--ink);
       background: var(--paper); font: 16px/1.55 system-ui, sans-serif; overflow-wrap: break-word; }
h1 { font-size: 1.75rem; line-height: 1.2; margin: 0 0 .4rem; text-wrap: balance; }
h2 { font-size: 1.25rem; margin: 3rem 0 .8rem; padding-top: .6rem;
     border-top: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 1.6rem 0 .4rem; }
p { max-width: 46rem; } p { margin: .4rem 0 .8rem; }
p.lead, .soft { color: var(--soft); }
nav { margin: 1rem 0 0; font-size: .95rem; } nav a { margin-right: 1.1rem; white-space: nowrap; }
a { color: inherit; text-underline-offset: .2em; }
code { font: .9em ui-monospace, monospace; background: var(--band); padding: .05em .12em;
       border-radius: 3px; }
dl { display: grid; grid-template-columns: 11rem 1fr; gap: .7rem 1.4rem; margin: 0;
     max-width: 58rem; }
dt { font-weight: 600; } dd { margin: 0; max-width: 46rem; }
ol.claims { list-style: none; margin: 0; padding: 0; max-width: none; display: grid;
            grid-template-columns: repeat(auto-fill, minmax(min(100%, 27rem), 1fr));
            gap: 1.5rem 2rem; align-items: start; }
ol.claims > li { border-left: 4px solid var(--soft); padding: .1rem 0 .1rem .9rem; min-width: 0; }
ol.claims > li.holds { border-color: var(--good); }
ol.claims > li.part { border-color: var(--part); }
ol.claims > li.fails { border-color: var(--bad); }
.chip { font-weight: 700; font-size: .85rem; letter-spacing: .01em; color: var(--soft); }
.holds > .chip { color: var(--good); } .part > .chip { color: var(--part); }
.fails > .chip { color: var(--bad); }
.claims p { margin: .1rem 0 .3rem; }
.claims p.quote { font: italic 1.04em/1.45 Georgia, serif; margin-bottom: .5rem; }
details { margin: .4rem 0; } summary { cursor: pointer; color: var(--soft); }
section > details > summary { color: var(--ink); font-weight: 600; padding: .3rem 0; }
.scroll { overflow-x: auto; margin: .3rem 0 1rem; }
table { border-collapse: collapse; font-size: .84rem; line-height: 1.35;
        font-variant-numeric: tabular-nums; }
caption { text-align: left; padding: .2rem 0 .4rem; font-weight: 600; }
th, td { text-align: right; padding: .28rem .45rem; border-bottom: 1px solid var(--line);
         white-space: nowrap; }
th.text, td.text { text-align: left; white-space: normal; min-width: 7rem; max-width: 26rem; }
thead th { color: var(--soft); font-weight: 600; vertical-align: bottom; }
thead th.group { text-align: center; border-bottom-color: var(--soft); }
thead th.text { padding-left: 0; }
th[scope=row] { position: sticky; left: 0; background: var(--paper); font-weight: 600;
                text-align: left; padding-left: 0; white-space: normal; max-width: 13rem; }
td.theirs { color: var(--soft); } td.apart { background: var(--band); }
tr.block td, tr.block th[scope=row] { border-top: 2px solid var(--line); }
.plates { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 27rem), 1fr));
          gap: 1.2rem 1.6rem; }
figure { margin: 0; } figure svg { display: block; width: 100%; height: auto; }
figure svg * { stroke-linejoin: round; stroke-linecap: butt; }
figcaption { color: var(--soft); font-size: .87rem; line-height: 1.4; margin-top: .2rem; }
footer { margin-top: 3rem; padding-top: .8rem; border-top: 1px solid var(--line);
         color: var(--soft); font-size: .87rem; }
@media (max-width: 40rem) {
  body { font-size: 15px; padding-top: 1.2rem; } h1 { font-size: 1.4rem; }
  th[scope=row] { max-width: 9rem; padding-right: .6rem; }
  dl { display: block; } dt { margin-top: .9rem; }
  nav a { display: inline-block; margin: .1rem .9rem .1rem 0; }
}
@media print {
  :root { --ink: #000000; --paper: #ffffff; --line: #c8ccd0; --soft: #4a525a; --band: #f4f6f8; }
  body { max-width: none; padding: 0; font-size: 10pt; } nav { display: none; }
  table { font-size: 7pt; } th, td { padding: .15rem .3rem; } .scroll { overflow: visible; }
  figure, li, tr { break-inside: avoid; } h2, h3, summary { break-after: avoid; }
  .plates { grid-template-columns: 1fr 1fr; }
  details::details-content { content-visibility: visible; height: auto; }
}
"""
