// From rows to points: one per method, T and whatever else is fixed, as a mean over seeds with its interval or as single runs.
const SAME_RUN = ["label", "model", "data", "iterations"];

// Groups rows by everything but the seed; `state.x` is a column, or a measure of the same runs.
function pointsOf(values, rows, state) {
  const names = [...values.columns.keys()].filter((name) => !NAMING.includes(name) && !REPLICATES.includes(name));
  const columns = names.map((name) => values.columns.get(name));
  const steps = ["iterations", "test_iterations"].includes(state.x) ? ["iterations", "test_iterations", "as_trained"] : [state.x];
  const alongLine = names.filter((name) => !steps.includes(name)).map((name) => values.columns.get(name));
  if (state.x === "test_iterations") alongLine.push(values.columns.get("iterations"));
  const groups = new Map();
  for (const row of rows) {
    const key = columns.map((column) => column.codes[row]).join();
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(row);
  }
  const beside = state.x.startsWith("measure:") ? measuredBeside(values, rows, state) : null;
  return [...groups.values()].flatMap((own) => {
    const line = alongLine.map((column) => column.codes[own[0]]).join();
    return pointsOfGroup(values, own, state, beside).map((point) => ({ ...point, line }));
  });
}

function pointsOfGroup(values, rows, state, beside) {
  const point = { colour: kindAt(values, state.colour, rows[0]), facet: kindAt(values, state.facet, rows[0]), row: rows[0] };
  const single = { low: NaN, high: NaN, n: 1 };
  if (beside === null) {
    const x = kindAt(values, state.x, rows[0]);
    if (state.show === "runs") return [...bySeed(values, rows)].map(([seed, mean]) => ({ ...point, ...single, x, mean, seed }));
    return [{ ...point, x, ...estimateAt(values, rows[0]) }];
  }
  const steps = kindAt(values, "iterations", rows[0]);
  if (steps !== null && state.colour !== "iterations") point.text = `T=${steps}`;
  const theirs = beside.get(sameRun(values, rows[0]));
  if (!theirs) return [];
  if (state.show === "runs") {
    const others = bySeed(values, theirs);
    return [...bySeed(values, rows)].filter(([seed]) => others.has(seed)).map(([seed, mean]) => ({ ...point, ...single, x: others.get(seed), mean, seed }));
  }
  const across = estimateAt(values, theirs[0]);
  return [{ ...point, x: across.mean, xlow: across.low, xhigh: across.high, ...estimateAt(values, rows[0]) }];
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

const sameRun = (values, row) => JSON.stringify(SAME_RUN.map((name) => kindAt(values, name, row)));

// Rows of the measure on the x axis, by run; its own further coordinates are fixed as those of y are.
function measuredBeside(values, rows, state) {
  const [, suite, metric, split] = state.x.split(":");
  const wanted = { suite: [suite], metric: [metric], split: [split] };
  const same = rowsWhere(values, { ...wanted, preset: [state.preset] });
  const left = narrowed(values, same.length ? same : rowsWhere(values, wanted), [...SAME_RUN, ...REPLICATES], state.only).rows;
  const runs = new Map();
  for (const row of left) {
    const key = sameRun(values, row);
    if (!runs.has(key)) runs.set(key, []);
    runs.get(key).push(row);
  }
  return runs;
}
