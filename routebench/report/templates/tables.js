// Tables: made when first opened, sorted by the column whose heading is pressed, explained behind a "?".
for (const details of document.querySelectorAll("details.packed")) details.addEventListener("toggle", () => unpackTable(details));
for (const table of document.querySelectorAll("table.sortable")) setUpTable(table);

// The table of a block; one that was not opened yet is made first.
function tableOf(block) {
  const details = block.querySelector("details.packed");
  if (details) unpackTable(details);
  return block.querySelector("table");
}

function unpackTable(details) {
  const source = details.querySelector("script");
  if (!source) return;
  const { columns, rows, marks } = JSON.parse(source.textContent);
  const scroll = document.createElement("div"), table = document.createElement("table");
  Object.assign(scroll, { className: "scroll", tabIndex: 0, ariaLabel: details.querySelector("summary").textContent });
  scroll.setAttribute("role", "region");
  table.className = "sortable";
  const head = table.createTHead().insertRow(), body = table.createTBody();
  const classes = ([, , numeric, extra]) => [numeric && "number", extra && "extra"].filter(Boolean).join(" ");
  for (const column of columns) {
    const heading = Object.assign(document.createElement("th"), { scope: "col", className: classes(column), textContent: column[0] });
    if (column[1]) heading.dataset.why = column[1];
    head.append(heading);
  }
  rows.forEach((cells, place) => {
    const row = Object.assign(body.insertRow(), { className: marks[place] });
    cells.forEach(([text, key = text, ...limits], column) => {
      const cell = Object.assign(document.createElement(column ? "td" : "th"), { textContent: text, className: column ? classes(columns[column]) : "" });
      if (!column) cell.scope = "row";
      cell.dataset.key = key;
      if (limits.length) cell.dataset.limits = limits.join(" ");
      row.append(cell);
    });
  });
  scroll.append(table);
  source.replaceWith(scroll);
  setUpTable(table);
}

const keyOf = (cell) => cell.dataset.key ?? cell.textContent;

function setUpTable(table) {
  const headings = [...table.tHead.rows[0].cells];
  headings.forEach((heading, column) => {
    const button = Object.assign(document.createElement("button"), { type: "button", textContent: heading.textContent });
    button.addEventListener("click", () => sortBy(table, headings, column));
    heading.replaceChildren(button);
    heading.setAttribute("aria-sort", "none");
    if (heading.dataset.why) heading.append(why(button.textContent, heading.dataset.why));
  });
  if (headings.some((heading) => heading.classList.contains("extra"))) addMore(table);
}

function sortBy(table, headings, column) {
  const heading = headings[column], numeric = heading.classList.contains("number");
  const before = heading.getAttribute("aria-sort");
  const order = before === "none" ? (numeric ? "descending" : "ascending") : before === "ascending" ? "descending" : "ascending";
  headings.forEach((other) => other.setAttribute("aria-sort", "none"));
  heading.setAttribute("aria-sort", order);
  const sign = order === "ascending" ? 1 : -1;
  const compare = (one, other) => {
    const [a, b] = [one, other].map((row) => keyOf(row.cells[column]));
    if (a === "" || b === "") return (a === "") - (b === "");
    return sign * (numeric ? Number(a) - Number(b) : a.localeCompare(b, "en", { numeric: true }));
  };
  table.tBodies[0].append(...[...table.tBodies[0].rows].sort(compare));
}

function why(title, text) {
  const button = Object.assign(document.createElement("button"), { type: "button", className: "why", textContent: "?", title: text });
  button.setAttribute("aria-label", `${title}: ${text}`);
  button.addEventListener("click", () => {
    const open = button.nextElementSibling;
    if (open) return open.remove();
    button.after(Object.assign(document.createElement("span"), { className: "because", textContent: text }));
  });
  return button;
}

// Columns for who looks closer are shown on request.
function addMore(table) {
  const button = Object.assign(document.createElement("button"), { type: "button", className: "more" });
  const tell = () => {
    const all = table.classList.contains("all");
    button.textContent = all ? "Fewer columns" : "More columns";
    button.setAttribute("aria-pressed", String(all));
  };
  button.addEventListener("click", () => (table.classList.toggle("all"), tell()));
  tell();
  table.closest(".scroll").before(button);
}

for (const button of document.querySelectorAll("button[data-format]")) {
  button.addEventListener("click", () => saveTable(tableOf(button.closest(".downloads").parentElement), button.dataset.format, button.closest(".downloads").dataset));
}
