// Tables that sort by a click on their header and export as CSV, and the profiles' further rows.
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

/** What a cell is sorted by and exported as: its number where it has one, else its text. */
function valueOf(cell) {
  const value = cell.dataset.value;
  if (value === undefined) return cell.textContent;
  return value === "" ? NaN : Number(value);
}

/** Numbers by size, unknown ones last in both directions; words by the alphabet. */
function compare(a, b, direction) {
  if (typeof a === "number" && typeof b === "number") {
    if (Number.isNaN(a) || Number.isNaN(b)) return Number.isNaN(a) - Number.isNaN(b);
    return direction * (a - b);
  }
  return direction * String(a).localeCompare(String(b), undefined, { numeric: true });
}

/** Quote what a reader of CSV could take for a separator. */
function csvField(value) {
  if (typeof value === "number") return Number.isNaN(value) ? "" : String(value);
  return /[",\r\n]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value;
}

function download(text, name) {
  const address = URL.createObjectURL(new Blob([text], { type: "text/csv;charset=utf-8" }));
  element("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

// What the largest table can show at once without keeping its reader waiting.
const CELLS_AT_ONCE = 15_000;

/** A table with an order of its rows, of which the first ones are shown. */
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
    if (this.total > this.first) this.addUnfolding();
    const save = element("button", { type: "button", className: "csv" }, "Save as CSV");
    save.addEventListener("click", () => download(this.csv(), `${this.box.dataset.name}.csv`));
    this.tools.append(save);
    this.box.append(this.tools);
    this.arrange();
  }

  get total() {
    return this.rows.length;
  }

  /** What row i of the original order has in a column. */
  value(i, column) {
    return valueOf(this.rows[i].cells[column]);
  }

  /** Show the first rows of the order. */
  arrange() {
    this.body.replaceChildren(...this.order.slice(0, this.shown).map((i) => this.rows[i]));
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
    const button = element("button", { type: "button" }, ...head.childNodes);
    if (head.dataset.name !== head.textContent) button.ariaLabel = head.dataset.name;
    button.addEventListener("click", () => {
      const before = head.getAttribute("aria-sort");
      // The largest numbers first: they are what one looks for.
      const first = column > 0 && typeof this.value(0, column) === "number" ? -1 : 1;
      this.sort(column, before === "none" ? first : before === "ascending" ? -1 : 1);
    });
    head.replaceChildren(button);
  }

  addUnfolding() {
    const button = element("button", { type: "button", className: "unfold" });
    const step = Math.max(this.first, Math.floor(CELLS_AT_ONCE / this.heads.length));
    const name = () => {
      const left = this.total - this.shown;
      if (left <= 0) button.textContent = `Show the first ${this.first}`;
      else if (left <= step) button.textContent = `Show all ${this.total.toLocaleString("en")}`;
      else button.textContent = `Show ${step} more`;
    };
    button.addEventListener("click", () => {
      this.shown = this.shown >= this.total ? this.first : this.shown + step;
      this.arrange();
      name();
    });
    name();
    this.tools.append(button);
  }

  csv() {
    const lines = [this.heads.map((head) => head.dataset.name)];
    for (const i of this.order) lines.push(this.heads.map((_, column) => this.value(i, column)));
    return lines.map((line) => line.map(csvField).join(",") + "\r\n").join("");
  }
}

// --- Profiles ----------------------------------------------------------------------------------

/** A number as people write it, with so many digits. */
function figures(value, digits = 4) {
  if (value === null || !Number.isFinite(value)) return "–";
  if (value === 0) return "0";
  if (value < 0) return "−" + figures(-value, digits);
  const size = Math.floor(Math.log10(value));
  if (size < -5 || size >= 9) return value.toExponential(digits - 2);
  return value.toLocaleString("en", {
    maximumSignificantDigits: Math.max(digits, size + 1),
  });
}

function deviationText(value) {
  if (Math.abs(value) < 0.05) return "0";
  return (value > 0 ? "+" : "−") + Math.abs(value).toFixed(1);
}

/** The color of a deviation's cell and how strong it is, in percent; as in markup.py. */
function heatOf(deviation) {
  const side = deviation >= 0 ? "high" : "low";
  const size = Math.abs(deviation);
  return size <= 2 ? [side, 50 * size] : [`${side}er`, Math.min(100, 25 * (size - 2))];
}

/** A text as part of markup. */
function escaped(text) {
  return text.replace(/[&<>"']/g, (sign) => `&#${sign.charCodeAt(0)};`);
}

/** The profiles: a sheet whose rows are made from the data when they are shown. */
class ProfileSheet extends Sheet {
  constructor(box, profiles) {
    super(box);
    this.profiles = profiles;
    this.inUnits = false;
    const button = element("button", { type: "button", className: "units" }, "Show means");
    button.addEventListener("click", () => {
      this.inUnits = !this.inUnits;
      button.textContent = this.inUnits ? "Show deviations" : "Show means";
      this.table.classList.toggle("in-units", this.inUnits);
      this.arrange();
    });
    this.tools.append(button);
  }

  get total() {
    return this.profiles.names.length;
  }

  value(j, column) {
    const { names, strength, overall } = this.profiles;
    if (column < 3) return [names, strength, overall][column][j];
    return this.inUnits ? this.mean(j, column - 3) : this.deviation(j, column - 3);
  }

  mean(j, k) {
    return this.profiles.means[j * (this.heads.length - 3) + k];
  }

  deviation(j, k) {
    const { overall, spread } = this.profiles;
    return spread[j] > 0 ? (this.mean(j, k) - overall[j]) / spread[j] : 0;
  }

  arrange() {
    const rows = this.order.slice(0, this.shown).map((j) => this.row(j));
    this.body.innerHTML = rows.join("");
  }

  /** A row as markup: thousands of cells are read faster than they are made one by one. */
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
          `title="cluster ${k}: ${above}, mean ${own}">${this.inUnits ? own : above}</td>`,
      );
    }
    return `<tr>${cells.join("")}</tr>`;
  }
}

function prepareTables(profiles) {
  for (const box of document.querySelectorAll(".table:has(.sortable)")) {
    const isProfiles = box.dataset.name === "profiles";
    (isProfiles ? new ProfileSheet(box, profiles) : new Sheet(box)).prepare();
  }
}
