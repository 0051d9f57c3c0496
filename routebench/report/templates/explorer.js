// The explorer: what is chosen, where it is written in the address, and what is drawn from it. Until numbers are shown, controls do nothing.
const AXES = ["suite", "preset", "y", "x", "colour", "facet", "show"];
const explorer = { state: null, points: [], chart: null };
const part = (name) => document.getElementById(`explorer-${name}`);

async function openExplorer(query) {
  const values = await allValues();
  if (!values.rows) {
    part("status").textContent = "No number was measured yet.";
    return;
  }
  if (query !== null || explorer.state === null) explorer.state = stateFrom(new URLSearchParams(query ?? ""), values);
  refresh(values);
}

// `only.COLUMN` may come several times, and so may `hide`, a kind of the colour.
function stateFrom(asked, values) {
  const state = { only: {}, hide: asked.getAll("hide"), ylog: asked.has("ylog"), xlog: asked.has("xlog") };
  for (const name of AXES) state[name] = asked.get(name) ?? "";
  for (const key of new Set(asked.keys())) {
    const column = key.startsWith("only.") && values.columns.get(key.slice(5));
    if (column) state.only[column.name] = column.kinds.filter((kind) => asked.getAll(key).includes(shownKind(kind)));
  }
  return state;
}

function addressOf(state) {
  const written = new URLSearchParams();
  for (const name of AXES) if (state[name]) written.set(name, state[name]);
  for (const name of ["ylog", "xlog"]) if (state[name]) written.set(name, "yes");
  for (const [name, kinds] of Object.entries(state.only)) for (const kind of kinds) written.append(`only.${name}`, shownKind(kind));
  for (const kind of state.hide) written.append("hide", kind);
  return `#explorer?${written}`;
}

// Whatever is not chosen, or not there, gets its usual value; returns what may be chosen.
function completed(state, values) {
  const all = (name, where) => kindsAmong(values, name, rowsWhere(values, where));
  const settle = (name, choices, usually) => {
    if (!choices.includes(state[name])) state[name] = choices.includes(usually) ? usually : choices[0];
    return choices;
  };
  const suites = settle("suite", all("suite", {}), values.facts.suite);
  const ordered = all("preset", { suite: [state.suite] });
  const presets = settle("preset", ordered, values.facts.presets.find((name) => ordered.includes(name)));
  const own = rowsWhere(values, { suite: [state.suite], preset: [state.preset] });
  const measures = [...new Set(own.map((row) => `${kindAt(values, "metric", row)}:${kindAt(values, "split", row) ?? ""}`))];
  const main = values.facts.main.find((name) => own.some((row) => kindAt(values, "metric", row) === name));
  const fits = (row) => (main ? kindAt(values, "metric", row) === main && ["test", null].includes(kindAt(values, "split", row)) : kindAt(values, "higher_is_better", row) !== null);
  const judged = own.find(fits) ?? own[0];
  settle("y", measures, `${kindAt(values, "metric", judged)}:${kindAt(values, "split", judged) ?? ""}`);
  const [metric, split] = cut(state.y);
  const rows = rowsWhere(values, { metric: [metric], split: [split] }, own);
  const names = coordinatesOf(values, rows);
  const beside = measuresBeside(values, state);
  const steps = names.includes("epoch") ? "epoch" : names.includes("iterations") ? "iterations" : "label";
  settle("x", [...new Set([...names, "label"]), ...beside.flat()], steps);
  settle("colour", [...new Set(["label", ...names])], "label");
  settle("facet", ["", ...names], names.includes("data") ? "data" : "");
  settle("show", ["means", "runs"], "means");
  return { suites, presets, measures: measures.sort(), names, beside, rows };
}

const cut = (y) => [y.slice(0, y.lastIndexOf(":")), y.slice(y.lastIndexOf(":") + 1)];

// Measures of every suite, for the x axis.
function measuresBeside(values, state) {
  values.measures ??= [...new Set(rowsWhere(values, {}).map((row) => `measure:${kindAt(values, "suite", row)}:${kindAt(values, "metric", row)}:${kindAt(values, "split", row) ?? ""}`))].sort();
  const same = `measure:${state.suite}:${state.y}`;
  return values.measures.filter((name) => name !== same);
}

function refresh(values) {
  const { state } = explorer;
  const choices = completed(state, values);
  const scatter = state.x.startsWith("measure:");
  const axes = [state.x, state.colour, state.facet, ...(scatter ? SAME_RUN : [])].filter((name) => values.columns.has(name));
  const left = narrowed(values, choices.rows, axes, state.only);
  explorer.points = pointsOf(values, left.rows, state);
  explorer.shown = { values, choices, left, scatter };
  fillControls(values, choices);
  fillFilters(values, choices, left);
  fillLegend(values);
  draw();
  const address = addressOf(state);
  if (location.hash.startsWith("#explorer") && location.hash !== address) history.replaceState(null, "", address);
}

const measureTitle = (values, y) => {
  const [metric, split] = cut(y);
  return `${values.facts.titles[metric]}${split ? ` (${split})` : ""}`;
};

function fillControls(values, choices) {
  const { state } = explorer;
  const plain = (names, title = (name) => name) => names.map((name) => [name, title(name)]);
  fillSelect("suite", [["", plain(choices.suites, (suite) => shownAs(values, "suite", suite))]]);
  fillSelect("preset", [["", plain(choices.presets)]]);
  fillSelect("y", [["", plain(choices.measures, (y) => measureTitle(values, y))]]);
  const besides = choices.beside.map((name) => [name, `${shownAs(values, "suite", name.split(":")[1])}: ${measureTitle(values, name.split(":").slice(2).join(":"))}`]);
  fillSelect("x", [["Coordinates", plain([...new Set([...choices.names, "label"])], titled)], ["Measures of the same runs", besides]]);
  fillSelect("colour", [["", plain([...new Set(["label", ...choices.names])], titled)]]);
  fillSelect("facet", [["", [["", "one panel"], ...plain(choices.names, titled)]]]);
  for (const name of AXES) part("controls").elements[name].value = state[name];
  for (const name of ["ylog", "xlog"]) part("controls").elements[name].checked = state[name];
}

function fillSelect(name, groups) {
  const select = part("controls").elements[name];
  const made = groups.flatMap(([title, options]) => {
    const found = options.map(([value, text]) => new Option(text, value));
    if (!title) return found;
    const group = document.createElement("optgroup");
    group.label = title;
    group.append(...found);
    return [group];
  });
  select.replaceChildren(...made);
}

function fillFilters(values, choices, left) {
  const fieldsets = choices.names.map((name) => {
    const fieldset = document.createElement("fieldset");
    const legend = document.createElement("legend");
    legend.textContent = titled(name);
    const kept = left.kept.get(name);
    const boxes = kindsAmong(values, name, choices.rows).map((kind) => {
      const label = document.createElement("label"), box = document.createElement("input");
      box.type = "checkbox";
      box.checked = !kept || kept.includes(kind);
      box.addEventListener("change", () => choose(values, name, boxes));
      label.append(box, ` ${shownAs(values, name, kind)}`);
      return { box, kind, label };
    });
    fieldset.append(legend, ...boxes.map(({ label }) => label));
    return fieldset;
  });
  const nameOf = (label) => label && `${label.parentElement.firstChild.textContent}:${label.textContent}`;
  const focused = nameOf(document.activeElement?.closest("#explorer-filters label"));
  part("filters").replaceChildren(...fieldsets);
  if (focused) [...part("filters").querySelectorAll("label")].find((label) => nameOf(label) === focused)?.firstChild.focus();
}

function choose(values, name, boxes) {
  explorer.state.only[name] = boxes.filter(({ box }) => box.checked).map(({ kind }) => kind);
  refresh(values);
}

// A click hides or shows; a double click, or one with Alt or Shift, leaves this one alone, or brings all back.
function fillLegend(values) {
  const { state } = explorer;
  const shown = colours(values), same = JSON.stringify(shown);
  if (explorer.legend !== same) part("legend").replaceChildren(...legendItems(values, shown));
  explorer.legend = same;
  [...part("legend").querySelectorAll("button")].forEach((button, place) => button.setAttribute("aria-pressed", String(!state.hide.includes(shownKind(shown[place].kind)))));
}

function legendItems(values, shown) {
  return shown.map(({ kind, colour }, place) => {
    const item = document.createElement("li"), button = document.createElement("button"), swatch = element("svg", { viewBox: "-6 -6 12 12", width: 13, height: 13, "aria-hidden": "true" });
    button.type = "button";
    swatch.append(element("path", { d: markOf(place, 0, 0, 4.5), fill: `var(--${colour})` }));
    button.append(swatch, shownAs(values, explorer.state.colour, kind));
    button.addEventListener("click", (event) => {
      if (event.altKey || event.shiftKey) solo(values, shownKind(kind));
      else if (event.detail < 2) toggle(values, shownKind(kind));
      else solo(values, shownKind(kind));
    });
    for (const [name, on] of [["pointerenter", true], ["focus", true], ["pointerleave", false], ["blur", false]]) {
      button.addEventListener(name, () => highlight(on ? shownKind(kind) : null));
    }
    item.append(button);
    return item;
  });
}

function toggle(values, kind) {
  const { hide } = explorer.state;
  explorer.state.hide = hide.includes(kind) ? hide.filter((other) => other !== kind) : [...hide, kind];
  refresh(values);
}

function solo(values, kind) {
  const others = colours(values).map((one) => shownKind(one.kind)).filter((other) => other !== kind);
  const alone = others.every((other) => explorer.state.hide.includes(other)) && explorer.soloed === kind;
  explorer.soloed = alone ? null : kind;
  explorer.state.hide = alone ? [] : others;
  refresh(values);
}

function highlight(kind) {
  for (const group of part("chart").querySelectorAll("g[data-kind]")) {
    group.style.opacity = kind === null || group.dataset.kind === kind ? 1 : 0.15;
  }
}

function colours(values) {
  const { state, points } = explorer;
  const known = new Set(points.map((point) => point.colour));
  const kinds = (values.columns.get(state.colour)?.kinds ?? [null]).filter((kind) => known.has(kind));
  const { colours: ofLabels, hues } = values.facts;
  return kinds.map((kind, place) => ({ kind, place, colour: state.colour === "label" ? (ofLabels[kind] ?? "muted") : kind === null ? "muted" : hues[place % hues.length] }));
}

function viewOf(values) {
  const { state, shown, points } = explorer;
  const unit = points.length ? kindAt(values, "unit", points[0].row) : "";
  const xunit = shown.scatter ? values.columns.get("unit") && unitOf(values, state.x) : "";
  const title = shown.scatter ? measureTitle(values, state.x.split(":").slice(2).join(":")) : titled(state.x);
  const runs = state.show === "runs";
  const seen = new Set(points.map((point) => point.x));
  return {
    ...state,
    runs,
    scatter: shown.scatter,
    xname: (kind) => shownAs(values, state.x, kind),
    facetname: (kind) => shownAs(values, state.facet, kind),
    colours: colours(values).filter(({ kind }) => !state.hide.includes(shownKind(kind))),
    xkinds: (values.columns.get(state.x)?.kinds ?? []).filter((kind) => seen.has(kind)),
    ytitle: `${measureTitle(values, state.y)}${unit ? `, ${unit}` : ""}`,
    xtitle: `${title}${xunit ? `, ${xunit}` : ""}`,
    facets: values.columns.get(state.facet)?.kinds ?? [null],
    allowsNone: !shown.scatter,
    lines: !runs && !shown.scatter && points.every((point) => point.x === null || typeof point.x === "number"),
  };
}

function unitOf(values, x) {
  const [, suite, metric, split] = x.split(":");
  const row = rowsWhere(values, { suite: [suite], metric: [metric], split: [split] })[0];
  return row === undefined ? "" : kindAt(values, "unit", row);
}

function visible() {
  return explorer.points.filter((point) => !explorer.state.hide.includes(shownKind(point.colour)) && Number.isFinite(point.mean));
}

function draw() {
  const { values, left } = explorer.shown;
  const points = visible();
  const view = viewOf(values);
  explorer.view = view;
  explorer.chart = points.length ? drawChart(points, view, Math.max(280, part("chart").clientWidth)) : null;
  explorer.chart?.setAttribute("aria-label", `${view.ytitle} over ${view.xtitle}; arrow keys of the chart go from point to point`);
  part("drawing").replaceChildren(...(explorer.chart ? [explorer.chart] : []));
  hideTip();
  part("status").textContent = statusOf(points, left, view);
  const logs = [["y", view.ylog, points.some((point) => point.mean <= 0)], ["x", view.xlog, points.some((point) => point.x <= 0 && point.x !== null)]];
  for (const [axis, log, impossible] of logs) if (log && impossible) part("status").textContent += ` The ${axis} axis is linear, because a value is not above zero.`;
  if (part("numbers").open) fillNumbers();
}

function statusOf(points, left, view) {
  if (!points.length) return view.scatter ? "No run has both measures with what is chosen below." : "Nothing is left; choose more below, or show what is hidden.";
  const what = view.runs ? "single values" : "means over seeds with 95 % intervals";
  const fixed = [...left.kept].filter(([name, kinds]) => kinds?.length === 1 && !explorer.state.only[name]);
  const told = fixed.map(([name, [kind]]) => `${titled(name)}: ${shownAs(explorer.shown.values, name, kind)}`);
  return `${points.length.toLocaleString("en")} ${what}, of ${left.rows.length.toLocaleString("en")} values.${told.length ? ` Fixed, change it in the filters: ${told.join("; ")}.` : ""}`;
}

// What a point is, in words: its coordinates, then its value.
function described(point) {
  const { values, choices } = explorer.shown;
  const where = choices.names.filter((name) => !["role", "as_trained", "capsules"].includes(name) && kindAt(values, name, point.row) !== null);
  const head = where.includes("label") ? [] : [shownAs(values, "label", kindAt(values, "label", point.row))];
  const told = where.map((name) => (name === "label" ? shownAs(values, name, kindAt(values, name, point.row)) : `${titled(name).split(",")[0]} ${shownKind(kindAt(values, name, point.row))}`));
  const interval = intervalText(point);
  const seeds = point.seed === undefined ? `${point.n} ${point.n === 1 ? "seed" : "seeds"}` : `seed ${point.seed}`;
  const x = explorer.shown.scatter ? ` · ${explorer.view.xtitle}: ${formatted(point.x)}` : "";
  return { head: [...head, ...told].join(" · "), value: `${explorer.view.ytitle}: ${interval}${x} · ${seeds}` };
}

function showTip(spot) {
  const tip = part("tip"), { head, value } = described(spot.point);
  const [first, second] = [document.createElement("strong"), document.createElement("span")];
  [first.textContent, second.textContent] = [head, value];
  tip.replaceChildren(first, second);
  tip.hidden = false;
  const wide = part("chart").clientWidth;
  tip.style.left = `${Math.max(0, Math.min(spot.left + 12, wide - tip.offsetWidth))}px`;
  tip.style.top = `${spot.top > tip.offsetHeight + 16 ? spot.top - tip.offsetHeight - 12 : spot.top + 14}px`;
  explorer.ring?.remove();
  explorer.ring = element("circle", { cx: spot.left, cy: spot.top, r: 7, fill: "none", stroke: "var(--ink)", "stroke-width": 1.5 });
  explorer.chart.append(explorer.ring);
}

function hideTip() {
  part("tip").hidden = true;
  explorer.ring?.remove();
  explorer.spot = -1;
}

function nearest(event) {
  const edge = part("drawing").getBoundingClientRect();
  const [left, top] = [event.clientX - edge.left, event.clientY - edge.top];
  let best = null, closest = 28 ** 2;
  for (const spot of explorer.chart?.spots ?? []) {
    const distance = (spot.left - left) ** 2 + (spot.top - top) ** 2;
    if (distance < closest) [best, closest] = [spot, distance];
  }
  return best;
}

// By keyboard: left and right along the points, up and down from method to method, Escape to leave.
function step(event) {
  const spots = explorer.chart?.spots ?? [];
  const move = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: "next", ArrowUp: "last" }[event.key];
  if (event.key === "Escape") hideTip();
  if (move === undefined || !spots.length) return;
  event.preventDefault();
  const from = explorer.spot ?? -1;
  let to = typeof move === "number" ? from + move : spots.findIndex((spot, place) => place > from && spot.point.colour !== spots[Math.max(from, 0)].point.colour);
  if (move === "last") to = spots.findLastIndex((spot, place) => place < from && spot.point.colour !== spots[Math.max(from, 0)].point.colour);
  if (to < 0 || to >= spots.length) to = (to + spots.length) % spots.length;
  hideTip();
  explorer.spot = to;
  showTip(spots[to]);
}

// The points as rows, for the table and for the file.
function pointRows() {
  const { values, choices, scatter } = explorer.shown;
  const { state } = explorer;
  const names = choices.names;
  const [metric, split] = cut(state.y);
  const header = ["suite", "preset", "metric", "split", ...names, ...(scatter ? [state.x] : []), ...(state.show === "runs" ? ["seed", "value"] : ["mean", "low", "high", "n"])];
  const rows = visible().map((point) => [
    state.suite, state.preset, metric, split, ...names.map((name) => kindAt(values, name, point.row) ?? ""),
    ...(scatter ? [point.x] : []),
    ...(state.show === "runs" ? [point.seed, point.mean] : [point.mean, point.low, point.high, point.n]),
  ]);
  return [header, ...rows];
}

function fillNumbers() {
  const [header, ...rows] = pointRows();
  const kept = header.map((_, place) => place).filter((place) => place > 3);
  const table = document.createElement("table");
  const line = (parent, tag, cells) => {
    const row = parent.insertRow();
    for (const place of kept) {
      const cell = document.createElement(tag), value = cells[place];
      cell.textContent = typeof value === "number" && tag === "td" ? formatted(value) : tag === "th" ? titled(String(value)) : String(value);
      if (typeof value === "number") cell.className = "number";
      row.append(cell);
    }
  };
  line(table.createTHead(), "th", header);
  const body = table.createTBody();
  for (const row of rows.slice(0, 200)) line(body, "td", row);
  part("table").replaceChildren(table);
  part("rest").textContent = rows.length > 200 ? `The first 200 of ${rows.length.toLocaleString("en")} rows; the CSV file has all.` : "";
}

function setUpExplorer() {
  const controls = part("controls");
  controls.addEventListener("submit", (event) => event.preventDefault());
  controls.addEventListener("change", async (event) => {
    const { name, value, checked, type } = event.target, { state } = explorer;
    if (!explorer.shown || !(name in state)) return;
    state[name] = type === "checkbox" ? checked : value;
    if (["suite", "preset", "y"].includes(name)) {
      state.only = {};
      state.hide = [];
      if (name === "suite") Object.assign(state, { preset: "", y: "" });
      if (name !== "preset") Object.assign(state, { x: "", facet: "" });
    }
    if (name === "colour") state.hide = [];
    refresh(await allValues());
  });
  part("reset").addEventListener("click", async () => {
    if (!explorer.shown) return;
    const { suite, preset, y } = explorer.state;
    explorer.state = { ...stateFrom(new URLSearchParams(), await allValues()), suite, preset, y };
    refresh(await allValues());
  });
  part("chart").addEventListener("pointermove", (event) => {
    const spot = nearest(event);
    if (spot) showTip(spot);
    else hideTip();
  });
  part("chart").addEventListener("pointerleave", hideTip);
  part("chart").addEventListener("keydown", step);
  part("numbers").addEventListener("toggle", () => part("numbers").open && explorer.shown && fillNumbers());
  part("csv").addEventListener("click", () => explorer.shown && save("explorer.csv", "text/csv", csvOf(pointRows())));
  part("svg").addEventListener("click", () => explorer.chart && save("explorer.svg", "image/svg+xml", withLegend()));
  let wide = 0;
  new ResizeObserver(([entry]) => {
    if (!explorer.shown || !entry.contentRect.width || Math.abs(entry.contentRect.width - wide) < 2) return;
    wide = entry.contentRect.width;
    requestAnimationFrame(draw);
  }).observe(part("chart"));
}

function withLegend() {
  const chart = explorer.chart.cloneNode(true);
  const [, , width, height] = chart.getAttribute("viewBox").split(" ").map(Number);
  let left = 12, top = height + 16;
  for (const { kind, colour, place } of explorer.view.colours) {
    const text = shownAs(explorer.shown.values, explorer.state.colour, kind), wide = 30 + 7.2 * text.length;
    if (left + wide > width && left > 12) [left, top] = [12, top + 20];
    chart.append(element("path", { d: markOf(place, left + 5, top - 4, 5), fill: `var(--${colour})` }), element("text", { x: left + 15, y: top, fill: "var(--ink)" }, text));
    left += wide;
  }
  chart.setAttribute("viewBox", `0 0 ${width} ${top + 14}`);
  chart.setAttribute("height", top + 14);
  return standalone(chart, explorer.shown.values.facts.paper);
}

setUpExplorer();
