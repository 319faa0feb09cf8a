// The charts, each a function from the page's data and colors to what plotly draws.

const ARRAYS = {
  u1: Uint8Array, u2: Uint16Array, u4: Uint32Array, i4: Int32Array,
  f4: Float32Array, f8: Float64Array,
};

/** Return a list as it is, and a long one from its bytes. */
function unpacked(list) {
  if (Array.isArray(list)) return list;
  const text = atob(list.bytes);
  const bytes = Uint8Array.from(text, (sign) => sign.charCodeAt(0));
  return new ARRAYS[list.kind](bytes.buffer);
}

/** The colors of the moment: those of the page's variables. */
function currentColors(nClusters) {
  const style = getComputedStyle(document.documentElement);
  const color = (name) => style.getPropertyValue(`--${name}`).trim();
  const colors = { clusters: Array.from({ length: nClusters }, (_, k) => color(`k${k}`)) };
  for (const name of ["ink", "soft", "paper", "band", "line", "accent", "bound", "out"]) {
    colors[name] = color(name);
  }
  return colors;
}

const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", sans-serif';
const TOUCH = matchMedia("(pointer: coarse)").matches;
const OPTIONS = {
  displaylogo: false,
  displayModeBar: TOUCH ? false : "hover",
  responsive: true,
  // By default there is a button that uploads the chart. A page goes nowhere by itself.
  showSendToCloud: false,
  plotlyServerURL: "",
  modeBarButtons: [["toImage"], ["zoom2d", "pan2d"], ["resetScale2d"]],
};

/** Whether what is drawn now goes on paper. */
const onPaper = () => document.documentElement.dataset.theme === "print";
const fontSize = () => (onPaper() ? 10 : 12);

function axis(colors, title, more = {}) {
  return {
    title: { text: title, standoff: 8, font: { size: fontSize(), color: colors.soft } },
    color: colors.soft,
    gridcolor: colors.line,
    linecolor: colors.line,
    zeroline: false,
    tickfont: { size: fontSize() },
    automargin: true,
    ...more,
  };
}

function layoutOf(colors, xaxis, yaxis, more = {}) {
  return {
    font: { family: FONT, size: fontSize(), color: colors.ink },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    margin: { l: 52, r: 12, t: 8, b: 44 },
    // A finger that scrolls must not zoom.
    dragmode: TOUCH ? false : "zoom",
    hoverlabel: { bgcolor: colors.paper, bordercolor: colors.line, font: { color: colors.ink } },
    modebar: { bgcolor: "rgba(0,0,0,0)", color: colors.line, activecolor: colors.soft },
    showlegend: false,
    // Where the reader has zoomed to survives a change of colors.
    uirevision: "kept",
    xaxis,
    yaxis,
    ...more,
  };
}

const LEGEND_ABOVE = {
  showlegend: true,
  legend: { orientation: "h", x: 0, y: 1, yanchor: "bottom", bgcolor: "rgba(0,0,0,0)" },
};

/** Ticks 1, 2, 5, 10, ... of a logarithmic axis of iterations. */
function iterationTicks(last) {
  const ticks = [];
  for (let unit = 1; unit <= last; unit *= 10) {
    for (const m of [1, 2, 5]) if (m * unit <= Math.max(2, last)) ticks.push(m * unit);
  }
  return ticks;
}

/** Whole numbers on an axis of iterations, however short. */
function wholeTicks({ iteration }) {
  return iteration.length <= 8 ? { dtick: 1 } : { tickformat: ",d", nticks: 7 };
}

/** The color and the name of each trimmed share of a scan. */
function scanLine(scan, number, colors) {
  if (scan.length === 1) return { color: colors.accent, name: "found" };
  const { alpha } = scan[number];
  const name = alpha ? `${figures(100 * alpha, 3)}% trimmed` : "untrimmed";
  return { color: colors.clusters[number], name };
}

/** The axis of K: whole numbers alone, and room around a single one. */
function axisOfK(colors, { scan, ticks }) {
  const counts = scan[0].cells.map((cell) => cell.k);
  const room = counts.length === 1 ? { range: [counts[0] - 1, counts[0] + 1] } : {};
  return axis(colors, "number of clusters K", { tickvals: ticks, ...room });
}

/** An axis of sums of squares, from 0: large and small ones as powers of ten. */
const SUMS = { rangemode: "tozero", exponentformat: "power", minexponent: 5 };

/** Which of some falling values have room for a name: the ends, then those between. */
function apart(values, least) {
  const last = values.length - 1;
  const named = [0];
  values.forEach((value, place) => {
    const before = values[named.at(-1)] - value;
    if (before >= least && (value - values[last] >= least || place === last)) named.push(place);
  });
  return new Set(named);
}

/** A name with the unit of what it names, where it has one. */
const inUnit = (name, unit) => (unit ? `${name} in ${unit}`.trim() : name);

/** What is said instead of a chart that would be empty. */
const nothing = (text) => ({ text });

const CHARTS = {
  gap({ trace, unit }, colors) {
    const positive = trace.gap.map((gap) => (gap > 0 ? gap : null));
    if (positive.every((gap) => gap === null)) {
      return nothing("The gap is 0 from the first step: no point is closer to another center.");
    }
    const ends = trace.gap.at(-1) === 0 ? "gap, then 0" : "gap";
    const smallest = trace.smallest.map((gap) => (gap > 0 ? gap : null));
    const guaranteed = trace.guaranteed.map((bound) => (bound > 0 ? bound : null));
    const ticks = iterationTicks(trace.iteration.at(-1));
    const values = [...positive, ...guaranteed].filter((value) => value !== null);
    const decades = Math.log10(Math.max(...values) / Math.min(...values));
    return {
      data: [
        {
          x: trace.iteration, y: guaranteed, name: "guaranteed",
          mode: "lines", line: { color: colors.bound, width: 2, dash: "dash" },
          hovertemplate: "guaranteed below %{y:.4~g}<extra></extra>",
        },
        {
          x: trace.iteration, y: smallest, name: "smallest so far", mode: "lines",
          line: { color: colors.accent, width: 1, dash: "dot", shape: "hv" }, hoverinfo: "skip",
        },
        {
          x: trace.iteration, y: positive, name: ends,
          mode: "lines+markers", line: { color: colors.accent, width: 2 }, marker: { size: 5 },
          hovertemplate: "iteration %{x}<br>gap %{y:.4~g}<extra></extra>",
        },
      ],
      layout: layoutOf(
        colors,
        axis(colors, "iteration", { type: "log", tickvals: ticks, ticktext: ticks.map(String) }),
        axis(colors, inUnit("", unit), {
          type: "log", exponentformat: "power", dtick: Math.max(1, Math.ceil(decades / 6)),
        }),
        LEGEND_ABOVE,
      ),
    };
  },

  sse({ trace, unit }, colors) {
    if (trace.sse.length < 2) {
      return nothing(`Constant at ${figures(trace.sse[0], 6)}${inUnit(",", unit)}.`);
    }
    const data = [
      {
        x: trace.iteration, y: trace.sse, name: "inertia", mode: "lines+markers",
        line: { color: colors.accent, width: 2 }, marker: { size: 5 },
        hovertemplate: "iteration %{x}<br>inertia %{y:.6~g}<extra></extra>",
      },
    ];
    if (trace.lower_bound !== null) {
      data.push({
        x: [1, trace.iteration.at(-1)], y: [trace.lower_bound, trace.lower_bound],
        name: "lower bound", mode: "lines",
        line: { color: colors.bound, width: 2, dash: "dash" },
        hovertemplate: "no clustering below %{y:.6~g}<extra></extra>",
      });
    }
    return {
      data,
      layout: layoutOf(
        colors,
        axis(colors, "iteration", wholeTicks(trace)),
        axis(colors, inUnit("", unit), { ...SUMS, rangemode: "normal" }),
        trace.lower_bound !== null ? LEGEND_ABOVE : {},
      ),
    };
  },

  moved({ trace }, colors) {
    if (!trace.moved.some((moved) => moved > 0)) return nothing("No point changed cluster.");
    return {
      data: [
        {
          type: "bar", x: trace.iteration, y: trace.moved, marker: { color: colors.accent },
          hovertemplate: "iteration %{x}<br>%{y:,} points<extra></extra>",
        },
      ],
      layout: layoutOf(
        colors,
        axis(colors, "iteration", { ...wholeTicks(trace), showgrid: false }),
        axis(colors, "", {
          tickformat: ",d", rangemode: "tozero",
          ...(Math.max(...trace.moved) <= 5 ? { dtick: 1 } : { nticks: 6 }),
        }),
        { bargap: trace.iteration.length > 100 ? 0 : 0.25 },
      ),
    };
  },

  sizes({ shares, points, n_clusters: n }, colors) {
    return {
      data: [
        {
          type: "bar", x: shares.map((_, k) => k), y: shares, customdata: points,
          marker: { color: colors.clusters }, cliponaxis: false,
          texttemplate: n <= 20 ? "%{y:.1%}" : "", textposition: "outside", constraintext: "none",
          hovertemplate: "cluster %{x}<br>%{customdata:,} points, %{y:.1%}<extra></extra>",
        },
      ],
      layout: layoutOf(
        colors,
        axis(colors, "cluster", { showgrid: false, ...(n <= 30 ? { dtick: 1 } : { nticks: 12 }) }),
        axis(colors, "", { tickformat: "~%", nticks: 5, rangemode: "tozero" }),
        { bargap: n > 60 ? 0.05 : 0.25 },
      ),
    };
  },

  margins(page, colors) {
    const values = unpacked(page.margins);
    const labels = unpacked(page.map.labels);
    const data = [];
    const ticks = { vals: [], text: [] };
    // Clusters stand side by side, a little apart.
    const apart = Math.max(1, values.length / 150 / Math.max(1, page.n_clusters / 15));
    let place = 0;
    for (let k = 0; k < page.n_clusters; k++) {
      const own = [];
      labels.forEach((label, i) => label === k && own.push(values[i]));
      if (!own.length) continue;
      own.sort((a, b) => b - a);
      const mean = own.reduce((sum, value) => sum + value, 0) / own.length;
      data.push({
        x: [...own.map((_, i) => place + i), place + own.length], y: [...own, own.at(-1)],
        mode: "lines", fill: "tozeroy", line: { width: 0, shape: "hv", color: colors.clusters[k] },
        fillcolor: colors.clusters[k], hoveron: "points", meta: k,
        hovertemplate: `cluster ${k}<br>margin %{y:.2f}; mean ${mean.toFixed(2)}<extra></extra>`,
      });
      ticks.vals.push(place + own.length / 2);
      ticks.text.push(String(k));
      place += own.length + apart;
    }
    const every = Math.ceil(ticks.vals.length / 30);
    const some = (list) => list.filter((_, i) => i % every === 0);
    return {
      data,
      layout: layoutOf(
        colors,
        axis(colors, "cluster", {
          tickvals: some(ticks.vals), ticktext: some(ticks.text), showgrid: false,
          range: [-apart, place],
        }),
        axis(colors, "", { range: [0, 1.02], dtick: 0.25, tickformat: ".2f" }),
      ),
    };
  },

  inertia(page, colors) {
    const { scan } = page;
    const data = scan.flatMap(({ cells }, number) => {
      const { color, name } = scanLine(scan, number, colors);
      const x = cells.map((cell) => cell.k);
      const known = cells.filter((cell) => cell.lower !== null);
      return [
        {
          x: known.map((cell) => cell.k), y: known.map((cell) => cell.lower),
          // A line needs two points.
          mode: known.length === 1 ? "markers" : "lines",
          marker: { symbol: "line-ew-open", size: 14, color },
          line: { color, width: 1.5, dash: "dash" }, name: "lower bound",
          showlegend: number === 0, legendrank: 2000,
          hovertemplate: "K = %{x}<br>no clustering below %{y:.6~g}<extra></extra>",
        },
        {
          x: known.map((cell) => cell.k), y: known.map((cell) => cell.inertia), mode: "lines",
          line: { width: 0, color }, fill: "tonexty", fillcolor: `${color}33`,
          hoverinfo: "skip", showlegend: false,
        },
        {
          x, y: cells.map((cell) => cell.inertia), mode: "lines+markers", name,
          line: { color, width: 2 }, marker: { size: 6 },
          hovertemplate: `K = %{x}<br>${name} %{y:.6~g}<extra></extra>`,
        },
      ];
    });
    return {
      data,
      layout: layoutOf(
        colors,
        axisOfK(colors, page),
        axis(colors, "", SUMS),
        { ...LEGEND_ABOVE, legend: { ...LEGEND_ABOVE.legend, traceorder: "normal" } },
      ),
    };
  },

  silhouette(page, colors) {
    const { scan } = page;
    const several = scan.map(({ cells }) => cells.filter((cell) => cell.silhouette !== null));
    if (several.every((cells) => !cells.length)) return nothing("The silhouette needs two clusters.");
    return {
      data: several.map((cells, number) => ({
        x: cells.map((cell) => cell.k), y: cells.map((cell) => cell.silhouette),
        mode: "lines+markers", name: scanLine(scan, number, colors).name,
        line: { color: scanLine(scan, number, colors).color, width: 2 }, marker: { size: 6 },
        hovertemplate: "K = %{x}<br>silhouette %{y:.3f}<extra></extra>",
      })),
      layout: layoutOf(
        colors,
        axisOfK(colors, page),
        axis(colors, "", {
          tickformat: ".2f", nticks: 6, ...(scan[0].cells.length === 1 ? { range: [0, 1] } : {}),
        }),
        scan.length > 1 ? LEGEND_ABOVE : {},
      ),
    };
  },

  trimming({ scan }, colors) {
    const counts = scan[0].cells.map((cell) => cell.k);
    const ends = scan.at(-1).cells.map((cell) => cell.inertia);
    const named = apart(ends, 0.07 * Math.max(...scan[0].cells.map((cell) => cell.inertia)));
    return {
      data: counts.map((k, i) => ({
        x: scan.map(({ alpha }) => alpha), y: scan.map(({ cells }) => cells[i].inertia),
        mode: "lines+markers+text", line: { color: colors.accent, width: 1.5 },
        marker: { size: 5 }, cliponaxis: false, textposition: "middle right",
        text: scan.map((_, j) => (j === scan.length - 1 && named.has(i) ? ` ${k}` : "")),
        hovertemplate: `K = ${k}, trimmed %{x:.1%}<br>inertia %{y:.6~g}<extra></extra>`,
      })),
      layout: layoutOf(
        colors,
        axis(colors, "trimmed fraction", { tickformat: "~%" }),
        axis(colors, "", SUMS),
        { margin: { l: 52, r: 30, t: 8, b: 44 } },
      ),
    };
  },
};

/** Draw one chart into its place, or say why there is nothing to draw. */
function draw(place, page, colors) {
  const chart = CHARTS[place.dataset.chart](page, colors);
  if (chart.text) {
    place.classList.add("nothing");
    place.removeAttribute("role");
    place.textContent = chart.text;
    return null;
  }
  // Paper does not wait for a chart to find out its size.
  const size = onPaper() ? { width: place.clientWidth, height: place.clientHeight } : {};
  return Plotly.react(place, chart.data, { ...chart.layout, ...size }, OPTIONS);
}
