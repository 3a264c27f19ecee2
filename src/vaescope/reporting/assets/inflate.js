// Unpacks what reporting/assets compresses: text of gzip, to bytes.
(function () {
  "use strict";
  const vaescope = (window.vaescope = window.vaescope || {});

  vaescope.inflate = async function (text) {
    if (typeof DecompressionStream === "undefined") {
      throw new Error("This page needs a browser of 2023 or later: it is compressed.");
    }
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  };
})();
