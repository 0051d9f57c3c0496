// One run against another: the paired difference of every measure that both have, over the seeds that both have.
const RUN = ["preset", "data", "model", "label", "iterations"];
const against = { state: null, rows: [] };
const side = (name) => document.getElementById(`against-${name}`);

async function openAgainst(query) {
  const values = await allValues();
  if (!values.rows) {
    side("status").textContent = "No number was measured yet.";
    return;
  }
  if (query !== null || against.state === null) {
    const asked = new URLSearchParams(query ?? "");
    against.state = { suite: asked.get("suite") ?? "", a: asked.get("a") ?? "", b: asked.get("b") ?? "" };
  }
  compareRuns(values);
}

const runName = (values, row) => RUN.map((name) => shownKind(kindAt(values, name, row))).join("~");
const runTitle = (name) => {
  const [, , , label, iterations] = name.split("~");
  return iterations === "none" ? label : `${label} T=${iterations}`;
};

function compareRuns(values) {
  const { state } = against;
  const suites = kindsAmong(values, "suite", rowsWhere(values, {}));
  if (!suites.includes(state.suite)) state.suite = suites.includes("accuracy") ? "accuracy" : suites[0];
  const rows = rowsWhere(values, { suite: [state.suite] });
  const runs = new Map();
  for (const row of rows) {
    const name = runName(values, row);
    if (!runs.has(name)) runs.set(name, []);
    runs.get(name).push(row);
  }
  chooseSides(values, state, runs);
  against.rows = differences(values, runs.get(state.a), runs.get(state.b));
  fillSides(suites, [...runs.keys()]);
  fillDifferences(values);
  const address = `#against?${new URLSearchParams(state)}`;
  if (location.hash.startsWith("#against") && location.hash !== address) history.replaceState(null, "", address);
}

// Usually the first method with its largest T against uniform coupling with the same data, of the strongest preset.
function chooseSides(values, state, runs) {
  const names = [...runs.keys()].sort((one, other) => strengthOf(one) - strengthOf(other) || one.localeCompare(other, "en", { numeric: true }));
  const role = (name) => kindAt(values, "role", runs.get(name)[0]);
  const first = names.find((name) => role(name) === "method") ?? names[0];
  if (!runs.has(state.a)) state.a = names.findLast((name) => labelOf(name) === labelOf(first));
  const beside = state.a.split("~").slice(0, 2).join("~");
  const same = names.filter((name) => name !== state.a && name.startsWith(`${beside}~`));
  if (!runs.has(state.b)) state.b = same.find((name) => name.split("~")[3] === "uniform") ?? same[0] ?? names.at(-1);
}

const labelOf = (name) => name.slice(0, name.lastIndexOf("~"));
const strengthOf = (name) => STRENGTH.indexOf(name.split("~")[0]);

function differences(values, ours, theirs) {
  const { t } = values.facts;
  const [a, b] = [byMeasure(values, ours), byMeasure(values, theirs)];
  return [...a.keys()].filter((key) => b.has(key)).map((key) => {
    const [one, other] = [a.get(key), b.get(key)];
    const found = pairedDifference(one.seeds, other.seeds, t);
    const mean = (seeds) => meanInterval([...seeds.values()], t).mean;
    return { ...one, ...found, a: mean(one.seeds), b: mean(other.seeds), verdict: verdictOf(found, one.better) };
  });
}

// Values of a run by measure and by what tells its values apart; tested as trained, without training curves.
function byMeasure(values, rows) {
  const within = [...values.columns.keys()].filter((name) => !RUN.includes(name) && !REPLICATES.includes(name) && !["suite", "unit", "higher_is_better", "cell", "role", "test_iterations", "as_trained", "epoch", "device"].includes(name));
  const groups = new Map();
  for (const row of rows) {
    if (kindAt(values, "epoch", row) !== null || kindAt(values, "as_trained", row) === "no") continue;
    const key = JSON.stringify(within.map((name) => kindAt(values, name, row)));
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(row);
  }
  return new Map([...groups].map(([key, own]) => [key, measureOf(values, own, within)]));
}

function measureOf(values, rows, within) {
  const at = (name) => kindAt(values, name, rows[0]);
  const where = within.filter((name) => !["metric", "split"].includes(name) && at(name) !== null);
  return {
    title: `${measureTitle(`${at("metric")}:${at("split") ?? ""}`)}${at("unit") ? `, ${at("unit")}` : ""}`,
    where: where.map((name) => `${titled(name)} ${shownKind(at(name))}`).join(", "),
    better: at("higher_is_better"),
    seeds: bySeed(values, rows),
  };
}

function verdictOf({ kind, mean, low, high }, better) {
  if (kind === "none") return "no shared seed";
  if (kind === "constant") return mean === 0 ? "the same" : "cannot be tested: equal differences";
  if (kind === "one") return "one seed: cannot be tested";
  if (low <= 0 && high >= 0) return "not told apart";
  if (better === null) return "they differ";
  return (mean > 0) === better ? "A is better" : "B is better";
}

function fillSides(suites, names) {
  const { state } = against, { elements } = side("controls");
  elements.suite.replaceChildren(...suites.map((name) => new Option(name, name)));
  elements.suite.value = state.suite;
  for (const name of ["a", "b"]) {
    const groups = new Map();
    for (const run of names) {
      const title = run.split("~").slice(0, 3).join(" · ");
      groups.set(title, [...(groups.get(title) ?? []), new Option(runTitle(run), run)]);
    }
    elements[name].replaceChildren(...[...groups].map(([title, options]) => {
      const group = document.createElement("optgroup");
      group.label = title;
      group.append(...options.sort((one, other) => one.text.localeCompare(other.text, "en", { numeric: true })));
      return group;
    }));
    elements[name].value = state[name];
  }
}

function fillDifferences() {
  const body = side("table").tBodies[0];
  const rows = against.rows.slice(0, 400).map((found) => {
    const row = document.createElement("tr");
    const cell = (text, number = false) => {
      const made = row.insertCell();
      made.textContent = text;
      if (number) made.className = "number";
      return made;
    };
    const head = document.createElement("th");
    head.scope = "row";
    head.textContent = found.title;
    if (found.where) head.append(document.createElement("br"), Object.assign(document.createElement("small"), { textContent: found.where }));
    row.append(head);
    const difference = cell(intervalText(found, (text, value) => (value > 0 ? `+${text}` : text)), true);
    Object.assign(difference.dataset, { mean: found.mean, low: found.low, high: found.high, n: found.n });
    row.insertCell().append(intervalPlot(found));
    cell(found.verdict);
    cell(formatted(found.a), true);
    cell(formatted(found.b), true);
    cell(String(found.n), true);
    return row;
  });
  body.replaceChildren(...rows);
  const tested = against.rows.filter((found) => found.kind === "seeds").length;
  side("status").textContent = against.state.a === against.state.b
    ? "A and B are the same run: choose two."
    : `${runTitle(against.state.a)} against ${runTitle(against.state.b)}: ${against.rows.length} measures in common, of which ${tested} can be tested. Each interval is for its measure alone; of 20 measures without any difference, one is expected to stand out.`;
}

// A dot with its whisker around zero; each row has a scale of its own, because each has a unit of its own.
function intervalPlot({ mean, low, high }) {
  const plot = element("svg", { viewBox: "0 0 140 18", width: 140, height: 18, "aria-hidden": "true" });
  const most = Math.max(Math.abs(mean), ...[low, high].filter(Number.isFinite).map(Math.abs));
  const at = (value) => 70 + (most ? (value / most) * 64 : 0);
  plot.append(element("path", { d: "M70 0V18", stroke: "var(--muted)" }));
  if (!Number.isFinite(mean)) return plot;
  if (low < high) plot.append(element("path", { d: `M${at(low)} 9H${at(high)}`, stroke: "var(--ink)", "stroke-width": 1.6 }));
  plot.append(element("circle", { cx: at(mean), cy: 9, r: 3.5, fill: "var(--accent)" }));
  return plot;
}

function setUpAgainst() {
  side("controls").addEventListener("submit", (event) => event.preventDefault());
  side("controls").addEventListener("change", async (event) => {
    if (!against.state) return;
    against.state[event.target.name] = event.target.value;
    if (event.target.name === "suite") Object.assign(against.state, { a: "", b: "" });
    compareRuns(await allValues());
  });
  side("swap").addEventListener("click", async () => {
    const { state } = against;
    if (!state) return;
    [state.a, state.b] = [state.b, state.a];
    compareRuns(await allValues());
  });
  side("csv").addEventListener("click", () => {
    const header = ["measure", "where", "a", "b", "difference", "low", "high", "seeds", "verdict"];
    const rows = against.rows.map((found) => [found.title, found.where, found.a, found.b, found.mean, found.low, found.high, found.n, found.verdict]);
    save("a-against-b.csv", "text/csv", csvOf([header, ...rows]));
  });
}

setUpAgainst();
