// The distributions of columns by cluster: a panel for each column, a row for each cluster.

// With more clusters, a panel shows those with the highest and the lowest medians.
const MOST_ROWS = 24;
const ENDS = 8;
const PANELS = 6;

/** The bars of a row as the path of a picture that is as wide as there are bars. */
function barsOf(heights) {
  let path = "M0 10";
  heights.forEach((height, i) => (path += `V${(10 - height / 25.5).toFixed(1)}H${i + 1}`));
  return `${path}V10Z`;
}

class Distributions {
  constructor(page, box) {
    this.page = page;
    this.box = box;
    this.columns = page.columns.list.map((column) => ({
      ...column,
      quantiles: unpacked(column.quantiles),
      histograms: unpacked(column.histograms),
      bins: unpacked(column.histograms).length / page.n_clusters,
    }));
    box.classList.toggle("worded", page.names.some((name) => name.length > 4));
    this.shown = PANELS;
    this.draw();
    if (this.columns.length > PANELS) this.addUnfolding();
  }

  addUnfolding() {
    const all = `Show all ${this.columns.length}`;
    const onclick = ({ target }) => {
      this.shown = this.shown === PANELS ? this.columns.length : PANELS;
      target.textContent = this.shown === PANELS ? all : `Show the first ${PANELS}`;
      this.draw();
    };
    const tools = element("div", { className: "tools" });
    tools.append(button({ className: "unfold", onclick }, all));
    this.box.after(tools);
  }

  draw() {
    this.box.innerHTML = this.columns.slice(0, this.shown).map((one) => this.panel(one)).join("");
  }

  /** The clusters of a panel, and after how many of them a gap is. */
  clusters(column) {
    const known = this.page.by_size.filter((k) => Number.isFinite(column.quantiles[5 * k + 2]));
    if (known.length <= MOST_ROWS) return [known, 0];
    const median = (k) => column.quantiles[5 * k + 2];
    const mean = (k) => unpacked(column.means)[k];
    known.sort((a, b) => median(b) - median(a) || mean(b) - mean(a));
    return [[...known.slice(0, ENDS), ...known.slice(-ENDS)], ENDS];
  }

  /** A panel as markup: thousands of parts are parsed faster than made one by one. */
  panel(column) {
    const [clusters, gap] = this.clusters(column);
    const left = this.page.n_clusters - clusters.length;
    const rows = clusters.map((k, i) => {
      const between = gap && i === gap - 1 ? `<p class="soft">… ${left} clusters between …</p>` : "";
      return this.row(column, k) + between;
    });
    const between = `${(100 * column.strength).toFixed(0)}% of the variance lies between clusters`;
    // Whole numbers have a bin each; its middle is the number.
    const half = column.whole ? 0.5 : 0;
    const ends = [column.low + half, column.high - half].map((value) => `<span>${figures(value, 3)}</span>`);
    return (
      `<figure class="panel-of-column"><h3>${escaped(column.name)}</h3>` +
      `<p class="soft">${between}</p>${rows.join("")}` +
      `<div class="ends"><span></span><span class="scale">${ends.join("")}</span></div></figure>`
    );
  }

  row(column, k) {
    const { bins, low, high } = column;
    const heights = Array.from(column.histograms.slice(k * bins, (k + 1) * bins));
    const quantiles = Array.from(column.quantiles.slice(5 * k, 5 * k + 5));
    const name = escaped(called(this.page, k));
    const share = (value) => {
      const width = high / 2 - low / 2;
      return Math.min(100, Math.max(0, width > 0 ? (100 * (value / 2 - low / 2)) / width : 50));
    };
    const [, first, median, third] = quantiles.map(share);
    const [q05, q25, q50, q75, q95] = quantiles.map((value) => figures(value, 3));
    const title =
      `${name}: median ${q50}; half of the points from ${q25} to ${q75}, ` +
      `90% from ${q05} to ${q95}`;
    return (
      `<div class="row" style="--c:var(--k${k})" title="${title}"><span class="name">` +
      `<i class="swatch"></i>${escaped(this.page.names[k])}</span><span class="track">` +
      `<i class="band" style="left:${first.toFixed(1)}%;width:${(third - first).toFixed(1)}%"></i>` +
      `<svg viewBox="0 0 ${bins} 10" preserveAspectRatio="none" aria-hidden="true">` +
      `<path d="${barsOf(heights)}"/></svg>` +
      `<i class="median" style="left:${median.toFixed(1)}%"></i></span></div>`
    );
  }
}
