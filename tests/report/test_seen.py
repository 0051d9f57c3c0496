"""Published pages in a browser, wide and narrow, light, dark and printed: nothing is cut off, covered or asked for."""

import re
from pathlib import Path

import pytest

from tests.report.browsing import WIDE, opened, skip_without_browser

skip_without_browser()
REPORTS = Path(__file__).parents[2] / "reports"
PAGES = sorted(REPORTS.glob("*/report.html"))
NARROW = (390, 844)
SCHEMES = {WIDE: "light", NARROW: "dark"}
"""Schemes differ in colours alone, which `test_a_scheme_is_colours_alone` holds: each size is looked at in one."""

SHOWN = """
const shown = (one) => one.checkVisibility({ checkOpacity: true, checkVisibilityCSS: true });
const told = (one) => (one.id ? '#' + one.id + ' ' : '') + one.textContent.trim().replace(/\\s+/g, ' ').slice(0, 60);
const boxes = (all) => all.filter((one) => shown(one) && one.textContent.trim()).map((one) => {
  const { left, right, top, bottom } = one.getBoundingClientRect();
  return { one, left, right, top, bottom, area: (right - left) * (bottom - top) };
}).filter((box) => box.area > 0);
"""

SIDEWAYS = """() => {
  const page = document.documentElement;
  return page.scrollWidth > page.clientWidth + 1 ? page.scrollWidth - page.clientWidth : 0;
}"""

CUT_OFF = f"""() => {{ {SHOWN}
  return [...document.querySelectorAll('h1, h2, h3, p, li, a, button, label, dt, dd, th, summary')].filter((one) => {{
    const style = getComputedStyle(one);
    const hides = (way) => ['hidden', 'clip'].includes(way);
    const high = hides(style.overflowY) && one.scrollHeight > one.clientHeight + 2;
    const wide = hides(style.overflowX) && one.scrollWidth > one.clientWidth + 2;
    return shown(one) && one.clientWidth > 4 && (high || wide);
  }}).map(told);
}}"""
"""Text that its own box hides a part of."""

OUTSIDE = f"""() => {{ {SHOWN}
  const scrolls = (one) => one && one !== document.body
    && (['auto', 'scroll'].includes(getComputedStyle(one).overflowX) || scrolls(one.parentElement));
  const right = document.documentElement.clientWidth + 1;
  return boxes([...document.querySelectorAll('h1, h2, h3, p, li, dt, dd, button, label, figure, table')])
    .filter((box) => box.right > right && !scrolls(box.one)).map((box) => told(box.one));
}}"""
"""What reaches over the right edge where nothing scrolls."""

OVERLAPS = f"""() => {{ {SHOWN}
  const found = [], turned = (text) => (text.getAttribute('transform') ?? '').includes('rotate(-40)');
  for (const drawing of document.querySelectorAll('svg')) {{
    const all = boxes([...drawing.querySelectorAll('text')]);
    all.forEach((one, place) => all.slice(place + 1).forEach((other) => {{
      const across = Math.min(one.right, other.right) - Math.max(one.left, other.left);
      const down = Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top);
      if (turned(one.one) && turned(other.one)) {{  // beside each other, where their boxes are not
        const apart = Math.abs(one.right - other.right) * Math.sin(40 * Math.PI / 180);
        if (apart < 8) found.push(told(one.one) + ' | ' + told(other.one));
        return;
      }}
      const shared = across > 0 && down > 0 ? across * down / Math.min(one.area, other.area) : 0;
      if (shared > 0.25) found.push(told(one.one) + ' | ' + told(other.one));
    }}));
  }}
  return found;
}}"""
"""Labels of figures that cover each other by more than a quarter."""


def parts_of(page):
    """The addresses of the parts that the navigation names."""
    return page.eval_on_selector_all("nav a[href^='#']", "links => [...new Set(links.map(one => one.hash))]")


def test_pages_are_published():
    assert "quick" in {file.parent.name for file in PAGES}


@pytest.mark.parametrize("size", SCHEMES, ids=str)
@pytest.mark.parametrize("file", PAGES, ids=lambda file: file.parent.name)
def test_every_part_can_be_read(chromium, file, size):
    with opened(chromium, file, size, SCHEMES[size]) as page:
        parts = parts_of(page)
        assert parts
        for part in parts:
            page.evaluate("address => { location.hash = address }", part)
            page.wait_for_timeout(50)
            faults = {
                name: page.evaluate(check)
                for name, check in {
                    "scrolls sideways": SIDEWAYS,
                    "cut off": CUT_OFF,
                    "outside": OUTSIDE,
                    "labels on each other": OVERLAPS,
                }.items()
            }
            assert not any(faults.values()), (part, faults)


@pytest.mark.parametrize("file", PAGES, ids=lambda file: file.parent.name)
def test_a_scheme_is_colours_alone(file):
    text = file.read_text(encoding="utf-8")
    rules = re.findall(r"@media [^{]*prefers-color-scheme: \w+\) \{(.*?\})\s*\}", text, re.DOTALL)
    assert len(rules) == len(re.findall("prefers-color-scheme|matchMedia", text)) == 2
    colour = r"\s*--[\w-]+: (#[0-9a-f]{3,8}|rgb\([\d ./]+\)|var\(--[\w-]+\));\s*"
    assert all(re.fullmatch(rf"\s*:root \{{({colour})+\}}", rule) for rule in rules)


@pytest.mark.parametrize("file", PAGES, ids=lambda file: file.parent.name)
def test_every_link_leads_somewhere(chromium, file):
    with opened(chromium, file) as page:
        addresses = page.eval_on_selector_all("a[href^='#']", "links => [...new Set(links.map(one => one.hash))]")
        assert addresses
        by_name = {address.partition("?")[0]: address for address in addresses}
        for address in by_name.values():
            page.evaluate("address => { location.hash = address }", address)
        found = page.evaluate("names => names.map(name => document.querySelectorAll(name).length)", [*by_name])
        assert {*found} == {1}, dict(zip(by_name, found, strict=True))


@pytest.mark.parametrize("file", PAGES, ids=lambda file: file.parent.name)
def test_a_table_is_sorted_by_mouse_and_by_keyboard(chromium, file):
    column = """table => [...table.tBodies[0].rows].map(row => row.cells[1].textContent.trim())"""
    with opened(chromium, file) as page:
        for part in parts_of(page):
            page.evaluate("address => { location.hash = address }", part)
            tables = page.locator("table.sortable:visible")
            if not tables.count():
                continue
            table = tables.first
            if len(table.evaluate(column)) < 3:
                continue
            head = table.locator("thead th").nth(1)
            button = head.locator("button").first if head.locator("button").count() else head
            button.scroll_into_view_if_needed()
            before = table.evaluate(column)
            button.click()
            once, way = table.evaluate(column), head.get_attribute("aria-sort")
            button.press("Enter")
            twice, other = table.evaluate(column), head.get_attribute("aria-sort")
            assert {way, other} == {"ascending", "descending"}
            assert sorted(before) == sorted(once) == sorted(twice)
            if len(set(once)) > 1:
                assert once != twice
            return
        pytest.skip("no table of three rows can be sorted")


@pytest.mark.parametrize("file", PAGES, ids=lambda file: file.parent.name)
def test_print_loses_no_column_and_no_figure(chromium, file):
    with opened(chromium, file, size=(1024, 695)) as page:  # A4 across at 96 dots per inch, less its margins
        page.emulate_media(media="print")
        lost = page.evaluate(
            f"""() => {{ {SHOWN}
            return boxes([...document.querySelectorAll('th, td, figure svg')])
              .filter((box) => box.right > document.documentElement.clientWidth + 1 || box.bottom - box.top > 695)
              .map((box) => told(box.one)); }}"""
        )
        assert lost == []
        heads = page.locator("thead button").evaluate_all("all => all.map((one) => getComputedStyle(one).display)")
        assert {*heads} <= {"contents", "none"}  # Chromium leaves out boxes where it repeats heads on the next page


@pytest.mark.parametrize("file", PAGES, ids=lambda file: file.parent.name)
def test_the_explorer_filters_and_shows_numbers_to_the_keyboard(chromium, file):
    with opened(chromium, file, address="#explorer") as page:
        if not page.locator("#explorer-drawing").count():
            pytest.skip("this page has no explorer")
        page.locator("#explorer-drawing [data-kind]").first.wait_for(state="attached")
        kinds = page.eval_on_selector_all("#explorer-drawing [data-kind]", "all => all.map(one => one.dataset.kind)")
        place = page.eval_on_selector_all(
            "#explorer button[aria-pressed]", "all => all.findIndex(one => one.ariaPressed === 'true')"
        )
        toggle = page.locator("#explorer button[aria-pressed]").nth(place)  # found anew each time: by its place
        name = toggle.inner_text().strip()
        toggle.focus()
        toggle.press("Enter")
        left = page.eval_on_selector_all("#explorer-drawing [data-kind]", "all => all.map(one => one.dataset.kind)")
        assert len(left) < len(kinds)
        assert toggle.get_attribute("aria-pressed") == "false", name
        assert re.search("hide=", page.evaluate("location.hash"))
