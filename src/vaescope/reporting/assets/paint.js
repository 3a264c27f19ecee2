// Decoded items on a canvas: images pixel by pixel, vectors as bars or lines.
(function () {
  "use strict";
  const vaescope = (window.vaescope = window.vaescope || {});

  function sides(shape) {
    // Images keep their size; vectors are plotted at this size.
    return shape.length === 3 ? { width: shape[2], height: shape[1] } : { width: 640, height: 320 };
  }

  function mean(values, pixel, channels, plane) {
    let sum = 0;
    for (let channel = 0; channel < channels; channel += 1) sum += values[pixel + channel * plane];
    return sum / channels;
  }

  function image(context, values, shape) {
    const [channels, height, width] = shape;
    const bytes = context.createImageData(width, height);
    const plane = height * width;
    for (let pixel = 0; pixel < plane; pixel += 1) {
      const grey = channels === 3 ? 0 : mean(values, pixel, channels, plane);
      for (let part = 0; part < 3; part += 1) {
        const value = channels === 3 ? values[pixel + part * plane] : grey;
        // The array clamps to 0..255 and rounds.
        bytes.data[4 * pixel + part] = 255 * value;
      }
      bytes.data[4 * pixel + 3] = 255;
    }
    context.putImageData(bytes, 0, 0);
  }

  function vector(context, values, example, limits) {
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
      // A missing value of an item is null: the line has a gap.
      line.forEach((value, place) => {
        if (value !== null) context[line[place - 1] === null ? "moveTo" : "lineTo"](across(place), up(value));
      });
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

  /** Shows the item that the code began at next to the decoded one; null for none. */
  function original(section, number) {
    for (const button of section.querySelectorAll("button.start")) {
      const chosen = Number(button.dataset.start) === number;
      button.setAttribute("aria-pressed", String(chosen));
      if (chosen) section.querySelector(".original").replaceChildren(button.firstElementChild.cloneNode(true));
    }
    section.querySelector(".example").hidden = number === null;
  }

  vaescope.paint = { sides, image, vector, limitsOf, original };
})();
