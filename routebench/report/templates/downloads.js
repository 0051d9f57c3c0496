// Files made in the page: what is shown as CSV, and figures as SVG documents in the colours for white paper.
function save(name, kind, text) {
  const link = document.createElement("a");
  link.download = name;
  link.href = URL.createObjectURL(new Blob([text], { type: `${kind};charset=utf-8` }));
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
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
