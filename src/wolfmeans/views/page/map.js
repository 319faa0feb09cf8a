// The map: points in the colors of their clusters or of a column, centers with their paths, and a
// slider that replays the run. The reader chooses axes and colors.

// With more clusters, numbers would cover the centers.
const NUMBERED = 80;

// Centers closer than this many pixels would hide each other's numbers.
const NEAR = 15;
const SIDES = ["middle left", "middle right", "top center", "bottom center"];

// Columns whose values a point shows under the pointer.
const HOVERED = 8;

const isNumber = (name) => /^-?\d+$/.test(name);

/** The middle of some numbers, by size. */
function middle(values) {
  const known = values.filter((value) => Number.isFinite(value)).sort((a, b) => a - b);
  return known.length ? known[known.length >> 1] : NaN;
}

class Replay {
  constructor(page, place) {
    const { map } = page;
    this.page = page;
    this.place = place;
    this.nClusters = page.n_clusters;
    this.margins = unpacked(page.margins);
    this.power = map.power;
    // Where centers overlap, those of larger clusters are above.
    this.order = [...page.by_size].reverse();
    this.wordy = !page.names.every(isNumber);
    const last = { centers: map.centers, title: "result", rows: [], labels: [] };
    const { labels, frames } = map.replay || { labels: map.labels, frames: [last] };
    this.replayed = Boolean(map.replay);
    let before = Array.from(unpacked(labels));
    this.frames = frames.map((frame) => {
      const changed = Array.from(unpacked(frame.rows));
      const own = before.slice();
      unpacked(frame.labels).forEach((label, i) => (own[changed[i]] = label));
      before = own;
      return { ...frame, centers: Array.from(unpacked(frame.centers)), changed, labels: own };
    });
    this.labels = before;
    this.leftOut = before.includes(-1);
    this.last = this.shown = this.frames.length - 1;
    this.chosen = null;
    this.views = this.allAxes();
    this.nonlinear = this.placesOf(map.nonlinear);
    this.hovered = this.textsOfRows();
    this.colorings = this.allColorings();
    // Where two components explain little, neighbours are better seen on the nonlinear map.
    this.choose({ nonlinear: Boolean(map.nonlinear), across: 0, up: Math.min(1, this.views.length) });
    this.coloring = page.color ? 1 : 0;
  }

  // --- Axes ------------------------------------------------------------------------------------

  /** What an axis can show: components and columns, each with the places of points and centers. */
  allAxes() {
    const { map, columns } = this.page;
    const unit = this.power ? `, in 10<sup>${this.power}</sup>` : "";
    const component = (i, share, values, centers) => ({
      name: `component ${i + 1} (${(100 * share).toFixed(0)}%)`, unit, values, centers, component: i,
    });
    const final = this.frames[this.last].centers;
    const ends = [0, 1].map((axis) => this.page.names.map((_, k) => final[2 * k + axis]));
    const axes = [
      component(0, map.explained[0], unpacked(map.x), ends[0]),
      component(1, map.explained[1], unpacked(map.y), ends[1]),
    ];
    if (map.further) {
      const [points, centers] = [unpacked(map.further.points), unpacked(map.further.centers)];
      const [m, k] = [axes[0].values.length, this.nClusters];
      map.further.explained.forEach((share, i) =>
        axes.push(component(
          i + 2, share, points.slice(i * m, (i + 1) * m), centers.slice(i * k, (i + 1) * k),
        )),
      );
    }
    for (const column of columns?.list ?? []) {
      axes.push({
        name: column.name, unit: "", values: unpacked(column.values), centers: unpacked(column.means),
      });
    }
    return axes;
  }

  /** The nonlinear map: a name stands in the middle of the points of its cluster. */
  placesOf(nonlinear) {
    if (!nonlinear) return null;
    const axes = [unpacked(nonlinear.x), unpacked(nonlinear.y)].map((values) => Array.from(values));
    return axes.map((values, i) => ({
      name: `${nonlinear.method} ${i + 1}`, unit: "", values,
      centers: this.page.names.map((_, k) => middle(values.filter((_, j) => this.labels[j] === k))),
    }));
  }

  /** Choose the axes. */
  choose(choice) {
    this.choice = { ...this.choice, ...choice };
    const { nonlinear, across, up } = this.choice;
    this.axes = nonlinear ? this.nonlinear : [this.views[across], this.views[up]];
    [this.x, this.y] = this.axes.map(({ values }) => values);
    // At first all kept points are in view. Others, and centers of empty clusters, may be far.
    this.ranges = [this.x, this.y].map((values) => {
      const kept = Array.from(values).filter((v, i) => this.labels[i] >= 0 && Number.isFinite(v));
      const low = kept.reduce((a, b) => Math.min(a, b), Infinity);
      const high = kept.reduce((a, b) => Math.max(a, b), -Infinity);
      const air = 0.05 * (high - low) || 1;
      return [low - air, high + air];
    });
    const [[left, right], [low, high]] = this.ranges;
    const inView = (x, y) => !(x < left || x > right || y < low || y > high);
    this.outside = this.labels.filter((_, i) => !inView(this.x[i], this.y[i])).length;
    // Both axes have the same scale, unless one of them would be very short or has another unit.
    this.sides = [right - left, high - low];
    const [x, y] = this.sides;
    const sameUnit = nonlinear || this.axes.every(({ component }) => component !== undefined);
    this.trueToScale = sameUnit && y < 1.5 * x && x < 4 * y;
    if (!this.isPlane()) this.shown = this.last;
  }

  /** Whether the axes are the first two components, on which the run is replayed. */
  isPlane() {
    const { nonlinear, across, up } = this.choice;
    return !nonlinear && across === 0 && up === 1;
  }

  /** The places of the centers, x and y in turn. */
  centerPlaces() {
    if (this.isPlane()) return this.frames[this.shown].centers;
    const [x, y] = this.axes.map(({ centers }) => centers);
    return this.page.names.flatMap((_, k) => [x[k], y[k]]);
  }

  // --- Points ----------------------------------------------------------------------------------

  /** What the points can be colored by. */
  allColorings() {
    const { color, columns } = this.page;
    const list = [{ name: "cluster" }];
    if (color) list.push({ ...color, values: Array.from(unpacked(color.values)) });
    for (const column of columns?.list ?? []) {
      list.push({ name: column.name, levels: null, values: Array.from(unpacked(column.values)) });
    }
    return list;
  }

  /** The texts of the rows under the pointer: what they are called, and their values. */
  textsOfRows() {
    const { ids, color, columns } = this.page;
    const list = (columns?.list ?? []).slice(0, HOVERED).map((column) => ({
      name: escaped(shortened(column.name, 40)), values: unpacked(column.values),
    }));
    const shade = color && { name: escaped(color.name), values: unpacked(color.values) };
    return Array.from(unpacked(this.page.map.rows), (row, i) => {
      const title = ids ? `${escaped(ids.name)} ${escaped(ids.values[i])}` : `row ${row}`;
      const lines = list.map(({ name, values }) => `<br>${name}: ${figures(values[i])}`);
      if (shade) {
        const value = color.levels ? escaped(color.levels[shade.values[i]]) : figures(shade.values[i]);
        lines.unshift(`<br>${shade.name}: ${value}`);
      }
      return [title, this.margins[i], lines.join("")];
    });
  }

  /** Colors, opacities and signs of the points in the frame that is shown. */
  pointStyle(colors) {
    const { labels } = this.frames[this.shown];
    const chosen = (label) => (label === this.chosen ? 0.9 : 0.1);
    const style = {
      color: labels.map((label) => (label < 0 ? colors.out : colors.clusters[label])),
      opacity: this.chosen === null ? 0.75 : labels.map(chosen),
      symbol: this.leftOut ? labels.map((label) => (label < 0 ? "x" : "circle")) : "circle",
      showscale: false,
    };
    const { name, levels, values } = this.colorings[this.coloring];
    if (!values) return style;
    if (levels) return { ...style, color: values.map((level) => colors.clusters[level]) };
    return {
      ...style,
      color: values.map((value) => (Number.isFinite(value) ? value : null)), colorscale: "Viridis",
      showscale: true,
      colorbar: {
        title: { text: escaped(shortened(name, 24)), side: "right" }, thickness: 10, outlinewidth: 0,
        tickcolor: colors.soft, tickfont: { color: colors.soft }, nticks: 6,
      },
    };
  }

  /** Rings around the points that moved: strong if they are few; many would hide the points. */
  rings(size, color) {
    const { changed: moved, labels } = this.frames[this.shown];
    const changed = this.isPlane() ? moved : [];
    const shown = changed.filter((i) => this.chosen === null || labels[i] === this.chosen);
    return {
      x: shown.map((i) => this.x[i]), y: shown.map((i) => this.y[i]),
      mode: "markers", hoverinfo: "skip",
      opacity: Math.min(0.9, Math.max(0.25, 150 / changed.length)),
      marker: { size, symbol: "circle-open", color, line: { width: 1.25 } },
    };
  }

  /** The paths of the centers up to the frame that is shown, with breaks between them. */
  paths(color) {
    const frames = this.isPlane() ? this.frames.slice(0, this.shown + 1) : [];
    const along = (axis) =>
      this.order.flatMap((_, k) => [...frames.map(({ centers }) => centers[2 * k + axis]), null]);
    return line(along(0), along(1), { color, width: 1.5 }, { hoverinfo: "skip", opacity: 0.65 });
  }

  /** Roughly the pixels of a unit of each axis, before any zoom. */
  pixels() {
    const [x, y] = this.sides;
    const across = Math.max(1, this.place.clientWidth - 70) / x;
    const down = Math.max(1, this.place.clientHeight - 60) / y;
    return this.trueToScale ? Array(2).fill(Math.min(across, down)) : [across, down];
  }

  /** The place of each center's number: beside the center if a larger cluster's would cover it. */
  numberPlaces() {
    const centers = this.centerPlaces();
    const [across, down] = this.pixels();
    const places = Array(this.nClusters).fill("middle center");
    const above = [];
    for (const k of [...this.order].reverse()) {
      const away = (j) => [
        (centers[2 * k] - centers[2 * j]) * across, (centers[2 * k + 1] - centers[2 * j + 1]) * down,
      ];
      const near = above.filter((j) => Math.hypot(...away(j)) < NEAR);
      if (near.length) {
        const [x, y] = away(near[0]);
        const wish = Math.abs(x) >= Math.abs(y) ? SIDES[x > 0 ? 1 : 0] : SIDES[y > 0 ? 2 : 3];
        const taken = near.map((j) => places[j]);
        places[k] = [wish, ...SIDES].find((side) => !taken.includes(side)) ?? wish;
      }
      above.push(k);
    }
    return places;
  }

  /** The centers, each a trace of its own, so that circles cover those below them. */
  centers(colors) {
    const centers = this.centerPlaces();
    const places = this.wordy ? [] : this.numberPlaces();
    const numbered = this.nClusters <= (this.wordy ? 40 : NUMBERED);
    const crowded = this.nClusters > 30;
    // Without its name, the middle of some points says nothing.
    if (!numbered && this.choice.nonlinear) return [];
    const size = this.wordy ? 11 : numbered ? (crowded ? 16 : 22) : 9;
    // Other colors than those of the clusters are for the points alone.
    const ring = (k) => (this.coloring ? colors.ink : colors.clusters[k]);
    return (numbered ? this.order.map((k) => [k]) : [this.order]).map((clusters) => ({
      x: clusters.map((k) => centers[2 * k]),
      y: clusters.map((k) => centers[2 * k + 1]),
      text: clusters.map((k) => escaped(shortened(this.page.names[k], 18))),
      customdata: clusters.map((k) => escaped(called(this.page, k))),
      mode: numbered ? "markers+text" : "markers",
      textposition: clusters.map((k) => places[k] ?? "top center"),
      textfont: { size: crowded ? 9 : 12, color: colors.ink },
      marker: {
        size, color: colors.paper,
        line: { width: crowded ? 2 : 3, color: clusters.map(ring) },
      },
      cliponaxis: false,
      ...hover(this.choice.nonlinear ? "%{customdata}" : "center of %{customdata}"),
    }));
  }

  chart(colors) {
    const size = this.x.length > 1000 ? 5 : 7;
    const { labels } = this.frames[this.shown];
    const bent = this.choice.nonlinear;
    const axis = (i) => ({
      title: `${escaped(shortened(this.axes[i].name, 60))}${this.axes[i].unit}`,
      range: this.ranges[i], showgrid: false, nticks: 6, ticks: bent ? "" : "outside",
      showticklabels: !bent,
    });
    const points = {
      x: this.x, y: this.y, mode: "markers", customdata: this.hovered,
      marker: { size, ...this.pointStyle(colors) },
      text: labels.map((k) => (k < 0 ? "left out" : escaped(called(this.page, k)))),
      ...hover("<b>%{customdata[0]}</b><br>%{text}, margin %{customdata[1]:.2f}%{customdata[2]}"),
    };
    return {
      data: [
        points, this.rings(size + 5, colors.ink), this.paths(colors.ink), ...this.centers(colors),
      ],
      layout: layoutOf(
        colors,
        axis(0),
        { ...axis(1), ...(this.trueToScale ? { scaleanchor: "x" } : {}) },
        {
          hovermode: "closest", dragmode: TOUCH ? false : "pan",
          // Another view begins with all points.
          uirevision: JSON.stringify(this.choice),
        },
      ),
    };
  }
}

/** Slider, play button, readout and the clusters to choose from, beside the map. */
class Panel {
  constructor(page, replay, place) {
    Object.assign(this, { page, replay, place, timer: null });
    this.box = place.closest(".replay").querySelector(".panel");
    this.caption = place.parentElement.querySelector("figcaption");
    this.addChoices();
    if (replay.replayed) this.addSteps();
    if (replay.nClusters > 1) this.addChips();
    this.box.hidden = !this.box.childNodes.length;
    this.viewChanged();
  }

  /** A list to choose from; `groups` are [title, [[value, name], ...]]. */
  list(name, groups, chosen, onchange) {
    const select = element("select", { "aria-label": name });
    for (const [title, options] of groups) {
      if (!options.length) continue;
      const group = element("optgroup", { label: title });
      for (const [value, text] of options) {
        group.append(element("option", { value, selected: value === chosen }, shortened(text, 40)));
      }
      select.append(group);
    }
    select.addEventListener("change", () => onchange(Number(select.value)));
    return element("label", { className: `choice ${name.toLowerCase()}` }, `${name} `, select);
  }

  /** Lists for axes and colors. */
  addChoices() {
    const { replay } = this;
    const box = element("div", { className: "choices" });
    const numbered = replay.views.map(({ name }, i) => [i, name]);
    const isComponent = ([i]) => replay.views[i].component !== undefined;
    const groups = [
      ["Principal components", numbered.filter(isComponent)],
      ["Columns", numbered.filter((entry) => !isComponent(entry))],
    ];
    const { across, up } = replay.choice;
    this.axisLists = [
      this.list("Across", groups, across, (i) => this.choose({ across: i })),
      this.list("Up", groups, up, (i) => this.choose({ up: i })),
    ];
    if (replay.nonlinear) {
      const { method } = this.page.map.nonlinear;
      const kinds = [["Map", [[1, method], [0, "components or columns"]]]];
      box.append(this.list("Map", kinds, 1, (i) => this.choose({ nonlinear: i === 1 })));
    }
    box.append(...this.axisLists);
    const list = replay.colorings.map(({ name }, i) => [i, name]);
    const given = this.page.color ? 2 : 1;
    const colors = [["Clusters and labels", list.slice(0, given)], ["Columns", list.slice(given)]];
    box.append(this.list("Color", colors, replay.coloring, (i) => {
      replay.coloring = i;
      this.viewChanged();
    }));
    this.legend = element("div", { className: "legend" });
    box.append(this.legend);
    this.box.append(box);
  }

  choose(choice) {
    this.stop();
    this.replay.choose(choice);
    this.viewChanged();
  }

  /** Draw the map after another choice, and show what belongs to it. */
  viewChanged() {
    const { replay } = this;
    const plane = replay.isPlane();
    for (const list of this.axisLists) list.hidden = replay.choice.nonlinear;
    for (const part of [this.steps, this.readout]) if (part) part.hidden = !plane;
    const { name, levels } = replay.colorings[replay.coloring];
    const entries = (levels ?? []).map((level, i) => {
      const swatch = element("i", { className: "swatch", style: `--c:var(--k${i})` });
      return element("span", {}, swatch, shortened(level, 30));
    });
    this.legend.replaceChildren(...(levels ? [element("b", {}, `${name}:`), ...entries] : []));
    const { captions } = this.page;
    const view = plane ? "plane" : replay.choice.nonlinear ? "nonlinear" : "axes";
    let remark = [captions[view], captions.always].filter(Boolean).join(" ");
    if (replay.outside) {
      const are = replay.outside === 1 ? "is" : "are";
      remark += ` ${replay.outside} of them ${are} out of view; double-click to show them.`;
    }
    if (!replay.trueToScale) remark += " The axes have different scales.";
    if (!plane && replay.replayed) {
      remark += " The run is replayed on the map of components 1 and 2.";
    }
    this.caption.textContent = remark;
    if (plane && this.slider) {
      this.slider.value = replay.shown;
      this.read();
    }
    if (this.place.data) draw(this.place, this.page, currentColors(this.page.n_colors));
  }

  addSteps() {
    const onclick = () => (this.timer === null ? this.start() : this.stop());
    this.play = button({ className: "play", onclick }, "▶ Play");
    this.slider = element("input", {
      type: "range", min: 0, max: this.replay.last, step: 1, value: this.replay.last,
      "aria-label": "Iteration",
    });
    this.readout = element("dl", { className: "readout" });
    this.steps = element("div", { className: "steps" }, this.play, this.slider);
    this.box.append(this.steps, this.readout);
    this.slider.addEventListener("input", () => {
      this.stop();
      this.show(Number(this.slider.value));
    });
    this.play.disabled = this.slider.disabled = this.replay.last === 0;
    this.read();
  }

  addChips() {
    const chips = element("div", {
      className: "chips", role: "group", "aria-label": "Highlight a cluster",
    });
    // Names are found by size, numbers by number.
    const order = this.replay.wordy ? this.page.by_size : this.page.shares.map((_, k) => k);
    order.forEach((k) => {
      const onclick = () => {
        this.replay.chosen = this.replay.chosen === k ? null : k;
        [...chips.children].forEach((chip, j) =>
          chip.setAttribute("aria-pressed", this.replay.chosen === order[j]),
        );
        this.show(this.replay.shown);
      };
      const title = `Highlight ${called(this.page, k)}`;
      const properties = { onclick, "aria-pressed": false, title };
      const swatch = element("i", { className: "swatch", style: `--c:var(--k${k})` });
      chips.append(button(properties, swatch, shortened(this.page.names[k], 30)));
    });
    this.box.append(element("h3", { className: "chips-title" }, "Highlight a cluster"), chips);
  }

  show(frame) {
    this.replay.shown = frame;
    if (this.slider) {
      this.slider.value = frame;
      this.read();
    }
    const { data } = this.replay.chart(currentColors(this.page.n_colors));
    data.forEach((trace, i) => Object.assign(this.place.data[i], trace));
    // Unlike Plotly.react, this keeps the reader's view where both axes have the same scale.
    Plotly.redraw(this.place);
  }

  read() {
    const frame = this.replay.frames[this.replay.shown];
    const facts = [
      [inUnit("inertia", this.page.unit), figures(frame.sse, 7)],
      [inUnit("gap", this.page.unit), figures(frame.gap, 4)],
      ["points that moved", this.replay.shown === 0 ? "–" : frame.moved.toLocaleString("en")],
    ];
    this.readout.replaceChildren(element("dd", { className: "title" }, frame.title));
    for (const [name, value] of facts) {
      this.readout.append(element("dt", {}, name), element("dd", {}, value));
    }
    this.slider.setAttribute("aria-valuetext", `${frame.title}, inertia ${facts[0][1]}`);
  }

  start() {
    const { last } = this.replay;
    if (this.replay.shown === last) this.show(0);
    this.play.textContent = "❚❚ Pause";
    // A long run takes eight seconds; a short one pauses at each step.
    const pause = Math.min(700, Math.max(100, 8000 / last));
    const next = () => {
      this.show(this.replay.shown + 1);
      if (this.replay.shown < last) this.timer = setTimeout(next, pause);
      else this.stop();
    };
    this.timer = setTimeout(next, pause);
  }

  stop() {
    if (this.timer === null) return;
    clearTimeout(this.timer);
    this.timer = null;
    this.play.textContent = "▶ Play";
  }
}
