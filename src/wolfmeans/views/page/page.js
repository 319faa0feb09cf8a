// Begins everything: reads the data, prepares tables, draws charts, and follows theme and printer.

/** What the reader chose last. Browsers may refuse to remember, of files and in notebooks above all. */
const choice = {
  name: "wolfmeans-theme",
  read() {
    try {
      const found = localStorage.getItem(this.name);
      return ["light", "dark"].includes(found) ? found : null;
    } catch {
      return null;
    }
  },
  keep(theme) {
    try {
      localStorage.setItem(this.name, theme);
    } catch {
      // Then it holds until the page is closed.
    }
  },
};

function start() {
  const root = document.documentElement;
  root.classList.add("js");
  if (choice.read()) root.dataset.theme = choice.read();
  const page = JSON.parse(document.getElementById("data").textContent);
  if (page.profiles) {
    for (const name of ["strength", "overall", "means", "spread"]) {
      page.profiles[name] = unpacked(page.profiles[name]);
    }
  }
  prepareTables(page.profiles);

  const places = [...document.querySelectorAll(".chart")];
  const map = places.find((place) => place.dataset.chart === "map");
  if (map) {
    const replay = new Replay(page, map);
    CHARTS.map = (_, colors) => replay.chart(colors);
    new Panel(page, replay, map);
  }
  const drawAll = () => {
    const colors = currentColors(page.n_clusters);
    for (const place of places) draw(place, page, colors);
  };
  drawAll();

  // Light or dark: as the system says, until the reader says otherwise.
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const button = element("button", { type: "button", className: "theme" });
  const name = () => {
    button.textContent = isDark() ? "☀ Light" : "☾ Dark";
    button.ariaLabel = isDark() ? "Show in light colors" : "Show in dark colors";
  };
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    choice.keep(root.dataset.theme);
    name();
    drawAll();
  });
  system.addEventListener("change", () => {
    name();
    if (root.dataset.theme !== "print") drawAll();
  });
  name();
  document.querySelector("header").append(button);

  // Paper has light colors and a width of its own.
  let before;
  const toPaper = () => {
    if (root.dataset.theme === "print") return;
    before = root.dataset.theme;
    root.dataset.theme = "print";
    drawAll();
  };
  const toScreen = () => {
    if (root.dataset.theme !== "print") return;
    if (before) root.dataset.theme = before;
    else delete root.dataset.theme;
    drawAll();
    for (const place of places) if (place.data) Plotly.Plots.resize(place);
  };
  addEventListener("beforeprint", toPaper);
  addEventListener("afterprint", toScreen);
  matchMedia("print").addEventListener("change", ({ matches }) => {
    if (matches) toPaper();
    else toScreen();
  });
}

start();
