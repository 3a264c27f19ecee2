// Frames that were decoded beforehand: a slider shows those of one latent, with the others at the code of the example.
(function () {
  "use strict";
  const vaescope = (window.vaescope = window.vaescope || {});

  /** The frames of vectors: numbers of 16 bits between the limits. */
  function numbers(text, { low, high, size }) {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const levels = Array.from({ length: bytes.length / 2 }, (_, place) => bytes[2 * place] + 256 * bytes[2 * place + 1]);
    const values = levels.map((level) => low + (level / 65535) * (high - low));
    return Array.from({ length: values.length / size }, (_, frame) => values.slice(frame * size, (frame + 1) * size));
  }

  function start(section, data) {
    const canvas = section.querySelector("canvas.decoded");
    Object.assign(canvas, data.vectors ? vaescope.paint.sides([0]) : { width: data.width, height: data.height });
    const context = canvas.getContext("2d");
    const sliders = [...section.querySelectorAll("input[data-latent]")];
    const limits = data.vectors ? vaescope.paint.limitsOf([[data.vectors.low, data.vectors.high]]) : null;
    const loaded = new Map();
    // `painted` counts what has been drawn: images are decoded by the browser in their own time.
    const state = { example: 0, latent: null, place: null, values: null, painted: 0, asked: 0 };

    const stripOf = (slider) => data.strips[state.example][slider.dataset.latent];

    function load(strip) {
      if (!loaded.has(strip)) {
        if (data.vectors) {
          loaded.set(strip, Promise.resolve(numbers(strip.frames, data.vectors)));
        } else {
          const image = new Image();
          image.src = strip.frames;
          loaded.set(strip, image.decode().then(() => image));
        }
      }
      return loaded.get(strip);
    }

    async function paint(strip, place) {
      state.asked += 1;
      const turn = state.asked;
      const frames = await load(strip);
      // A later move may have been drawn already.
      if (turn !== state.asked) return;
      if (data.vectors) {
        state.values = frames[place];
        vaescope.paint.vector(context, state.values, data.items[state.example], limits);
      } else {
        context.clearRect(0, 0, data.width, data.height);
        context.drawImage(frames, place * data.width, 0, data.width, data.height, 0, 0, data.width, data.height);
      }
      state.painted += 1;
    }

    function show(slider, place) {
      const text = stripOf(slider).values[place].toFixed(2);
      slider.value = String(place);
      slider.nextElementSibling.textContent = text;
      slider.setAttribute("aria-valuetext", text);
    }

    /** All latents at the code of the example, except the one that is moved. */
    function move(moved, place) {
      for (const slider of sliders) show(slider, slider === moved ? place : stripOf(slider).own);
      state.latent = Number(moved.dataset.latent);
      state.place = place;
      return paint(stripOf(moved), place);
    }

    function begin(example) {
      state.example = example;
      vaescope.paint.original(section, example);
      return move(sliders[0], stripOf(sliders[0]).own);
    }

    for (const slider of sliders) slider.addEventListener("input", () => move(slider, Number(slider.value)));
    for (const button of section.querySelectorAll("button.start")) {
      button.addEventListener("click", () => begin(Number(button.dataset.start)));
    }
    section.querySelector("button.reset").addEventListener("click", () => begin(state.example));
    begin(0);
    vaescope.frames = state;
  }

  document.addEventListener("DOMContentLoaded", () => {
    const section = document.getElementById("frames");
    if (section) start(section, JSON.parse(document.getElementById("frames-data").textContent));
  });
})();
