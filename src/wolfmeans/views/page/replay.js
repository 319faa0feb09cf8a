// The map, on which a slider replays the run: centers with their tails, points in the colors of
// their clusters, rings around those that have just moved.

// Above so many, numbers would cover what they name.
const NUMBERED = 80;

// Centers so near to each other, in pixels, would hide each other's numbers.
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
    this.shown = this.frames.length - 1;
    this.chosen = null;
  }

  get last() {
    return this.frames.length - 1;
  }

  /** What is seen at first: all kept points. Others, and centers of empty clusters, may be far. */
  range() {
    const { labels } = this.frames[this.last];
    return [this.x, this.y].map((values) => {
      const kept = Array.from(values).filter((_, i) => labels[i] >= 0);
      const low = kept.reduce((a, b) => Math.min(a, b), Infinity);
      const high = kept.reduce((a, b) => Math.max(a, b), -Infinity);
      const air = 0.05 * (high - low) || 1;
      return [low - air, high + air];
    });
  }

  /** How many points that are left out cannot be seen at first. */
  outside() {
    const [[left, right], [low, high]] = this.range();
    const seen = (x, y) => left <= x && x <= right && low <= y && y <= high;
    return this.frames[this.last].labels.filter((_, i) => !seen(this.x[i], this.y[i])).length;
  }

  /** Whether both axes have the same scale, as they should unless one of them hardly shows then. */
  trueToScale() {
    const [x, y] = this.range().map(([low, high]) => high - low);
    return y < 1.5 * x && x < 4 * y;
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

  /** What is said about the points under the pointer. */
  clusterNames() {
    return this.frames[this.shown].labels.map((k) => (k < 0 ? "left out" : `cluster ${k}`));
  }

  moved() {
    const { changed: all, labels } = this.frames[this.shown];
    const changed = all.filter((i) => this.chosen === null || labels[i] === this.chosen);
    return { x: changed.map((i) => this.x[i]), y: changed.map((i) => this.y[i]) };
  }

  /** Few rings are strong; many would hide the points. */
  ringOpacity() {
    return Math.min(0.9, Math.max(0.25, 150 / this.frames[this.shown].changed.length));
  }

  /** The paths of the centers up to the frame that is shown, with breaks between them. */
  tails() {
    const x = [];
    const y = [];
    for (let k = 0; k < this.nClusters; k++) {
      for (let f = 0; f <= this.shown; f++) {
        x.push(this.frames[f].centers[2 * k]);
        y.push(this.frames[f].centers[2 * k + 1]);
      }
      x.push(null);
      y.push(null);
    }
    return { x, y };
  }

  /** Pixels that a unit of each axis takes before anybody zooms, roughly. */
  pixels() {
    const [x, y] = this.range().map(([low, high]) => high - low);
    const across = Math.max(1, this.place.clientWidth - 70) / x;
    const down = Math.max(1, this.place.clientHeight - 60) / y;
    return this.trueToScale() ? Array(2).fill(Math.min(across, down)) : [across, down];
  }

  /** Where the number of each center stands: beside it where a larger cluster's is above it. */
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

  /** The centers, each drawn for itself: a circle covers what is under it. */
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
      hovertemplate: "center of cluster %{text}<extra></extra>",
    }));
  }

  chart(colors) {
    const size = this.x.length > 1000 ? 5 : 7;
    const [xrange, yrange] = this.range();
    const unit = this.power ? `, in 10<sup>${this.power}</sup>` : "";
    const share = (i) => `component ${i + 1} (${(100 * this.explained[i]).toFixed(0)}%)${unit}`;
    return {
      data: [
        {
          x: this.x, y: this.y, mode: "markers",
          customdata: Array.from(this.rows, (row, i) => [row, this.margins[i]]),
          marker: { size, ...this.pointStyle(colors) },
          text: this.clusterNames(),
          hovertemplate:
            "row %{customdata[0]}, %{text}<br>margin %{customdata[1]:.2f}<extra></extra>",
        },
        {
          ...this.moved(), mode: "markers", hoverinfo: "skip",
          opacity: this.ringOpacity(),
          marker: {
            size: size + 5, symbol: "circle-open", color: colors.ink, line: { width: 1.25 },
          },
        },
        {
          ...this.tails(), mode: "lines", hoverinfo: "skip",
          line: { color: colors.ink, width: 1.5 }, opacity: 0.65,
        },
        ...this.centers(colors),
      ],
      layout: layoutOf(
        colors,
        axis(colors, share(0), { range: xrange, showgrid: false, nticks: 6, ticks: "outside" }),
        axis(colors, share(1), {
          range: yrange, showgrid: false, nticks: 6, ticks: "outside",
          ...(this.trueToScale() ? { scaleanchor: "x" } : {}),
        }),
        { hovermode: "closest", dragmode: TOUCH ? false : "pan" },
      ),
    };
  }

  /** Show another frame, or the same in another way: all changes at once, for one drawing. */
  update(place, colors) {
    const [points, moved, tails, ...centers] = place.data;
    Object.assign(points.marker, this.pointStyle(colors));
    points.text = this.clusterNames();
    Object.assign(moved, this.moved(), { opacity: this.ringOpacity() });
    Object.assign(tails, this.tails());
    this.centers(colors).forEach((center, i) => Object.assign(centers[i], center));
    Plotly.redraw(place);
  }
}

/** Slider, play button, readout and the clusters to choose from, beside the map. */
class Panel {
  constructor(page, replay, place) {
    Object.assign(this, { page, replay, place, timer: null });
    this.box = place.closest(".replay").querySelector(".panel");
    this.box.hidden = false;
    if (replay.replayed) this.addSteps();
    if (replay.nClusters > 1) this.addChips();
    const caption = place.parentElement.querySelector("figcaption");
    const outside = replay.outside();
    if (outside) caption.append(` ${outside} of them are out of view; double-click to show them.`);
    if (!replay.trueToScale()) caption.append(" The axes have different scales.");
    if (!this.box.childNodes.length) this.box.hidden = true;
  }

  addSteps() {
    this.play = element("button", { type: "button", className: "play" }, "▶ Play");
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
    this.play.addEventListener("click", () => (this.timer === null ? this.start() : this.stop()));
    if (this.replay.last === 0) {
      this.play.disabled = this.slider.disabled = true;
    }
    this.read();
  }

  addChips() {
    const chips = element("div", {
      className: "chips", role: "group", "aria-label": "Highlight a cluster",
    });
    this.page.shares.forEach((share, k) => {
      const chip = element(
        "button",
        { type: "button", "aria-pressed": "false", title: `Highlight cluster ${k}` },
        element("i", { className: "swatch", style: `--c:var(--k${k})` }),
        `${k}`,
      );
      chip.addEventListener("click", () => {
        this.replay.chosen = this.replay.chosen === k ? null : k;
        [...chips.children].forEach((other, j) =>
          other.setAttribute("aria-pressed", String(this.replay.chosen === j)),
        );
        this.show(this.replay.shown);
      });
      chips.append(chip);
    });
    this.box.append(element("h3", { className: "chips-title" }, "Highlight a cluster"), chips);
  }

  show(frame) {
    this.replay.shown = frame;
    if (this.slider) {
      this.slider.value = frame;
      this.read();
    }
    this.replay.update(this.place, currentColors(this.replay.nClusters));
  }

  read() {
    const frame = this.replay.frames[this.replay.shown];
    const facts = [
      [inUnit("inertia", this.page.unit), figures(frame.sse, 7)],
      [inUnit("gap", this.page.unit), frame.gap === null ? "–" : figures(frame.gap, 4)],
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
    // Eight seconds for a long run, and time to look at each step of a short one.
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
