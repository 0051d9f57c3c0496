"""Does a page run or fetch anything that a stranger's results folder says? Markup in every field of every file.

By hand: `python -m tests.stress.pages`. Every field in turn, then all together, is filled with markup that asks a
server of this machine; the page is read, and opened in Chromium.
"""

import argparse
import copy
import json
import shutil
import sys
import tempfile
import threading
import time
from contextlib import contextmanager, suppress
from html.parser import HTMLParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from routebench.engine.results import digest, unpack
from routebench.engine.results._checksum import sealed

PACK = Path(__file__).parents[1] / "packs" / "accuracy-quick"
FIXED = {"cell", "schema", "arrays", "files", "checksum", "status", "sequence", "plan"}
"""What no other text can stand in, or what names files of the folder."""
CHOOSING = {"record.identity.protocol", "plan.protocol", "plan.preset", "record.metrics.metric", "record.metrics.split"}
CHOOSING |= {"record.metrics.unit", "record.identity.role", "plan.cells.identity.role", "plan.cells.identity.protocol"}
"""By these, routebench chooses what it shows."""
TABLES = ("identity.training", "identity.method_params", "identity.options", "identity.model_params", "metrics.where")
TABLES += ("provenance", "provenance.versions", "provenance.plugins", "provenance.environment", "settings", "networks")
"""Tables whose keys are free."""
SHARED = ("suite", "protocol", "method", "model", "data", "role", "variant", "label", "params")
"""Fields that plans and records have alike; a page pairs them by these."""
DRAWN = {"xpwn", "iframe", "object", "embed", "base", "img", "script", "form", "link", "meta"}


def payload(url):
    """Markup that leaves an attribute, an element, a script, a comment; the address needs no slash and no colon."""
    hidden = url.replace(":", "&#58;").replace("/", "&#47;")
    return (
        "x\"'></script></style></title></textarea>--></svg>]]>"
        f'<meta http-equiv="refresh" content="0;url={hidden}"><xpwn onload=alert(1)>'
        f'<img src="{hidden}" onerror=alert(2)>'
        f"<iframe src='{hidden}'></iframe><link rel=stylesheet href='{hidden}'><svg onload=alert(3)>"
        "<a href=javascript:alert(4)>{{7*7}}${7*7}"
    )


def names_of(content, where):
    """The fields of a file that hold text, and `TABLE[]` for the keys of a free table."""
    if isinstance(content, dict):
        inner = [
            name for key, value in content.items() if key not in FIXED for name in names_of(value, f"{where}.{key}")
        ]
        return [*inner, *([f"{where}[]"] if where.endswith(TABLES) else [])]
    if isinstance(content, list):
        return [name for value in content for name in names_of(value, where)]
    return [where] if isinstance(content, str) else []


def poisoned(content, where, fields, text):
    """The content with text behind that of some fields."""
    if isinstance(content, dict):
        found = {
            key: value if key in FIXED else poisoned(value, f"{where}.{key}", fields, text)
            for key, value in content.items()
        }
        return {**found, text: text} if f"{where}[]" in fields else found
    if isinstance(content, list):
        return [poisoned(value, where, fields, text) for value in content]
    return f"{content}{text}" if isinstance(content, str) and where in fields else content


def batched(names, size):
    """The names, so many at a time."""
    return [names[start : start + size] for start in range(0, len(names), size)]


class Hostile:
    """A results folder with text of a stranger's in it.

    Args:
        folder: where it is made; a copy of a real one.
    """

    def __init__(self, folder):
        self.folder = folder
        unpack(PACK, folder)
        self.plans = {file: json.loads(file.read_bytes()) for file in (folder / "plans").iterdir()}
        self.records = {file: json.loads(file.read_bytes()) for file in (folder / "records").iterdir()}
        for plan in self.plans.values():
            plan.setdefault("settings", {}).setdefault("models", [plan["cells"][0]["identity"]["model"]])
            plan |= {"yours": [plan["cells"][0]["label"]], "caveat": "A caveat."}
            plan["settings"].setdefault("note", "A note.")
        first = next(iter(self.records.values()))
        first |= {"warnings": ["A warning."], "output": "An output.", "status": "failed", "reason": "It failed."}
        first |= {"metrics": [], "arrays": None}
        for record in self.records.values():
            record["identity"]["variant"] = record["identity"].get("variant") or ""
            record["provenance"] |= {"plugins": {"mine.py": "0"}, "environment": {"OMP": "1"}, "hostname": "here"}
            for metric in record["metrics"]:
                metric["where"] = {**metric.get("where", {}), "layer": "classes"}
        for plan in self.plans.values():
            for cell in plan["cells"]:
                cell["identity"]["variant"] = cell["identity"].get("variant") or ""

    @property
    def fields(self):
        """Every field, those that plans and records share once."""
        found = [name for plan in self.plans.values() for name in names_of(plan, "plan")]
        found += [name for record in self.records.values() for name in names_of(record, "record")]
        return [name for name in dict.fromkeys(found) if not name.startswith("plan.cells.")]

    def fill(self, fields, text):
        """Writes every file anew, with text in these fields; keys of cells follow their identities."""
        both = {*fields, *(name.replace("record.", "plan.cells.", 1) for name in fields)}
        both |= {"record.identity.suite", "plan.cells.identity.suite"} if "plan.suite" in fields else set()
        for part in ("plans", "records", "arrays"):
            shutil.rmtree(self.folder / part)
            (self.folder / part).mkdir()
        with tempfile.TemporaryDirectory() as name:
            unpack(PACK, Path(name) / "whole")
            for record in self.records.values():
                self._write(poisoned(record, "record", both, text), Path(name) / "whole")
        for file, plan in self.plans.items():
            changed = poisoned(plan, "plan", both, text)
            for cell in changed["cells"]:
                cell["cell"] = digest(cell["identity"])
            file.write_text(sealed(changed))

    def _write(self, record, whole):
        record = copy.deepcopy(record)
        old, new = record["cell"], digest(record["identity"])
        record["cell"] = new
        if record["arrays"]:
            record["arrays"] = f"arrays/{new}.safetensors"
            shutil.copy(whole / "arrays" / f"{old}.safetensors", self.folder / "arrays" / f"{new}.safetensors")
        record["files"] = {name.replace(old, new): known for name, known in (record.get("files") or {}).items()}
        (self.folder / "records" / f"{new}.json").write_text(sealed(record))


class Finder(HTMLParser):
    """Collects what a browser would run or fetch, apart from the page's own."""

    def __init__(self, text):
        super().__init__()
        self.found, self.own = [], {"script": 0, "form": 0, "meta": 0, "link": 0}
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.own[tag] = self.own.get(tag, 0) + 1
        told = dict(attrs)
        is_own = (
            (tag == "form" and told.get("id") in {"explorer-controls", "against-controls"})
            or (tag == "script" and set(told) <= {"type", "id"})
            or (tag == "meta" and "refresh" not in str(told.get("http-equiv", "")).lower())
            or (tag == "link" and told == {"rel": "icon", "href": "data:,"})
        )
        if tag in DRAWN and not is_own:
            self.found.append((tag, told))
        for name, value in attrs:
            if name.startswith("on") or (value and "url(" in value and "url(#" not in value and name != "content"):
                self.found.append((tag, name, value))
            if name.rpartition(":")[2] in {"src", "href", "action", "formaction", "data"} and not (
                value or ""
            ).startswith(("#", "data:")):
                self.found.append((tag, name, value))


@contextmanager
def listening():
    """A server of this machine: its address, and the list of what it was asked for."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    # One thread for each, because a browser keeps connections open on which it says nothing.
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/asked", asked
        finally:
            server.shutdown()


def opened(chromium, file, seconds=0.7):
    """What a page says in a dialog, and where the browser is after a while."""
    from playwright.sync_api import Error

    page, said = chromium.new_page(), []
    page.on("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))
    page.goto(file.as_uri())
    time.sleep(seconds)
    with suppress(Error):  # it has gone elsewhere
        for address in ("#explorer", "#against", "#words"):
            page.evaluate(f"location.hash = {address!r}")
        page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })")
        time.sleep(seconds)
    here = page.url.partition("#")[0]
    page.close()
    return said, here


def main():
    """The command."""
    from playwright.sync_api import sync_playwright

    from tests.report.browsing import BROWSER
    from tests.stress.forked import call

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("fields", nargs="*", help="only these")
    parser.add_argument("--together", type=int, default=1, help="so many fields in one folder")
    chosen, together = parser.parse_args().fields, parser.parse_args().together
    held = tried = 0
    with tempfile.TemporaryDirectory() as name, listening() as (url, asked), sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        hostile = Hostile(Path(name) / "results")
        every = hostile.fields
        page = hostile.folder / "report.html"
        parts = [[*part] for part in batched(chosen or every, together)]
        for number, fields in enumerate([*parts, every, [*set(every) - CHOOSING]]):
            hostile.fill(fields, payload(f"{url}-{number}"))
            shutil.rmtree(hostile.folder / "report-figures", ignore_errors=True)
            page.unlink(missing_ok=True)
            ended = call("report", hostile.folder, seconds=300)
            found = Finder(page.read_text(encoding="utf-8")).found if page.exists() else []
            asked.clear()
            said, here = opened(chromium, page) if page.exists() else ([], page.as_uri())
            is_held = ended.is_told and not found and not asked and not said and here == page.as_uri()
            tried, held = tried + 1, held + is_held
            seen = f"asked {asked[:3]}, said {said}, at {here}, {found[:2]}, {ended.error[-200:]!r}"
            told = "held" if is_held else f"NOT HELD {seen:.700}"
            names = ", ".join(fields) if len(fields) <= together else f"{len(fields)} fields"
            sys.stdout.write(f"{names}: exit {ended.code}, {told}\n")
            sys.stdout.flush()
        chromium.close()
    sys.stdout.write(f"{held} of {tried} held\n")


if __name__ == "__main__":
    main()
