// The map, on which a slider replays the run: centers with their paths, points in the colors of
// their clusters, rings around those that have just moved.

// With more clusters, numbers would cover the centers.
const NUMBERED = 80;

// Centers closer than this many pixels would hide each other's numbers.
const NEAR = 15;
const SIDES = ["middle left", "middle right", "top center", "bottom center"];

class Replay {
  constructor(page, place) {
    const { map } = page;
    this.place = place;
    this.nClusters = page.n_clusters;
    this.rows = unpacked(map.rows);
    this.x = unpacked(map.x);
    this.y = unpacked(map.y);
    this.margins = unpacked(page.margins);
    this.explained = map.explained;
    this.power = map.power;
    // Where centers overlap, those of larger clusters are above.
    this.order = page.shares.map((_, k) => k).sort((a, b) => page.shares[a] - page.shares[b]);
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
    this.leftOut = before.includes(-1);
    this.last = this.shown = this.frames.length - 1;
    this.chosen = null;
    // At first all kept points are in view. Others, and centers of empty clusters, may be far.
    this.ranges = [this.x, this.y].map((values) => {
      const kept = Array.from(values).filter((_, i) => before[i] >= 0);
      const low = kept.reduce((a, b) => Math.min(a, b), Infinity);
      const high = kept.reduce((a, b) => Math.max(a, b), -Infinity);
      const air = 0.05 * (high - low) || 1;
      return [low - air, high + air];
    });
    const [[left, right], [low, high]] = this.ranges;
    const inView = (x, y) => left <= x && x <= right && low <= y && y <= high;
    this.outside = before.filter((_, i) => !inView(this.x[i], this.y[i])).length;
    // Both axes have the same scale, unless one of them would be very short.
    this.sides = [right - left, high - low];
    const [x, y] = this.sides;
    this.trueToScale = y < 1.5 * x && x < 4 * y;
  }

  /** Colors, opacities and signs of the points in the frame that is shown. */
  pointStyle(colors) {
    const { labels } = this.frames[this.shown];
    const chosen = (label) => (label === this.chosen ? 0.9 : 0.1);
    return {
      color: labels.map((label) => (label < 0 ? colors.out : colors.clusters[label])),
      opacity: this.chosen === null ? 0.75 : labels.map(chosen),
      symbol: this.leftOut ? labels.map((label) => (label < 0 ? "x" : "circle")) : "circle",
    };
  }

  /** Rings around the points that moved: strong if they are few; many would hide the points. */
  rings(size, color) {
    const { changed, labels } = this.frames[this.shown];
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
    const frames = this.frames.slice(0, this.shown + 1);
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
    const { centers } = this.frames[this.shown];
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
    const { centers } = this.frames[this.shown];
    const places = this.numberPlaces();
    const numbered = this.nClusters <= NUMBERED;
    const crowded = this.nClusters > 30;
    return (numbered ? this.order.map((k) => [k]) : [this.order]).map((clusters) => ({
      x: clusters.map((k) => centers[2 * k]),
      y: clusters.map((k) => centers[2 * k + 1]),
      text: clusters.map(String),
      mode: numbered ? "markers+text" : "markers",
      textposition: clusters.map((k) => places[k]),
      textfont: { size: crowded ? 9 : 12, color: colors.ink },
      marker: {
        size: numbered ? (crowded ? 16 : 22) : 9, color: colors.paper,
        line: { width: crowded ? 2 : 3, color: clusters.map((k) => colors.clusters[k]) },
      },
      cliponaxis: false,
      ...hover("center of cluster %{text}"),
    }));
  }

  chart(colors) {
    const size = this.x.length > 1000 ? 5 : 7;
    const { labels } = this.frames[this.shown];
    const unit = this.power ? `, in 10<sup>${this.power}</sup>` : "";
    const axis = (i) => ({
      title: `component ${i + 1} (${(100 * this.explained[i]).toFixed(0)}%)${unit}`,
      range: this.ranges[i], showgrid: false, nticks: 6, ticks: "outside",
    });
    const points = {
      x: this.x, y: this.y, mode: "markers",
      customdata: Array.from(this.rows, (row, i) => [row, this.margins[i]]),
      marker: { size, ...this.pointStyle(colors) },
      text: labels.map((k) => (k < 0 ? "left out" : `cluster ${k}`)),
      ...hover("row %{customdata[0]}, %{text}<br>margin %{customdata[1]:.2f}"),
    };
    return {
      data: [
        points, this.rings(size + 5, colors.ink), this.paths(colors.ink), ...this.centers(colors),
      ],
      layout: layoutOf(
        colors,
        axis(0),
        { ...axis(1), ...(this.trueToScale ? { scaleanchor: "x" } : {}) },
        { hovermode: "closest", dragmode: TOUCH ? false : "pan" },
      ),
    };
  }
}

/** Slider, play button, readout and the clusters to choose from, beside the map. */
class Panel {
  constructor(page, replay, place) {
    Object.assign(this, { page, replay, place, timer: null });
    this.box = place.closest(".replay").querySelector(".panel");
    if (replay.replayed) this.addSteps();
    if (replay.nClusters > 1) this.addChips();
    const caption = place.parentElement.querySelector("figcaption");
    if (replay.outside) {
      caption.append(` ${replay.outside} of them are out of view; double-click to show them.`);
    }
    if (!replay.trueToScale) caption.append(" The axes have different scales.");
    this.box.hidden = !this.box.childNodes.length;
  }

  addSteps() {
    const onclick = () => (this.timer === null ? this.start() : this.stop());
    this.play = button({ className: "play", onclick }, "▶ Play");
    this.slider = element("input", {
      type: "range", min: 0, max: this.replay.last, step: 1, value: this.replay.last,
      "aria-label": "Iteration",
    });
    this.readout = element("dl", { className: "readout" });
    this.box.append(element("div", { className: "steps" }, this.play, this.slider), this.readout);
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
    this.page.shares.forEach((_, k) => {
      const onclick = () => {
        this.replay.chosen = this.replay.chosen === k ? null : k;
        [...chips.children].forEach((chip, j) =>
          chip.setAttribute("aria-pressed", this.replay.chosen === j),
        );
        this.show(this.replay.shown);
      };
      const properties = { onclick, "aria-pressed": false, title: `Highlight cluster ${k}` };
      const swatch = element("i", { className: "swatch", style: `--c:var(--k${k})` });
      chips.append(button(properties, swatch, `${k}`));
    });
    this.box.append(element("h3", { className: "chips-title" }, "Highlight a cluster"), chips);
  }

  show(frame) {
    this.replay.shown = frame;
    if (this.slider) {
      this.slider.value = frame;
      this.read();
    }
    const { data } = this.replay.chart(currentColors(this.replay.nClusters));
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
