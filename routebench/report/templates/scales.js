// Axes: where a value lies between two edges, in pixels, and where the ticks are.
function numberScale(values, [start, end], log) {
  let low = Math.min(...values), high = Math.max(...values);
  if (log && low > 0) {
    [low, high] = [Math.log10(low), Math.log10(high)];
    const room = Math.max(0.05 * (high - low), 0.03);
    [low, high] = [low - room, high + room];
    const at = (value) => start + ((Math.log10(value) - low) / (high - low)) * (end - start);
    return { at, ticks: logTicks(low, high) };
  }
  const room = high > low ? 0.06 * (high - low) : Math.max(Math.abs(high) * 0.02, 0.5);
  [low, high] = [low - room, high + room];
  const at = (value) => start + ((value - low) / (high - low)) * (end - start);
  return { at, ticks: linearTicks(low, high, Math.max(2, Math.abs(end - start) / 62)) };
}

function linearTicks(low, high, most) {
  const rough = (high - low) / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((factor) => factor * power >= rough) * power;
  const ticks = [];
  for (let place = Math.ceil(low / step); place * step <= high; place++) ticks.push(Number((place * step).toPrecision(12)));
  return ticks;
}

function logTicks(low, high) {
  const factors = high - low > 3 ? [1] : high - low > 1 ? [1, 3] : [1, 2, 5];
  const ticks = [];
  for (let power = Math.floor(low); power <= high; power++) {
    for (const factor of factors) {
      const tick = Number((factor * 10 ** power).toPrecision(3));
      if (Math.log10(tick) >= low && Math.log10(tick) <= high) ticks.push(tick);
    }
  }
  return ticks;
}

// Kinds that are no numbers side by side; also what has no number, left of those that have one.
function kindScale(kinds, [start, end]) {
  const width = (end - start) / Math.max(kinds.length, 1);
  return { at: (kind) => start + width * (kinds.indexOf(kind) + 0.5), ticks: kinds, width };
}

function formatted(value) {
  if (!Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size >= 1e6 || (size > 0 && size < 1e-4)) return value.toExponential(2).replace("-", "−");
  return String(Number(value.toPrecision(size >= 1000 ? 6 : 4))).replace("-", "−");
}

// A mean with its limits to two digits of their distance; `sign` may put a plus before one.
function intervalText({ mean, low, high }, sign = (text) => text) {
  if (!(low < high)) return sign(formatted(mean), mean);
  const digits = Math.max(0, Math.min(12, 1 - Math.floor(Math.log10((high - low) / 2))));
  const write = (value) => sign(value.toFixed(digits).replace("-", "−"), value);
  return `${write(mean)} [${write(low)}, ${write(high)}]`;
}
