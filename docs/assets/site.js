// Frames with outputs tell their height, so that they need no scrollbar of their own.
addEventListener("message", (event) => {
  for (const frame of document.querySelectorAll("iframe.output"))
    if (event.source === frame.contentWindow && event.data.height) frame.style.height = `${event.data.height + 4}px`;
});

// Tables that are wider than the page scroll by keyboard, too.
const reachable = () => document.querySelectorAll(".md-typeset__scrollwrap").forEach((one) => { one.tabIndex = 0; });
addEventListener("load", () => { reachable(); setTimeout(reachable, 500); });
