// Draws the figures of a notebook that have not been drawn; each output brings the library, which is unpacked once.
(function () {
  "use strict";

  async function unpack() {
    if (typeof DecompressionStream === "undefined") {
      throw new Error("This plot needs a browser of 2023 or later: it is compressed.");
    }
    const bytes = Uint8Array.from(atob("PACKED_LIBRARY"), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    // As a module of its own, because notebooks may have a loader of modules or another version.
    const module = { exports: {} };
    const text = await new Response(stream).text();
    const other = window.Plotly;
    new Function("module", "exports", "define", text)(module, module.exports, undefined);
    window.Plotly = other;
    return module.exports;
  }

  async function draw(holder) {
    if (holder.dataset.drawn) return;
    holder.dataset.drawn = "yes";
    try {
      window.vaescopePlotly = window.vaescopePlotly || unpack();
      const plotly = await window.vaescopePlotly;
      const figure = JSON.parse(holder.dataset.figure);
      await plotly.newPlot(holder, figure.data, figure.layout, { responsive: true, displaylogo: false });
    } catch (error) {
      holder.textContent = error.message;
    }
  }

  document.querySelectorAll("div.vaescope-figure").forEach(draw);
})();
