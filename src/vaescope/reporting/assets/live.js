// Live decoding: sliders change the code, and the decoded picture follows.
(function () {
  "use strict";
  const vaescope = (window.vaescope = window.vaescope || {});

  async function start(section, data) {
    const decoder = await vaescope.decoder(data.decoder);
    const shape = decoder.shape;
    const canvas = section.querySelector("canvas.decoded");
    Object.assign(canvas, vaescope.paint.sides(shape));
    const context = canvas.getContext("2d");
    const sliders = [...section.querySelectorAll("input[data-latent]")];
    const label = section.querySelector("select.label");
    const said = section.querySelector(".said");
    const limits = data.items ? vaescope.paint.limitsOf(data.items) : null;
    const state = { code: [], condition: [], begun: null, words: "", example: 0, drawn: 0, decoded: null };

    function paint() {
      state.decoded = decoder.decode(state.code, state.condition);
      if (shape.length === 3) vaescope.paint.image(context, state.decoded, shape);
      else vaescope.paint.vector(context, [...state.decoded], state.example === null ? [] : data.items[state.example], limits);
    }

    function showSliders() {
      for (const slider of sliders) showSlider(slider);
      if (label) label.value = String(state.condition.indexOf(1));
    }

    function showSlider(slider) {
      const value = state.code[Number(slider.dataset.latent)];
      slider.value = String(value);
      slider.nextElementSibling.textContent = value.toFixed(2);
      slider.setAttribute("aria-valuetext", value.toFixed(2));
    }

    function begin(from, words) {
      state.begun = from;
      state.words = words;
      state.code = [...from.code];
      state.condition = [...from.condition];
      said.textContent = words;
      showSliders();
      paint();
    }

    function beginExample(number) {
      state.example = number;
      vaescope.paint.original(section, number);
      begin(data.examples[number], "");
    }

    async function copy() {
      const text = JSON.stringify(state.code.map((value) => Number(value.toFixed(6))));
      try {
        await navigator.clipboard.writeText(text);
        said.textContent = "Copied.";
      } catch (error) {
        said.textContent = `The browser blocks copying (${error.name}). Code: ${text}`;
      }
    }

    for (const slider of sliders) {
      slider.addEventListener("input", () => {
        state.code[Number(slider.dataset.latent)] = Number(slider.value);
        showSlider(slider);
        paint();
      });
    }
    for (const button of section.querySelectorAll("button.start")) {
      button.addEventListener("click", () => beginExample(Number(button.dataset.start)));
    }
    if (label) {
      label.addEventListener("change", () => {
        state.condition = state.condition.map((_, place) => Number(place === Number(label.value)));
        paint();
      });
    }
    const draw = section.querySelector("button.draw");
    if (draw) {
      draw.addEventListener("click", () => {
        // A draw is the code of no item.
        state.example = null;
        vaescope.paint.original(section, null);
        begin(data.draws[state.drawn % data.draws.length], `Draw ${(state.drawn % data.draws.length) + 1} from the prior.`);
        state.drawn += 1;
      });
    }
    section.querySelector("button.reset").addEventListener("click", () => begin(state.begun, state.words));
    section.querySelector("button.copy").addEventListener("click", copy);
    beginExample(0);
    vaescope.live = state;
  }

  document.addEventListener("DOMContentLoaded", () => {
    const section = document.getElementById("live");
    if (!section) return;
    start(section, JSON.parse(document.getElementById("live-data").textContent)).catch((error) => {
      section.querySelector(".said").textContent = error.message;
      throw error;
    });
  });
})();
