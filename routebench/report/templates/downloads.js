"use strict";
// Files made in the page: its tables, what is shown as CSV, and figures as SVG documents in the colours for white paper.
function save(name, kind, text) {
  const link = document.createElement("a");
  link.download = name;
  link.href = URL.createObjectURL(new Blob([text], { type: `${kind};charset=utf-8` }));
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

const FORMATS = {
  CSV: ["csv", "text/csv", ({ records }) => csvOf([Object.keys(records[0]), ...records.map(Object.values)])],
  JSON: ["json", "application/json", (table) => JSON.stringify({ title: table.title, origin: table.origin, rows: table.records }, null, 1)],
  Markdown: ["md", "text/markdown", markdownOf],
  LaTeX: ["tex", "application/x-tex", latexOf],
};

function saveTable(table, format, { stem, title, origin }) {
  const [ending, kind, write] = FORMATS[format];
  save(`${stem}.${ending}`, kind, write({ ...readTable(table), title, origin }));
}

// Texts of the columns that are shown, and records of all: unrounded numbers, with the limits of their intervals.
function readTable(table) {
  const headings = [...table.tHead.rows[0].cells], all = table.classList.contains("all");
  const titles = headings.map((heading) => heading.firstChild.textContent);
  const shown = headings.map((_, place) => place).filter((place) => all || !headings[place].classList.contains("extra"));
  const rows = [...table.tBodies[0].rows];
  const records = rows.map((row) => recordOf([...row.cells], headings, titles));
  const keys = [...new Set(records.flatMap(Object.keys))];
  const filled = records.map((record) => Object.fromEntries(keys.map((key) => [key, record[key] ?? ""])));
  return {
    header: shown.map((place) => titles[place]),
    numeric: shown.map((place) => headings[place].classList.contains("number")),
    rows: rows.map((row) => shown.map((place) => row.cells[place].textContent)),
    records: filled,
  };
}

function recordOf(cells, headings, titles) {
  const record = {};
  cells.forEach((cell, place) => {
    const key = keyOf(cell), numeric = headings[place].classList.contains("number");
    record[titles[place]] = !numeric || Number.isNaN(Number(key)) ? cell.textContent : key === "" ? "" : Number(key);
    if (!cell.dataset.limits) return;
    const [low, high] = cell.dataset.limits.split(" ").map(Number);
    Object.assign(record, { [`${titles[place]}, low`]: low, [`${titles[place]}, high`]: high });
  });
  return record;
}

function markdownOf({ header, numeric, rows, title, origin }) {
  const line = (cells) => `| ${cells.join(" | ")} |`;
  const escaped = (text) => text.replace(/[\\`*_{}[\]<>|#~$]/g, "\\$&");
  const lines = [line(header.map(escaped)), line(numeric.map((right) => (right ? "---:" : "---"))), ...rows.map((row) => line(row.map(escaped)))];
  return `**${escaped(title)}**\n\n${lines.join("\n")}\n\n<!-- ${origin.replaceAll("--", "- -")} -->\n`;
}

const IN_LATEX = { "\\": "\\textbackslash{}", "−": "$-$", "±": "$\\pm$", "≥": "$\\geq$", "≤": "$\\leq$", "≈": "$\\approx$", "×": "$\\times$", "°": "$^\\circ$", "′": "$'$", "∞": "$\\infty$", "–": "--", "<": "$<$", ">": "$>$", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}", "✓": "$\\checkmark$", "✗": "$\\times$" };
const inLatex = (text) => text.replace(/[&%$#_{}]/g, "\u0000$&").replace(/[\\−±≥≤≈×°′∞–<>~^✓✗]/g, (letter) => IN_LATEX[letter]).replaceAll("\u0000", "\\");

// One sentence as caption, what is shown as rows: notes are the author's to write.
function latexOf({ header, numeric, rows, title, origin }) {
  const line = (cells) => `${cells.map((cell) => inLatex(cell)).join(" & ").replace(/^[[*]/, "{}$&")} \\\\`;
  return [
    `% ${origin}`, "% needs \\usepackage{booktabs} and \\usepackage{amssymb}", "\\begin{table}", "\\centering", `\\caption{${inLatex(title)}.}`,
    `\\begin{tabular}{${numeric.map((right) => (right ? "r" : "l")).join("")}}`, "\\toprule", line(header), "\\midrule", ...rows.map(line),
    "\\bottomrule", "\\end{tabular}", "\\end{table}", "",
  ].join("\n");
}

const csvOf = (rows) => rows.map((row) => row.map(csvCell).join(",") + "\r\n").join("");

function csvCell(value) {
  const text = typeof value === "number" && !Number.isFinite(value) ? "" : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function standalone(drawing, paper) {
  const copy = drawing.cloneNode(true);
  copy.removeAttribute("style");
  const [, , width, height] = copy.getAttribute("viewBox").split(/[ ,]+/);
  const back = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  for (const [name, value] of Object.entries({ width, height, fill: "#ffffff" })) back.setAttribute(name, value);
  copy.prepend(back);
  const text = new XMLSerializer().serializeToString(copy);
  return text.replace(/var\(--([\w-]+)\)/g, (whole, name) => paper[name] ?? "#1c2026");
}

for (const button of document.querySelectorAll("button[data-svg]")) {
  button.addEventListener("click", async () => {
    const { facts } = await allValues();
    save(button.dataset.svg, "image/svg+xml", standalone(button.closest(".block").querySelector("figure svg"), facts.paper));
  });
}
