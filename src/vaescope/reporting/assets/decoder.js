// Runs the program that reporting/decoder.py exports: (await vaescope.decoder(table)).decode(z, condition).
(function () {
  "use strict";
  window.vaescope = window.vaescope || {};

  // The upper three bytes of every float32: first all lowest ones, then all middle ones, then all highest ones.
  function unpack(bytes) {
    const count = bytes.length / 3;
    const values = new Float32Array(count);
    const bits = new Uint32Array(values.buffer);
    for (let index = 0; index < count; index += 1) {
      bits[index] = (bytes[index] << 8) | (bytes[index + count] << 16) | (bytes[index + 2 * count] << 24);
    }
    return values;
  }

  // The innermost loop of all layers: both arrays are read in memory order.
  function addScaled(target, start, weights, from, count, factor) {
    for (let index = 0; index < count; index += 1) {
      target[start + index] += factor * weights[from + index];
    }
  }

  // After a ReLU about half of the inputs are zero and can be skipped.
  function linear(operation, weights, given) {
    const { inputs, outputs, weight, bias } = operation;
    const offsets = weights.subarray(bias, bias + outputs);
    const input = given.values;
    const output = new Float32Array(outputs);
    function run() {
      output.set(offsets);
      for (let index = 0; index < inputs; index += 1) {
        const value = input[index];
        if (value !== 0) addScaled(output, 0, weights, weight + index * outputs, outputs, value);
      }
    }
    return { values: output, shape: [outputs], run };
  }

  function reshape(operation, weights, given) {
    return { values: given.values, shape: [operation.height, operation.width, operation.channels], run: null };
  }

  // Every input adds its scaled kernel to the output at twice its position. Channels come last, so one row of the
  // kernel with all its filters is contiguous in the weights and in the output.
  function deconvolve(operation, weights, given) {
    const [rows, columns, channels] = given.shape;
    const { filters, kernel, height, width, weight, bias } = operation;
    const padding = kernel / 2 - 1;
    const stretch = kernel * filters;
    const input = given.values;
    const output = new Float32Array(height * width * filters);
    const ground = repeated(weights.subarray(bias, bias + filters), height * width);

    function lay(row, column, channel, value) {
      const left = 2 * column - padding;
      const first = Math.max(0, -left);
      const count = (Math.min(kernel, width - left) - first) * filters;
      for (let down = 0; down < kernel; down += 1) {
        const line = 2 * row - padding + down;
        if (line < 0 || line >= height) continue;
        const from = weight + (channel * kernel + down) * stretch + first * filters;
        addScaled(output, (line * width + left + first) * filters, weights, from, count, value);
      }
    }

    function run() {
      output.set(ground);
      let at = 0;
      for (let row = 0; row < rows; row += 1) {
        for (let column = 0; column < columns; column += 1) {
          for (let channel = 0; channel < channels; channel += 1, at += 1) {
            if (input[at] !== 0) lay(row, column, channel, input[at]);
          }
        }
      }
    }
    return { values: output, shape: [height, width, filters], run };
  }

  function repeated(pattern, times) {
    const values = new Float32Array(pattern.length * times);
    for (let index = 0; index < times; index += 1) values.set(pattern, index * pattern.length);
    return values;
  }

  function channelsFirst(operation, weights, given) {
    const [height, width, channels] = given.shape;
    const pixels = height * width;
    const input = given.values;
    const output = new Float32Array(input.length);
    function run() {
      for (let pixel = 0, at = 0; pixel < pixels; pixel += 1) {
        for (let channel = 0; channel < channels; channel += 1, at += 1) output[channel * pixels + pixel] = input[at];
      }
    }
    return { values: output, shape: [channels, height, width], run };
  }

  // Abramowitz and Stegun 7.1.26, with an error below 1.5e-7.
  function errorFunction(value) {
    const part = 1 / (1 + 0.3275911 * Math.abs(value));
    const higher = 1.421413741 + part * (-1.453152027 + part * 1.061405429);
    const series = 0.254829592 + part * (-0.284496736 + part * higher);
    return Math.sign(value) * (1 - part * series * Math.exp(-value * value));
  }

  // With PyTorch's default options.
  const activations = {
    relu: (value) => (value < 0 ? 0 : value),
    tanh: Math.tanh,
    elu: (value) => (value > 0 ? value : Math.expm1(value)),
    gelu: (value) => 0.5 * value * (1 + errorFunction(value * Math.SQRT1_2)),
    leaky_relu: (value) => (value < 0 ? 0.01 * value : value),
    sigmoid: (value) => 1 / (1 + Math.exp(-value)),
    softplus: (value) => (value > 20 ? value : Math.log1p(Math.exp(value))),
  };

  // In place: no later operation needs the previous values.
  function activation(operation, weights, given) {
    const values = given.values;
    const change = activations[operation.name];
    function run() {
      for (let index = 0; index < values.length; index += 1) values[index] = change(values[index]);
    }
    return { values, shape: given.shape, run };
  }

  // From standardised numbers to the units of the data.
  function affine(operation, weights, given) {
    const { scale, shift, rest } = operation;
    const values = Float64Array.from(given.values);
    function run() {
      for (let index = 0; index < values.length; index += 1) {
        values[index] = weights[shift + index] + (weights[rest + index] + weights[scale + index] * given.values[index]);
      }
    }
    return { values, shape: given.shape, run };
  }

  const operations = { linear, reshape, deconvolve, affine, channels_first: channelsFirst };
  for (const name of Object.keys(activations)) operations[name] = activation;

  function checkLength(name, values, wanted) {
    const length = values ? values.length : 0;
    if (length !== wanted) throw new Error(`${name} must have ${wanted} numbers, got ${length}.`);
  }

  // `decode` returns the item's values in the order channels, height, width. It allocates nothing: the next call
  // overwrites the returned array.
  vaescope.decoder = async function (table) {
    const { inputs, condition: width, shape } = table;
    const weights = unpack(await vaescope.inflate(table.weights));
    const start = new Float32Array(width + inputs);
    const steps = [];
    let last = { values: start, shape: [start.length] };
    for (const operation of table.operations) {
      last = operations[operation.name](operation, weights, last);
      if (last.run) steps.push(last.run);
    }

    function decode(z, condition) {
      checkLength("z", z, inputs);
      checkLength("condition", condition, width);
      if (width) start.set(condition);
      start.set(z, width);
      for (const run of steps) run();
      return last.values;
    }
    return { inputs, condition: width, shape, decode };
  };
})();
