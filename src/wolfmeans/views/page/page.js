// Starts the page: reads the data, prepares tables, draws charts, and follows theme and printer.

/** Use the browser's storage for the reader's choice of theme; null if the browser refuses. */
function stored(use) {
  try {
    return use(localStorage, "wolfmeans-theme");
  } catch {
    return null;
  }
}

function start() {
  const root = document.documentElement;
  root.classList.add("js");
  const chosen = stored((storage, name) => storage.getItem(name));
  if (["light", "dark"].includes(chosen)) root.dataset.theme = chosen;
  const page = JSON.parse(document.getElementById("data").textContent);
  if (page.profiles) {
    for (const name of ["strength", "overall", "means", "spread"]) {
      page.profiles[name] = unpacked(page.profiles[name]);
    }
  }
  prepareTables(page);
  const panels = document.querySelector(".panels");
  if (panels) new Distributions(page, panels);

  const places = [...document.querySelectorAll(".chart")];
  const map = places.find((place) => place.dataset.chart === "map");
  if (map) {
    const replay = new Replay(page, map);
    CHARTS.map = (_, colors) => replay.chart(colors);
    new Panel(page, replay, map);
  }
  const drawAll = () => {
    const colors = currentColors(page.n_colors);
    for (const place of places) draw(place, page, colors);
  };
  drawAll();

  // Light or dark: as in the system, until the reader chooses.
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const toggle = button({ className: "theme" });
  const name = () => {
    toggle.textContent = isDark() ? "☀ Light" : "☾ Dark";
    toggle.ariaLabel = isDark() ? "Show in light colors" : "Show in dark colors";
  };
  toggle.addEventListener("click", () => {
    const theme = isDark() ? "light" : "dark";
    root.dataset.theme = theme;
    stored((storage, key) => storage.setItem(key, theme));
    name();
    drawAll();
  });
  system.addEventListener("change", () => {
    name();
    if (!onPaper()) drawAll();
  });
  name();
  document.querySelector("header").append(toggle);

  // Print has light colors and a width of its own.
  let before;
  const print = (starts) => {
    if (starts === onPaper()) return;
    if (starts) {
      before = root.dataset.theme;
      root.dataset.theme = "print";
      drawAll();
      return;
    }
    if (before) root.dataset.theme = before;
    else delete root.dataset.theme;
    drawAll();
    for (const place of places) if (place.data) Plotly.Plots.resize(place);
  };
  addEventListener("beforeprint", () => print(true));
  addEventListener("afterprint", () => print(false));
  matchMedia("print").addEventListener("change", ({ matches }) => print(matches));
}

start();
