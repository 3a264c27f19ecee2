// Plots are drawn when they come into view, and all before printing; their numbers can be downloaded.
(function () {
  "use strict";

  function drawn(holder) {
    if (holder.dataset.drawn) return;
    holder.dataset.drawn = "yes";
    const table = JSON.parse(document.getElementById(holder.dataset.figure).textContent);
    const options = { responsive: true, displaylogo: false, modeBarButtons: [["toImage", "resetScale2d"]] };
    window.Plotly.newPlot(holder, table.data, table.layout, options);
  }

  function download(button) {
    const text = JSON.parse(document.getElementById(button.dataset.csv).textContent);
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
    link.download = button.dataset.name;
    link.click();
    URL.revokeObjectURL(link.href);
  }

  document.addEventListener("DOMContentLoaded", () => {
    const holders = [...document.querySelectorAll("[data-figure]")];
    const watcher = new IntersectionObserver(
      (seen) => seen.filter((one) => one.isIntersecting).forEach((one) => drawn(one.target)),
      { rootMargin: "400px" },
    );
    holders.forEach((holder) => watcher.observe(holder));
    window.addEventListener("beforeprint", () => holders.forEach(drawn));
    document.querySelectorAll("button[data-csv]").forEach((button) => {
      button.addEventListener("click", () => download(button));
    });
  });
})();
