// As routebench.statistics has them: settled, mean_interval and paired_difference at 95 %. Student's t comes in `facts.t`.
function settled(values, largest = 0) {
  const sizes = [...new Set([0, ...values.map(Math.abs)])].sort((a, b) => a - b);
  const close = 1e-10 * Math.max(sizes[sizes.length - 1], largest);
  const first = new Map();
  sizes.forEach((size, place) => first.set(size, place && size - sizes[place - 1] <= close ? first.get(sizes[place - 1]) : size));
  return values.map((value) => Math.sign(value) * first.get(Math.abs(value)));
}

function meanInterval(given, t, whole = null) {
  const values = settled(given);
  const n = values.length;
  if (!n) return { mean: NaN, low: NaN, high: NaN, n, kind: "none" };
  const mean = values.reduce((sum, value) => sum + value, 0) / n;
  if (n === 1) return { mean, low: NaN, high: NaN, n, kind: "one" };
  if (values.every((value) => value === values[0])) return { mean: values[0], low: values[0], high: values[0], n, kind: "constant" };
  const variance = values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / (n - 1);
  const margin = t[Math.min(n - 2, t.length - 1)] * Math.sqrt(variance / n);
  const beyond = whole !== null && values.every((value) => value >= 0 && value <= whole) && (mean < margin || mean + margin > whole);
  if (beyond) {
    const [share, logit] = [mean / whole, (one) => Math.log(one / (1 - one))];
    const [low, high] = [-1, 1].map((sign) => whole / (1 + Math.exp(-(logit(share) + (sign * margin) / whole / (share * (1 - share))))));
    return { mean, low, high, n, kind: "seeds" };
  }
  return { mean, low: mean - margin, high: mean + margin, n, kind: "seeds" };
}

// Of `ours - theirs` over the seeds that both have; each is a Map from seed to value.
function pairedDifference(ours, theirs, t) {
  const shared = [...ours.keys()].filter((seed) => theirs.has(seed)).sort((a, b) => a - b);
  const largest = Math.max(0, ...shared.flatMap((seed) => [Math.abs(ours.get(seed)), Math.abs(theirs.get(seed))]));
  return meanInterval(settled(shared.map((seed) => ours.get(seed) - theirs.get(seed)), largest), t);
}

// As routebench.units has it: all of it, where a metric is a share, or null.
function wholeOf(metric, unit) {
  if (unit === "%") return metric.endsWith("_gain") ? null : 100;
  return !unit && metric.endsWith("_share") ? 1 : null;
}

// Repeats of one seed count as one value, their mean.
function bySeed(values, rows) {
  const found = new Map();
  for (const row of rows) {
    const seed = kindAt(values, "seed", row);
    if (!found.has(seed)) found.set(seed, []);
    found.get(seed).push(values.value[row]);
  }
  return new Map([...found].map(([seed, own]) => [seed, own.reduce((sum, one) => sum + one, 0) / own.length]));
}
