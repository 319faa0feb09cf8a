// The charts, each a function from the page's data and colors to what plotly draws.

const ARRAYS = {
  u1: Uint8Array, u4: Uint32Array, i2: Int16Array, i4: Int32Array, f4: Float32Array, f8: Float64Array,
};

/** Return an array from the data: short ones are lists, long ones base64 of their bytes. */
function unpacked(list) {
  if (Array.isArray(list)) return list;
  const bytes = Uint8Array.from(atob(list.bytes), (sign) => sign.charCodeAt(0));
  return new ARRAYS[list.kind](bytes.buffer);
}

/** A cluster in words: its name, or "cluster 3" if that is a number. */
function called(page, k) {
  const name = page.names?.[k] ?? String(k);
  return /^-?\d+$/.test(name) ? `cluster ${name}` : name;
}

/** A name that fits into a chart. */
const shortened = (name, length) =>
  name.length <= length ? name : `${name.slice(0, length - 1).trimEnd()}…`;

/** How many letters fit under a share of a chart; names that are longer stand aslant. */
const letters = (place, share) =>
  Math.min(40, Math.max(12, Math.floor((place.clientWidth * share) / 7)));

/** The page's colors in the current theme; the clusters' first. */
function currentColors(nColors) {
  const style = getComputedStyle(document.documentElement);
  const color = (name) => style.getPropertyValue(`--${name}`).trim();
  const names = ["ink", "soft", "paper", "line", "accent", "bound", "out"];
  return {
    ...Object.fromEntries(names.map((name) => [name, color(name)])),
    clusters: Array.from({ length: nColors }, (_, k) => color(`k${k}`)),
  };
}

const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", sans-serif';
const CLEAR = "rgba(0,0,0,0)";
const TOUCH = matchMedia("(pointer: coarse)").matches;
const OPTIONS = {
  displaylogo: false,
  displayModeBar: TOUCH ? false : "hover",
  responsive: true,
  // By default a button uploads the chart; pages send nothing.
  showSendToCloud: false,
  plotlyServerURL: "",
  modeBarButtons: [["toImage"], ["zoom2d", "pan2d"], ["resetScale2d"]],
};

/** Whether the page is being drawn for print. */
const onPaper = () => document.documentElement.dataset.theme === "print";

/** Return a layout; an axis has a title and plotly's own options. */
function layoutOf(colors, xaxis, yaxis, more = {}) {
  const size = onPaper() ? 10 : 12;
  const axis = ({ title = "", ...options }) => ({
    title: { text: title, standoff: 8, font: { size, color: colors.soft } },
    color: colors.soft,
    gridcolor: colors.line,
    linecolor: colors.line,
    zeroline: false,
    tickfont: { size },
    automargin: true,
    ...options,
  });
  return {
    font: { family: FONT, size, color: colors.ink },
    paper_bgcolor: CLEAR,
    plot_bgcolor: CLEAR,
    margin: { l: 52, r: 12, t: 8, b: 44 },
    // A finger that scrolls must not zoom.
    dragmode: TOUCH ? false : "zoom",
    hoverlabel: { bgcolor: colors.paper, bordercolor: colors.line, font: { color: colors.ink } },
    modebar: { bgcolor: CLEAR, color: colors.line, activecolor: colors.soft },
    showlegend: false,
    // The reader's zoom survives a change of colors.
    uirevision: "kept",
    xaxis: axis(xaxis),
    yaxis: axis(yaxis),
    ...more,
  };
}

const LEGEND_ABOVE = {
  showlegend: true,
  legend: {
    orientation: "h", x: 0, y: 1, yanchor: "bottom", bgcolor: CLEAR, traceorder: "normal",
  },
};

/** The text under the pointer, without the name of the trace beside it. */
const hover = (text) => ({ hovertemplate: `${text}<extra></extra>` });

/** A line; with markers if they have a size. */
function line(x, y, { color, width = 2, dash, shape, size }, more) {
  const markers = size ? { mode: "lines+markers", marker: { size } } : { mode: "lines" };
  return { x, y, line: { color, width, dash, shape }, ...markers, ...more };
}

/** Ticks 1, 2, 5, 10, ... of a logarithmic axis of iterations. */
function iterationTicks(last) {
  const ticks = [];
  for (let unit = 1; unit <= last; unit *= 10) {
    for (const m of [1, 2, 5]) if (m * unit <= Math.max(2, last)) ticks.push(m * unit);
  }
  return ticks;
}

/** An axis of iterations with whole numbers, even if it is short. */
function iterationAxis({ iteration }) {
  const ticks = iteration.length <= 8 ? { dtick: 1 } : { tickformat: ",d", nticks: 7 };
  return { title: "iteration", ...ticks };
}

/** The color and the name of each trimmed share of a scan. */
function scanLine(scan, number, colors) {
  if (scan.length === 1) return { color: colors.accent, name: "found" };
  const { alpha } = scan[number];
  const name = alpha ? `${figures(100 * alpha, 3)}% trimmed` : "untrimmed";
  return { color: colors.clusters[number], name };
}

/** The axis of K: ticks at whole numbers, and room around a single one. */
function axisOfK({ scan, ticks }) {
  const [{ k }, ...others] = scan[0].cells;
  const room = others.length ? {} : { range: [k - 1, k + 1] };
  return { title: "number of clusters K", tickvals: ticks, ...room };
}

/** An axis of sums of squares, from 0: large and small ones as powers of ten. */
const SUMS = { rangemode: "tozero", exponentformat: "power", minexponent: 5 };

/** A name with its unit, if it has one. */
const inUnit = (name, unit) => (unit ? `${name} in ${unit}`.trim() : name);

/** Values for a logarithmic axis. */
const positive = (values) => values.map((value) => (value > 0 ? value : null));

const CHARTS = {
  gap({ trace, unit }, colors) {
    const [gap, smallest, guaranteed] = [trace.gap, trace.smallest, trace.guaranteed].map(positive);
    if (gap.every((value) => value === null)) {
      return { text: "The gap is 0 from the first step: no point is closer to another center." };
    }
    const { bound, accent } = colors;
    const x = trace.iteration;
    const ticks = iterationTicks(x.at(-1));
    const values = [...gap, ...guaranteed].filter((value) => value !== null);
    const decades = Math.log10(Math.max(...values) / Math.min(...values));
    return {
      data: [
        line(x, guaranteed, { color: bound, dash: "dash" }, {
          name: "guaranteed", ...hover("guaranteed below %{y:.4~g}"),
        }),
        line(x, smallest, { color: accent, width: 1, dash: "dot", shape: "hv" }, {
          name: "smallest so far", hoverinfo: "skip",
        }),
        line(x, gap, { color: accent, size: 5 }, {
          name: trace.gap.at(-1) === 0 ? "gap, then 0" : "gap",
          ...hover("iteration %{x}<br>gap %{y:.4~g}"),
        }),
      ],
      layout: layoutOf(
        colors,
        { title: "iteration", type: "log", tickvals: ticks, ticktext: ticks.map(String) },
        {
          title: inUnit("", unit), type: "log", exponentformat: "power",
          dtick: Math.max(1, Math.ceil(decades / 6)),
        },
        LEGEND_ABOVE,
      ),
    };
  },

  sse({ trace, unit }, colors) {
    const { iteration, sse, lower_bound: bound } = trace;
    if (sse.length < 2) return { text: `Constant at ${figures(sse[0], 6)}${unit ? inUnit(",", unit) : ""}.` };
    const data = [
      line(iteration, sse, { color: colors.accent, size: 5 }, {
        name: "inertia", ...hover("iteration %{x}<br>inertia %{y:.6~g}"),
      }),
    ];
    if (bound !== null) {
      const ends = [1, iteration.at(-1)];
      data.push(line(ends, [bound, bound], { color: colors.bound, dash: "dash" }, {
        name: "lower bound", ...hover("no clustering below %{y:.6~g}"),
      }));
    }
    return {
      data,
      layout: layoutOf(
        colors,
        iterationAxis(trace),
        { title: inUnit("", unit), ...SUMS, rangemode: "normal" },
        bound !== null ? LEGEND_ABOVE : {},
      ),
    };
  },

  moved({ trace }, colors) {
    if (!trace.moved.some((moved) => moved > 0)) return { text: "No point changed cluster." };
    return {
      data: [
        {
          type: "bar", x: trace.iteration, y: trace.moved, marker: { color: colors.accent },
          ...hover("iteration %{x}<br>%{y:,} points"),
        },
      ],
      layout: layoutOf(
        colors,
        { ...iterationAxis(trace), showgrid: false },
        {
          tickformat: ",d", rangemode: "tozero",
          ...(Math.max(...trace.moved) <= 5 ? { dtick: 1 } : { nticks: 6 }),
        },
        { bargap: trace.iteration.length > 100 ? 0 : 0.25 },
      ),
    };
  },

  sizes(page, colors, place) {
    const { shares, points, by_size: bySize, names, n_clusters: n } = page;
    // The bars stand by size; their data by label.
    const ranks = Array(n);
    bySize.forEach((k, i) => (ranks[k] = i));
    const every = Math.ceil(n / 40);
    const ticks = bySize.map((k, i) => [i, k]).filter(([i]) => i % every === 0);
    const words = names.some((name) => !/^-?\d+$/.test(name));
    return {
      data: [
        {
          type: "bar", x: ranks, y: shares, customdata: points,
          text: shares.map((share, k) => `${escaped(called(page, k))}`), textposition: place.clientWidth > 45 * n ? "outside" : "none",
          marker: { color: colors.clusters.slice(0, n) }, cliponaxis: false,
          texttemplate: "%{y:.1%}", constraintext: "none", textangle: 0,
          ...hover("%{text}<br>%{customdata:,} points, %{y:.1%}"),
        },
      ],
      layout: layoutOf(
        colors,
        {
          title: words ? "" : "cluster, the largest first", showgrid: false,
          tickvals: ticks.map(([i]) => i),
          ticktext: ticks.map(([, k]) => escaped(shortened(names[k], letters(place, 1 / n)))),
        },
        { tickformat: "~%", nticks: 5, rangemode: "tozero" },
        { bargap: n > 60 ? 0.05 : 0.25 },
      ),
    };
  },

  margins(page, colors, place) {
    const values = Array.from(unpacked(page.margins));
    const labels = unpacked(page.map.labels);
    const [data, ticks] = [Array(page.n_clusters), []];
    // Clusters stand side by side, the largest first, a little apart.
    const apart = Math.max(1, values.length / 150 / Math.max(1, page.n_clusters / 15));
    const wordy = page.names.some((name) => name.length > 4);
    let at = 0;
    for (const k of page.by_size) {
      const color = colors.clusters[k];
      const own = values.filter((_, i) => labels[i] === k);
      if (!own.length) continue;
      own.sort((a, b) => b - a);
      const mean = own.reduce((sum, value) => sum + value, 0) / own.length;
      const x = Array.from({ length: own.length + 1 }, (_, i) => at + i);
      data[k] = line(x, [...own, own.at(-1)], { color, width: 0, shape: "hv" }, {
        fill: "tozeroy", fillcolor: color, hoveron: "points",
        ...hover(`${escaped(called(page, k))}<br>margin %{y:.2f}; mean ${mean.toFixed(2)}`),
      });
      // A name stands under its cluster if there is room for it.
      const room = Math.floor((place.clientWidth * own.length) / values.length / 7);
      const name = shortened(page.names[k], Math.max(4, room));
      if (!wordy || room >= 4) ticks.push([at + own.length / 2, escaped(name)]);
      at += own.length + apart;
    }
    const every = Math.ceil(ticks.length / (ticks.length > 40 ? 16 : 30));
    const named = ticks.filter((_, i) => i % every === 0);
    const lowest = values.reduce((a, b, i) => (labels[i] < 0 ? a : Math.min(a, b)), 0);
    return {
      data: data.filter(Boolean),
      layout: layoutOf(
        colors,
        {
          title: "cluster", tickvals: named.map(([at]) => at), ticktext: named.map(([, k]) => k),
          showgrid: false, range: [-apart, at], ...(wordy ? { tickangle: 0 } : {}),
        },
        { range: [1.05 * lowest, 1.02], dtick: 0.25, tickformat: ".2f" },
      ),
    };
  },

  inertia(page, colors) {
    const data = page.scan.flatMap(({ cells }, number) => {
      const { color, name } = scanLine(page.scan, number, colors);
      const known = cells.filter((cell) => cell.lower !== null);
      const x = known.map((cell) => cell.k);
      const bends = cells.filter((cell) => cell.elbow);
      return [
        line(x, known.map((cell) => cell.lower), { color, width: 1.5, dash: "dash" }, {
          // A line needs two points.
          mode: known.length === 1 ? "markers" : "lines",
          marker: { symbol: "line-ew-open", size: 14, color },
          name: "lower bound", showlegend: number === 0, legendrank: 2000,
          ...hover("K = %{x}<br>no clustering below %{y:.6~g}"),
        }),
        line(x, known.map((cell) => cell.inertia), { color, width: 0 }, {
          fill: "tonexty", fillcolor: `${color}33`, hoverinfo: "skip", showlegend: false,
        }),
        line(cells.map((cell) => cell.k), cells.map((cell) => cell.inertia), { color, size: 6 }, {
          name, ...hover(`K = %{x}<br>${name} %{y:.6~g}`),
        }),
        line(bends.map((cell) => cell.k), bends.map((cell) => cell.inertia), { color }, {
          mode: "markers", marker: { symbol: "circle-open", size: 15, color, line: { width: 2 } },
          name: "elbow", hoverinfo: "skip", showlegend: number === 0 && bends.length > 0,
        }),
      ];
    });
    return { data, layout: layoutOf(colors, axisOfK(page), SUMS, LEGEND_ABOVE) };
  },

  silhouette(page, colors) {
    const { scan } = page;
    const several = scan.map(({ cells }) => cells.filter((cell) => cell.silhouette !== null));
    if (several.every((cells) => !cells.length)) {
      return { text: "The silhouette needs two clusters." };
    }
    return {
      data: several.map((cells, number) => {
        const { color, name } = scanLine(scan, number, colors);
        const [x, y] = [cells.map((cell) => cell.k), cells.map((cell) => cell.silhouette)];
        return line(x, y, { color, size: 6 }, {
          name, ...hover("K = %{x}<br>silhouette %{y:.3f}"),
        });
      }),
      layout: layoutOf(
        colors,
        axisOfK(page),
        {
          tickformat: ".2f", nticks: 6, ...(scan[0].cells.length === 1 ? { range: [0, 1] } : {}),
        },
        scan.length > 1 ? LEGEND_ABOVE : {},
      ),
    };
  },

  trimming({ scan, named }, colors) {
    const x = scan.map(({ alpha }) => alpha);
    return {
      data: scan[0].cells.map(({ k }, i) =>
        line(x, scan.map(({ cells }) => cells[i].inertia), {
          color: colors.accent, width: 1.5, size: 5,
        }, {
          mode: "lines+markers+text", cliponaxis: false, textposition: "middle right",
          text: scan.map((_, j) => (j === scan.length - 1 && named.includes(i) ? ` ${k}` : "")),
          ...hover(`K = ${k}, trimmed %{x:.1%}<br>inertia %{y:.6~g}`),
        }),
      ),
      layout: layoutOf(
        colors,
        { title: "trimmed fraction", tickformat: "~%" },
        SUMS,
        { margin: { l: 52, r: 30, t: 8, b: 44 } },
      ),
    };
  },
};

/** Draw one chart, or show its text if it would be empty. */
function draw(place, page, colors) {
  const chart = CHARTS[place.dataset.chart](page, colors, place);
  if (chart.text) {
    place.classList.add("nothing");
    place.removeAttribute("role");
    place.textContent = chart.text;
    return;
  }
  // In print, a chart cannot wait until it knows its size.
  const size = onPaper() ? { width: place.clientWidth, height: place.clientHeight } : {};
  Plotly.react(place, chart.data, { ...chart.layout, ...size }, OPTIONS);
}
