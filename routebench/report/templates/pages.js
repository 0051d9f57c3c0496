// One page at a time, as the address says: `#accuracy`, `#accuracy-accuracy-table`, `#explorer?x=iterations`.
const pages = [...document.querySelectorAll(".page")];
const OPENED = { explorer: openExplorer, against: openAgainst };

function showPage(moved) {
  const [id, query] = location.hash.slice(1).split(/\?(.*)/s);
  const target = document.getElementById(decodeURIComponent(id));
  const page = target?.closest(".page") ?? pages[0];
  for (const other of pages) other.classList.toggle("current", other === page);
  for (const link of document.querySelectorAll("nav a")) {
    const here = link.hash === `#${page.id}`;
    if (here) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
    if (here) link.scrollIntoView({ block: "nearest", inline: "nearest", behavior: "instant" });
  }
  for (const menu of document.querySelectorAll("nav details")) menu.open = false;
  OPENED[page.id]?.(query ?? null);
  if (target && target !== page) {
    for (let above = target; above; above = above.parentElement) if (above.tagName === "DETAILS") above.open = true;
    target.scrollIntoView({ behavior: "instant" });
  } else if (moved) {
    scrollTo({ top: 0, behavior: "instant" });
    page.querySelector("h1, h2")?.focus({ preventScroll: true });
  }
}

document.documentElement.classList.add("paged");
addEventListener("hashchange", () => showPage(true));
showPage(false);
