// Shows the rows that the form asks for.
const form = document.getElementById("filter"), rows = [...document.querySelectorAll("tbody tr")];
const wanted = form.elements;

function isShown(row) {
  const text = wanted.text.value.trim().toLowerCase();
  return wanted[row.dataset.kind].checked && ["", row.dataset.steps].includes(wanted.steps.value)
    && row.textContent.toLowerCase().includes(text);
}

form.addEventListener("input", () => {
  for (const row of rows) row.hidden = !isShown(row);
  wanted.count.value = `${rows.filter((row) => !row.hidden).length} of ${rows.length} rows`;
});
form.addEventListener("submit", (event) => event.preventDefault());
form.hidden = false;
