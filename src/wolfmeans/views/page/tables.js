// Tables that sort by a click on their header, filter and export as CSV; the profiles' further rows.
"use strict";

/** Make an element with properties and children; texts become text, never markup. */
function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.includes("-") || name === "role") made.setAttribute(name, value);
    else if (name === "style") made.style.cssText = value;
    else made[name] = value;
  }
  made.append(...children);
  return made;
}

const button = (properties, ...children) =>
  element("button", { type: "button", ...properties }, ...children);

/** Compare numbers by size, unknown ones last in both directions, and words by the alphabet. */
function compare(a, b, direction) {
  if (typeof a === "number" && typeof b === "number") {
    if (Number.isNaN(a) || Number.isNaN(b)) return Number.isNaN(a) - Number.isNaN(b);
    return direction * (a - b);
  }
  return direction * String(a).localeCompare(String(b), undefined, { numeric: true });
}

/** Quote a text that contains separators. */
function csvField(value) {
  if (typeof value === "number") return Number.isNaN(value) ? "" : String(value);
  return /[",\r\n]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value;
}

function download(text, name) {
  const address = URL.createObjectURL(new Blob([text], { type: "text/csv;charset=utf-8" }));
  element("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

// More cells at once would keep the reader waiting.
const CELLS_AT_ONCE = 15_000;

/** A table that shows the first rows of an order. */
class Sheet {
  constructor(box) {
    this.box = box;
    this.table = box.querySelector("table");
    [this.body] = this.table.tBodies;
    this.heads = [...this.table.tHead.rows[0].cells];
    this.rows = [...this.body.rows];
    this.first = Number(box.dataset.shown) || Infinity;
    this.shown = this.first;
    this.tools = element("div", { className: "tools" });
  }

  /** Give the table its buttons. */
  prepare() {
    this.order = Array.from({ length: this.total }, (_, i) => i);
    this.heads.forEach((head, column) => this.makeSortable(head, column));
    if (this.total > this.first) {
      this.addFilter();
      this.addUnfolding();
    }
    const onclick = () => download(this.csv(), `${this.box.dataset.name}.csv`);
    this.tools.append(button({ className: "csv", onclick }, "Save as CSV"));
    this.box.append(this.tools);
    const { sorted } = this.box.dataset;
    if (sorted === undefined) this.arrange();
    else this.sort(Number(sorted), -1);
  }

  /** The rows of the order that contain the text of the filter. */
  get matching() {
    return this.wanted ? this.order.filter((i) => this.textOf(i).includes(this.wanted)) : this.order;
  }

  textOf(i) {
    return this.rows[i].textContent.toLowerCase();
  }

  /** A field above the table; rows that contain its text stay. */
  addFilter() {
    this.filter = element("input", {
      type: "search", placeholder: "Filter", "aria-label": `Filter ${this.box.dataset.name}`,
    });
    this.filter.addEventListener("input", () => {
      this.wanted = this.filter.value.trim().toLowerCase();
      this.arrange();
    });
    this.box.prepend(element("div", { className: "tools filter" }, this.filter));
  }

  get total() {
    return this.rows.length;
  }

  /** What row i is sorted by and exported as: the number of its cell, or else its text. */
  value(i, column) {
    const cell = this.rows[i].cells[column];
    const { value } = cell.dataset;
    if (value === undefined) return cell.textContent;
    return value === "" ? NaN : Number(value);
  }

  /** Show the first rows of the order. */
  arrange() {
    this.body.replaceChildren(...this.matching.slice(0, this.shown).map((i) => this.rows[i]));
  }

  sort(column, direction) {
    const values = this.order.map((i) => [i, this.value(i, column)]);
    values.sort(([, a], [, b]) => compare(a, b, direction));
    this.order = values.map(([i]) => i);
    this.heads.forEach((head, j) => {
      const order = j !== column ? "none" : direction > 0 ? "ascending" : "descending";
      head.setAttribute("aria-sort", order);
    });
    this.arrange();
  }

  makeSortable(head, column) {
    head.dataset.name ||= head.textContent;
    head.setAttribute("aria-sort", "none");
    const onclick = () => {
      const before = head.getAttribute("aria-sort");
      // Readers look for the largest numbers first.
      const first = column > 0 && typeof this.value(0, column) === "number" ? -1 : 1;
      this.sort(column, before === "none" ? first : before === "ascending" ? -1 : 1);
    };
    const { name } = head.dataset;
    const ariaLabel = name === head.textContent ? null : name;
    head.append(button({ onclick, ariaLabel }, ...head.childNodes));
  }

  addUnfolding() {
    const step = Math.max(this.first, Math.floor(CELLS_AT_ONCE / this.heads.length));
    const name = () => {
      const left = this.total - this.shown;
      if (left <= 0) return `Show the first ${this.first}`;
      return left <= step ? `Show all ${this.total.toLocaleString("en")}` : `Show ${step} more`;
    };
    const onclick = ({ target }) => {
      this.shown = this.shown >= this.total ? this.first : this.shown + step;
      this.arrange();
      target.textContent = name();
    };
    this.tools.append(button({ className: "unfold", onclick }, name()));
  }

  csv() {
    const lines = [this.heads.map((head) => head.dataset.name)];
    for (const i of this.matching) lines.push(this.heads.map((_, column) => this.value(i, column)));
    return lines.map((line) => line.map(csvField).join(",") + "\r\n").join("");
  }
}

// --- Profiles ----------------------------------------------------------------------------------

/** A number with this many significant digits; as in markup.py. */
function figures(value, digits = 4) {
  if (value === null || !Number.isFinite(value)) return "–";
  if (value === 0) return "0";
  if (value < 0) return "−" + figures(-value, digits);
  const size = Math.floor(Math.log10(value));
  if (size < -5 || size >= 9) return value.toExponential(digits - 2);
  return value.toLocaleString("en", { maximumSignificantDigits: Math.max(digits, size + 1) });
}

function deviationText(value) {
  if (Math.abs(value) < 0.05) return "0";
  return (value > 0 ? "+" : "−") + Math.abs(value).toFixed(1);
}

/** The color of a deviation's cell and its strength in percent; as in markup.py. */
function heatOf(deviation) {
  const side = deviation >= 0 ? "high" : "low";
  const size = Math.abs(deviation);
  return size <= 2 ? [side, 50 * size] : [`${side}er`, Math.min(100, 25 * (size - 2))];
}

/** Escape a text for markup. */
const escaped = (text) => text.replace(/[&<>"']/g, (sign) => `&#${sign.charCodeAt(0)};`);

/** The profiles: rows are made from the data when they are shown. */
class ProfileSheet extends Sheet {
  constructor(box, page) {
    super(box);
    this.page = page;
    this.profiles = page.profiles;
    this.inUnits = false;
    const onclick = ({ target }) => {
      this.inUnits = !this.inUnits;
      target.textContent = this.inUnits ? "Show deviations" : "Show means";
      this.table.classList.toggle("in-units", this.inUnits);
      this.arrange();
    };
    this.tools.append(button({ className: "units", onclick }, "Show means"));
  }

  get total() {
    return this.profiles.names.length;
  }

  value(j, column) {
    const { names, strength, overall } = this.profiles;
    if (column < 3) return [names, strength, overall][column][j];
    return this.inUnits ? this.mean(j, column - 3) : this.deviation(j, column - 3);
  }

  textOf(j) {
    return this.profiles.names[j].toLowerCase();
  }

  mean(j, k) {
    return this.profiles.means[j * (this.heads.length - 3) + k];
  }

  deviation(j, k) {
    const { overall, spread } = this.profiles;
    return spread[j] > 0 ? (this.mean(j, k) - overall[j]) / spread[j] : 0;
  }

  arrange() {
    this.body.innerHTML = this.matching.slice(0, this.shown).map((j) => this.row(j)).join("");
  }

  /** A row as markup: parsing thousands of cells is faster than making them one by one. */
  row(j) {
    const { names, strength, overall } = this.profiles;
    const cells = [
      `<th scope="row">${escaped(names[j])}</th>`,
      `<td class="number bar" style="--v:${strength[j]}">${(100 * strength[j]).toFixed(1)}%</td>`,
      `<td class="number">${figures(overall[j])}</td>`,
    ];
    for (let k = 0; k < this.heads.length - 3; k++) {
      const deviation = this.deviation(j, k);
      const [side, strong] = heatOf(deviation);
      const [above, own] = [deviationText(deviation), figures(this.mean(j, k))];
      cells.push(
        `<td class="number heat ${side}" style="--v:${strong.toFixed(0)}%" ` +
          `title="${escaped(called(this.page, k))}: ${above}, mean ${own}">${this.inUnits ? own : above}</td>`,
      );
    }
    return `<tr>${cells.join("")}</tr>`;
  }
}

function prepareTables(page) {
  for (const box of document.querySelectorAll(".table:has(.sortable)")) {
    const isProfiles = box.dataset.name === "profiles";
    (isProfiles ? new ProfileSheet(box, page) : new Sheet(box)).prepare();
  }
}
