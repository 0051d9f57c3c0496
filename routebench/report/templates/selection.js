// Which rows a view shows. Means are over seeds and nothing else, so whatever else varies is on an axis or fixed to one kind.
const NAMING = ["suite", "preset", "metric", "split", "unit", "higher_is_better", "cell", "group"];
const REPLICATES = ["seed", "repeat"];
const TITLES = { label: "method", iterations: "T, iterations", test_iterations: "T′, iterations when tested", as_trained: "tested with the T trained with", data: "data set", model: "network", role: "role" };
const titled = (name) => TITLES[name] ?? name.replaceAll("_", " ");
const shownKind = (kind) => (kind === null ? "none" : kind === true ? "yes" : kind === false ? "no" : String(kind));
// The name of a kind for readers: of methods and suites, as the rest of the page calls them.
const shownAs = (values, name, kind) => values.facts.names[name]?.[kind] ?? shownKind(kind);

// Columns that tell rows apart besides their seed.
function coordinatesOf(values, rows) {
  const names = [...values.columns.keys()].filter((name) => !NAMING.includes(name) && !REPLICATES.includes(name));
  return names.filter((name) => kindsAmong(values, name, rows).length > 1);
}

// Rows left when everything that varies beside the axes has one kind, or the kinds in `only`.
function narrowed(values, rows, axes, only) {
  const late = ["iterations", "data", "model", "label", "role"];
  const rank = (name) => (name === "as_trained" ? -2 : name === "epoch" ? -1 : late.indexOf(name) + 1);
  const names = coordinatesOf(values, rows).sort((one, other) => rank(one) - rank(other));
  const kept = new Map();
  for (const name of names) {
    let kinds = only[name];
    if (!kinds && !axes.includes(name) && !(name === "as_trained" && axes.includes("test_iterations"))) {
      if (varies(values, rows, name, axes)) kinds = [usual(values, rows, name)];
    }
    if (kinds) rows = rowsWhere(values, { [name]: kinds }, rows);
    kept.set(name, kinds ?? null);
  }
  return { rows, kept };
}

function varies(values, rows, name, axes) {
  const column = values.columns.get(name);
  const others = axes.map((axis) => values.columns.get(axis)).filter(Boolean);
  const seen = new Map();
  for (const row of rows) {
    const key = others.map((other) => other.codes[row]).join();
    if (!seen.has(key)) seen.set(key, column.codes[row]);
    else if (seen.get(key) !== column.codes[row]) return true;
  }
  return false;
}

// As trained, after the last epoch, and otherwise what was measured most often.
function usual(values, rows, name) {
  if (name === "as_trained") return "yes";
  if (name === "attack" && kindsAmong(values, name, rows).includes("worst")) return "worst";
  const kinds = kindsAmong(values, name, rows);
  if (name === "epoch") return kinds.filter((kind) => kind !== null).at(-1) ?? null;
  const column = values.columns.get(name);
  const counts = new Map();
  for (const row of rows) counts.set(column.codes[row], (counts.get(column.codes[row]) ?? 0) + 1);
  return column.kinds[[...counts].sort((one, other) => other[1] - one[1] || one[0] - other[0])[0][0]];
}
