// Draws points as SVG: a panel per facet, a colour per kind, lines over a numeric x, whiskers for intervals.
const SVG = "http://www.w3.org/2000/svg";
const element = (tag, attributes = {}, text = null) => {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== null) made.textContent = text;
  return made;
};
const MARGIN = { left: 58, right: 14, top: 30, bottom: 46 };

// Returns the element, with `spots`: where each point lies, for pointer and keyboard.
function drawChart(points, view, width) {
  const facets = view.facets.filter((facet) => points.some((point) => point.facet === facet));
  const inRow = Math.min(facets.length, width > 860 ? 3 : width > 520 ? 2 : 1);
  const wide = Math.floor(width / inRow);
  const tall = facets.length > 1 ? 270 : Math.min(430, Math.max(300, width * 0.45));
  const numeric = points.every((point) => point.x === null || typeof point.x === "number");
  const bottom = numeric ? MARGIN.bottom : bottomFor(points, view);
  const rows = Math.ceil(facets.length / inRow);
  const height = rows * (tall + bottom - MARGIN.bottom);
  const chart = element("svg", { viewBox: `0 0 ${width} ${height}`, width, height, "font-size": 12, "font-family": "sans-serif", role: "img" });
  const ranges = { y: points.flatMap((point) => [point.mean, point.low, point.high]).filter(Number.isFinite), x: points.flatMap((point) => [point.x, point.xlow, point.xhigh]).filter(Number.isFinite), numeric };
  chart.spots = [];
  chart.texts = [];
  facets.forEach((facet, place) => {
    const left = (place % inRow) * wide, top = Math.floor(place / inRow) * (tall + bottom - MARGIN.bottom);
    const box = { left: left + MARGIN.left, right: left + wide - MARGIN.right, top: top + MARGIN.top, bottom: top + tall - MARGIN.bottom };
    drawPanel(chart, points.filter((point) => point.facet === facet), view, box, ranges, facets.length > 1 ? view.facetname(facet) : "");
  });
  return chart;
}

const bottomFor = (points, view) => Math.min(150, 40 + 6 * Math.max(...points.map((point) => view.xname(point.x).length)) * 0.72);

function drawPanel(chart, points, view, box, ranges, title) {
  const y = numberScale(ranges.y, [box.bottom, box.top], view.ylog);
  const without = ranges.numeric && points.some((point) => point.x === null);
  const start = box.left + (without ? 46 : 0);
  const kinds = ranges.numeric ? [] : view.xkinds;
  const x = ranges.numeric ? numberScale(ranges.x.length ? ranges.x : [0], [start, box.right], view.xlog) : kindScale(kinds, [box.left, box.right]);
  const at = (value) => (value === null && ranges.numeric ? box.left + 22 : x.at(value));
  if (ranges.numeric && !view.scatter) x.ticks = measuredTicks(view.xkinds, x, view.xlog);
  drawAxes(chart, { x, y, without, at }, view, box, ranges.numeric, title);
  view.colours.forEach(({ kind, colour, place: mark }, place) => {
    const own = points.filter((point) => point.colour === kind);
    if (!own.length) return;
    const step = ranges.numeric ? (view.scatter ? 0 : 4) : Math.min(9, (0.7 * x.width) / view.colours.length);
    const shift = view.runs && ranges.numeric ? 0 : (place - (view.colours.length - 1) / 2) * step;
    drawSeries(chart, own, { at, y, shift, colour: `var(--${colour})`, kind, mark }, view, box);
  });
}

// Where a coordinate was measured; with little room only every second, third, ... of these places.
function measuredTicks(kinds, x, log) {
  const places = kinds.filter((kind) => kind !== null && (!log || kind > 0));
  const room = Math.abs(x.at(places.at(-1)) - x.at(places[0])) / 34;
  const every = Math.max(1, Math.ceil(places.length / Math.max(room, 1)));
  return places.filter((_, place) => place % every === 0);
}

function drawAxes(chart, { x, y, without, at }, view, box, numeric, title) {
  for (const tick of y.ticks) {
    const height = y.at(tick);
    chart.append(element("path", { d: `M${box.left} ${height}H${box.right}`, stroke: "var(--grid)" }));
    chart.append(element("text", { x: box.left - 7, y: height + 4, "text-anchor": "end", fill: "var(--ink)" }, formatted(tick)));
  }
  chart.append(element("path", { d: `M${box.left} ${box.bottom}H${box.right}`, stroke: "var(--muted)" }));
  const turned = !numeric && x.ticks.some((tick) => view.xname(tick).length * 7 > x.width);  // all, or some would cover others
  for (const tick of x.ticks) {
    const text = numeric ? formatted(tick) : view.xname(tick);
    const place = turned ? `translate(${at(tick) + 4} ${box.bottom + 14}) rotate(-40)` : `translate(${at(tick)} ${box.bottom + 17})`;
    chart.append(element("text", { transform: place, "text-anchor": turned ? "end" : "middle", fill: "var(--ink)" }, text.length > 26 ? `${text.slice(0, 25)}…` : text));
  }
  if (without) chart.append(element("text", { x: at(null), y: box.bottom + 17, "text-anchor": "middle", fill: "var(--ink)" }, "none"));
  if (numeric) chart.append(element("text", { x: (box.left + box.right) / 2, y: box.bottom + 37, "text-anchor": "middle", fill: "var(--ink)" }, view.xtitle));
  const heading = element("text", { x: box.left - MARGIN.left + 4, y: box.top - 13, fill: "var(--ink)" }, view.ytitle);
  if (title) heading.append(" · ", titleSpan(title));
  chart.append(heading);
}

const titleSpan = (title) => {
  const span = document.createElementNS(SVG, "tspan");
  span.setAttribute("font-weight", "bold");
  span.textContent = title;
  return span;
};

// A shape per kind beside its colour: dot, square, diamond, triangles, cross.
const SHAPES = [
  (r) => `m${-r} 0a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0`,
  (r) => `m${-0.9 * r} ${-0.9 * r}h${1.8 * r}v${1.8 * r}h${-1.8 * r}z`,
  (r) => `m0 ${-1.3 * r}l${1.3 * r} ${1.3 * r}l${-1.3 * r} ${1.3 * r}l${-1.3 * r} ${-1.3 * r}z`,
  (r) => `m0 ${-1.2 * r}l${1.2 * r} ${2.2 * r}h${-2.4 * r}z`,
  (r) => `m0 ${1.2 * r}l${1.2 * r} ${-2.2 * r}h${-2.4 * r}z`,
  (r) => `m${-0.4 * r} ${-1.2 * r}h${0.8 * r}v${0.8 * r}h${0.8 * r}v${0.8 * r}h${-0.8 * r}v${0.8 * r}h${-0.8 * r}v${-0.8 * r}h${-0.8 * r}v${-0.8 * r}h${0.8 * r}z`,
];
const markOf = (place, left, top, radius) => `M${left.toFixed(1)} ${top.toFixed(1)}${SHAPES[place % SHAPES.length](radius)}`;

// One path per kind of mark, whatever the number of points: ten thousand elements would be slow.
function drawSeries(chart, points, { at, y, shift, colour, kind, mark }, view, box) {
  const group = element("g", { stroke: colour, fill: "none", "stroke-linecap": "round", "data-kind": shownKind(kind) });
  const place = (point) => [at(point.x) + shift, y.at(point.mean)];
  const ordered = points.filter((point) => Number.isFinite(point.mean) && (point.x !== null || view.allowsNone));
  const number = (value) => value.toFixed(1);
  const radius = view.runs ? 2.5 : 3.75;
  let whiskers = "", dots = "", lines = "", across = "";
  const lineOf = new Map();
  for (const point of ordered) {
    const [left, top] = place(point);
    if (point.low < point.high) whiskers += `M${number(left)} ${number(y.at(point.low))}V${number(y.at(point.high))}`;
    if (point.xlow < point.xhigh) whiskers += `M${number(at(point.xlow))} ${number(top)}H${number(at(point.xhigh))}`;
    dots += markOf(mark, left, top, radius);
    if (point.text && hasRoom(chart.texts, left, top)) group.append(element("text", { x: left + 6, y: top - 6, fill: colour, stroke: "none" }, point.text));
    if (point.x === null && view.lines) across += `M${box.left} ${number(top)}H${box.right}`;
    if (point.x !== null && view.lines) lineOf.set(point.line, [...(lineOf.get(point.line) ?? []), point]);
    chart.spots.push({ left, top, point });
  }
  for (const own of lineOf.values()) {
    own.sort((one, other) => one.x - other.x);
    lines += own.map((point, step) => `${step ? "L" : "M"}${place(point).map(number).join(" ")}`).join("");
  }
  const draw = (d, attributes) => d && group.append(element("path", { d, ...attributes }));
  draw(across, { "stroke-dasharray": "2 6", "stroke-width": 1.2, opacity: 0.8 });
  draw(lines, { "stroke-width": 2, "stroke-linejoin": "round" });
  draw(whiskers, { "stroke-width": 1.4, "stroke-linecap": "butt" });
  draw(dots, { fill: colour, stroke: "none", opacity: view.runs ? 0.55 : 1 });
  chart.append(group);
}

// Whether a text at a point covers none before it; there are never many.
function hasRoom(texts, left, top) {
  const free = texts.length < 60 && texts.every((other) => Math.abs(other.left - left) > 32 || Math.abs(other.top - top) > 13);
  if (free) texts.push({ left, top });
  return free;
}
