// Live decoding: sliders change the code, and the decoded picture follows.
(function () {
  "use strict";
  const vaescope = (window.vaescope = window.vaescope || {});

  function sides(shape) {
    // Images keep their size; vectors are plotted at this size.
    return shape.length === 3 ? { width: shape[2], height: shape[1] } : { width: 640, height: 320 };
  }

  function paintImage(context, values, shape) {
    const [channels, height, width] = shape;
    const image = context.createImageData(width, height);
    const plane = height * width;
    for (let pixel = 0; pixel < plane; pixel += 1) {
      for (let part = 0; part < 3; part += 1) {
        const value = values[pixel + (channels === 3 ? part * plane : 0)];
        // The array clamps to 0..255 and rounds.
        image.data[4 * pixel + part] = 255 * value;
      }
      image.data[4 * pixel + 3] = 255;
    }
    context.putImageData(image, 0, 0);
  }

  function paintVector(context, values, example, limits) {
    const { width, height } = context.canvas;
    const margin = 24;
    const across = (place) => margin + (place + 0.5) * ((width - 2 * margin) / values.length);
    const up = (value) => height - margin - ((value - limits.low) / (limits.high - limits.low)) * (height - 2 * margin);
    context.clearRect(0, 0, width, height);
    context.strokeStyle = "#b0b0b0";
    context.beginPath();
    context.moveTo(margin, up(0));
    context.lineTo(width - margin, up(0));
    context.stroke();
    if (values.length <= 24) {
      const thick = (0.35 * (width - 2 * margin)) / values.length;
      context.fillStyle = "#c8c8c8";
      example.forEach((value, place) => context.fillRect(across(place) - thick, up(Math.max(value, 0)), thick, Math.abs(up(value) - up(0))));
      context.fillStyle = "#0072B2";
      values.forEach((value, place) => context.fillRect(across(place), up(Math.max(value, 0)), thick, Math.abs(up(value) - up(0))));
      return;
    }
    for (const [line, colour] of [[example, "#b0b0b0"], [values, "#0072B2"]]) {
      context.strokeStyle = colour;
      context.lineWidth = 2;
      context.beginPath();
      line.forEach((value, place) => context.lineTo(across(place), up(value)));
      context.stroke();
    }
  }

  function limitsOf(items) {
    const all = items.flat();
    const low = Math.min(0, ...all);
    const high = Math.max(0, ...all);
    const room = 0.15 * (high - low) || 1;
    return { low: low - room, high: high + room };
  }

  function start(section, data) {
    const decoder = vaescope.decoder(data.decoder);
    const shape = decoder.shape;
    const canvas = section.querySelector("canvas.decoded");
    Object.assign(canvas, sides(shape));
    const context = canvas.getContext("2d");
    const sliders = [...section.querySelectorAll("input[data-latent]")];
    const label = section.querySelector("select.label");
    const said = section.querySelector(".said");
    const limits = data.items ? limitsOf(data.items) : null;
    const state = { code: [], condition: [], begun: null, example: 0, drawn: 0, decoded: null };

    function paint() {
      state.decoded = decoder.decode(state.code, state.condition);
      if (shape.length === 3) paintImage(context, state.decoded, shape);
      else paintVector(context, [...state.decoded], data.items[state.example], limits);
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
      state.code = [...from.code];
      state.condition = [...from.condition];
      said.textContent = words;
      showSliders();
      paint();
    }

    function beginExample(number) {
      state.example = number;
      for (const button of section.querySelectorAll("button.start")) {
        const chosen = Number(button.dataset.start) === number;
        button.setAttribute("aria-pressed", String(chosen));
        if (chosen) section.querySelector(".original").replaceChildren(button.firstElementChild.cloneNode(true));
      }
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
        begin(data.draws[state.drawn % data.draws.length], `Draw ${(state.drawn % data.draws.length) + 1} from the prior.`);
        state.drawn += 1;
      });
    }
    section.querySelector("button.reset").addEventListener("click", () => begin(state.begun, "Reset."));
    section.querySelector("button.copy").addEventListener("click", copy);
    beginExample(0);
    vaescope.live = state;
  }

  document.addEventListener("DOMContentLoaded", () => {
    const section = document.getElementById("live");
    if (section) start(section, JSON.parse(document.getElementById("live-data").textContent));
  });
})();
