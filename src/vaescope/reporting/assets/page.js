// Colours for light and dark; plots, which are drawn when they come into view, and all before printing; CSV files.
(function () {
  "use strict";
  const vaescope = (window.vaescope = window.vaescope || {});
  const PHONE = "(max-width: 720px)";
  const PRINTED_WIDTH = 520; // pixels; page.css reduces printed plots to half of the width of a sheet
  const root = document.documentElement;
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  let chosen = null; // "light" or "dark" once the reader has chosen
  let printing = false;
  let library = null;
  const watcher = new IntersectionObserver(
    (seen) => seen.filter((one) => one.isIntersecting).forEach((one) => show(one.target)),
    { rootMargin: "400px" },
  );

  /** Applies the colours; the page is printed in light colours. */
  function applyTheme() {
    const dark = !printing && (chosen || (system.matches ? "dark" : "light")) === "dark";
    root.dataset.theme = dark ? "dark" : "light";
    const button = document.querySelector("button.theme");
    if (button) button.setAttribute("aria-pressed", String(dark));
  }

  applyTheme();

  /** Unpacks plotly, once. */
  function plotly() {
    library = library || unpack();
    return library;
  }

  async function unpack() {
    const bytes = await vaescope.inflate(document.getElementById("plotly-packed").textContent);
    const script = document.createElement("script");
    script.textContent = new TextDecoder().decode(bytes);
    document.head.append(script);
  }

  /** A copy of a figure in which each colour of the table is replaced. */
  function recoloured(value, colours) {
    if (typeof value === "string") return colours[value.toLowerCase()] || value;
    if (Array.isArray(value)) return value.map((one) => recoloured(one, colours));
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, recoloured(one, colours)]));
  }

  /** Draws a figure in the colours of the page; plotly must be unpacked. */
  function draw(holder) {
    holder.dataset.drawn = "yes";
    const text = document.getElementById(holder.dataset.figure).textContent;
    const colours = JSON.parse(document.getElementById("dark-colours").textContent);
    const table = root.dataset.theme === "dark" ? recoloured(JSON.parse(text), colours) : JSON.parse(text);
    const options = { responsive: !printing, displaylogo: false, modeBarButtons: [["toImage", "resetScale2d"]] };
    if (printing) {
      Object.assign(table.layout, { width: PRINTED_WIDTH, autosize: false });
      options.displayModeBar = false;
    }
    holder.style.height = `${table.layout.height}px`;
    window.Plotly.newPlot(holder, table.data, table.layout, options);
  }

  async function show(holder) {
    if (holder.dataset.drawn) return;
    holder.dataset.drawn = "yes";
    try {
      await plotly();
    } catch (error) {
      holder.textContent = error.message;
      return;
    }
    draw(holder);
  }

  /** Draws the visible plots again, and the others when they come into view. */
  function refresh() {
    document.querySelectorAll("[data-figure]").forEach((holder) => {
      if (!holder.dataset.drawn) return;
      delete holder.dataset.drawn;
      watcher.unobserve(holder);
      watcher.observe(holder);
    });
  }

  function setTheme() {
    applyTheme();
    refresh();
  }

  function download(button) {
    const text = JSON.parse(document.getElementById(button.dataset.csv).textContent);
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
    link.download = button.dataset.name;
    link.click();
    URL.revokeObjectURL(link.href);
  }

  /** Before printing: light colours, every plot open and drawn at the width of half a sheet. */
  function preparePrint(holders) {
    printing = true;
    applyTheme();
    document.querySelectorAll("details.plot-body").forEach((one) => {
      one.dataset.open = String(one.open);
      one.open = true;
    });
    if (window.Plotly) holders.forEach(draw);
  }

  function afterPrint() {
    printing = false;
    document.querySelectorAll("details.plot-body").forEach((one) => {
      one.open = one.dataset.open === "true";
    });
    setTheme();
  }

  function start() {
    const holders = [...document.querySelectorAll("[data-figure]")];
    // On a phone, plots are folded below their findings.
    if (window.matchMedia(PHONE).matches) {
      document.querySelectorAll("details.plot-body").forEach((one) => {
        one.open = false;
      });
    }
    holders.forEach((holder) => watcher.observe(holder));
    window.addEventListener("beforeprint", () => preparePrint(holders));
    window.addEventListener("afterprint", afterPrint);
    document.querySelectorAll("button[data-csv]").forEach((button) => {
      button.addEventListener("click", () => download(button));
    });
    const button = document.querySelector("button.theme");
    button.hidden = false;
    button.addEventListener("click", () => {
      chosen = root.dataset.theme === "dark" ? "light" : "dark";
      setTheme();
    });
    applyTheme();
    // Unpacked early, because printing cannot wait for it.
    if (holders.length) window.addEventListener("load", () => plotly().catch((error) => console.error(error)));
  }

  system.addEventListener("change", setTheme);
  vaescope.setTheme = setTheme;
  document.addEventListener("DOMContentLoaded", start);
})();
