// One run against another: the paired difference of every measure that both have, over the seeds that both have.
const RUN = ["preset", "data", "model", "label", "iterations"];
const against = { state: null, rows: [], all: false };
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
const runTitle = (values, name) => {
  const [, , , label, iterations] = name.split("~"), title = shownAs(values, "label", label);
  return iterations === "none" ? title : `${title}, T = ${iterations}`;
};

function compareRuns(values) {
  against.values = values;
  const { state } = against;
  const suites = kindsAmong(values, "suite", rowsWhere(values, {}));
  if (!suites.includes(state.suite)) state.suite = suites.includes(values.facts.suite) ? values.facts.suite : suites[0];
  const rows = rowsWhere(values, { suite: [state.suite] });
  const runs = new Map();
  for (const row of rows) {
    const name = runName(values, row);
    if (!runs.has(name)) runs.set(name, []);
    runs.get(name).push(row);
  }
  chooseSides(values, state, runs);
  against.rows = differences(values, runs.get(state.a), runs.get(state.b));
  fillSides(values, suites, [...runs.keys()]);
  fillDifferences();
  const address = `#against?${new URLSearchParams(state)}`;
  if (location.hash.startsWith("#against") && location.hash !== address) history.replaceState(null, "", address);
}

// Usually the first method with its largest T against uniform routing with the same data, of the strongest preset.
function chooseSides(values, state, runs) {
  const strength = (name) => values.facts.presets.indexOf(name.split("~")[0]);
  const names = [...runs.keys()].sort((one, other) => strength(one) - strength(other) || one.localeCompare(other, "en", { numeric: true }));
  const role = (name) => kindAt(values, "role", runs.get(name)[0]);
  const first = names.find((name) => role(name) === "method") ?? names[0];
  if (!runs.has(state.a)) state.a = names.findLast((name) => labelOf(name) === labelOf(first));
  const beside = state.a.split("~").slice(0, 2).join("~");
  const same = names.filter((name) => name !== state.a && name.startsWith(`${beside}~`));
  if (!runs.has(state.b)) state.b = same.find((name) => name.split("~")[3] === "uniform") ?? same[0] ?? names.at(-1);
}

const labelOf = (name) => name.slice(0, name.lastIndexOf("~"));

// Measures that both have; routebench computed half the interval of each difference.
function differences(values, ours, theirs) {
  const groups = (rows) => new Map(rows.map((row) => [kindAt(values, "group", row), row]));
  const [a, b] = [groups(ours), groups(theirs)];
  let start = 0;
  const found = [];
  for (const list of values.facts.pairs) {
    const [one, other] = [list.findIndex((group) => a.has(group)), list.findIndex((group) => b.has(group))];
    if (one >= 0 && other >= 0 && one !== other) {
      const [low, high] = [Math.min(one, other), Math.max(one, other)];
      const place = start + low * list.length - (low * (low + 1)) / 2 + high - low - 1;
      const told = values.verdicts[place], verdict = one > other && told && told < 3 ? 3 - told : told;
      const uneven = values.uneven.indexOf(place), sign = one > other ? -1 : 1;
      const apart = uneven < 0 ? null : { mean: sign * values.apart[uneven], n: values.shared[uneven] };
      const span = values.facts.spans[values.facts.pairs.indexOf(list)] ?? Infinity;
      found.push(differenceOf(values, a.get(list[one]), b.get(list[other]), { margin: values.margins[place], verdict, span, apart }));
    }
    start += (list.length * (list.length - 1)) / 2;
  }
  return found.sort((one, other) => other.main - one.main);
}

// `verdict` is that of the tables, which correct p: 1 better, 2 worse, 3 open, 4 untestable; 0 where they have none.
// `apart` has the mean difference over shared seeds, and their number, where one lacks a seed: means are over others.
function differenceOf(values, ours, theirs, { margin, verdict, span, apart }) {
  const [a, b] = [estimateAt(values, ours), estimateAt(values, theirs)];
  const within = [...values.columns.keys()].filter((name) => ![...RUN, ...REPLICATES, ...NAMING, "role", "test_iterations", "as_trained", "epoch"].includes(name));
  const where = within.filter((name) => ![null, ""].includes(kindAt(values, name, ours))).map((name) => `${titled(name)} ${shownKind(kindAt(values, name, ours))}`);
  const at = (name) => kindAt(values, name, ours);
  const better = at("higher_is_better"), { mean, n } = apart ?? { mean: a.mean - b.mean, n: a.n };
  const found = { mean, low: Math.max(mean - margin, -span), high: Math.min(mean + margin, span), n, a: a.mean, b: b.mean, margin, uneven: apart !== null };
  return {
    ...found,
    title: `${measureTitle(values, `${at("metric")}:${at("split") ?? ""}`)}${at("unit") ? `, ${at("unit")}` : ""}`,
    where: where.join(", "),
    main: better !== null && (!where.length || (values.facts.main.includes(at("metric")) && [null, "worst"].includes(at("attack")))) ? 1 : 0,
    verdict: TOLD[verdict] ?? verdictOf(found, better),
  };
}

const TOLD = { 1: "A is better", 2: "B is better", 3: "not told apart", 4: "cannot be tested" };

// By this interval alone, where no table has a verdict.
function verdictOf({ mean, low, high, n, margin }, better) {
  if (n < 2) return n ? "one seed: cannot be tested" : "no seed in common";
  if (Number.isNaN(margin)) return "cannot be tested";
  if (margin === 0) return mean === 0 ? "the same" : "cannot be tested: equal differences";
  if (low <= 0 && high >= 0) return "not told apart";
  if (better === null) return "they differ";
  return (mean > 0) === better ? "A is better" : "B is better";
}

function fillSides(values, suites, names) {
  const { state } = against, { elements } = side("controls");
  elements.suite.replaceChildren(...suites.map((name) => new Option(shownAs(values, "suite", name), name)));
  elements.suite.value = state.suite;
  for (const name of ["a", "b"]) {
    const groups = new Map();
    for (const run of names) {
      const title = run.split("~").slice(0, 3).join(" · ");
      groups.set(title, [...(groups.get(title) ?? []), new Option(runTitle(values, run), run)]);
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
  const main = against.rows.filter((found) => found.main).slice(0, 12);
  const shown = against.all || !main.length ? against.rows : main;
  side("all").hidden = shown.length === against.rows.length && !against.all;
  side("all").textContent = against.all ? "Main measures only" : `Show all ${against.rows.length} measures`;
  const rows = shown.map((found) => {
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
    cell(found.verdict);
    const difference = cell(intervalText(found, (text, value) => (value > 0 ? `+${text}` : text)), true);
    Object.assign(difference.dataset, { mean: found.mean, low: found.low, high: found.high, n: found.n });
    row.insertCell().append(intervalPlot(found));
    cell(formatted(found.a), true);
    cell(formatted(found.b), true);
    cell(String(found.n), true);
    return row;
  });
  body.replaceChildren(...rows);
  const tested = against.rows.filter((found) => found.margin > 0).length;
  const uneven = shown.some((found) => found.uneven) ? " Where one lacks seeds, A − B is over fewer of them than the means beside it." : "";
  side("status").textContent = against.state.a === against.state.b
    ? "A and B are the same run: choose two."
    : `${runTitle(against.values, against.state.a)} against ${runTitle(against.values, against.state.b)}: ${against.rows.length} measures in common, of which ${tested} can be tested. Each interval is for its measure alone; of 20 measures without any difference, one is expected to stand out.${uneven}`;
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
  side("all").addEventListener("click", () => {
    if (!against.state) return;
    against.all = !against.all;
    fillDifferences();
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
