"""The outline of a page: what a browser would make of it, without one."""

import re
from html.parser import HTMLParser

VOID = {"meta", "link", "br", "img", "hr", "input"}


class Outline(HTMLParser):
    """Checks that elements are closed in order, and collects what a browser would act on."""

    def __init__(self, text: str):
        super().__init__()
        self.open, self.ids, self.addresses, self.tags, self.headings = [], [], [], [], []
        self.pages = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        known = dict(attrs)
        self.tags.append(tag)
        self.addresses += [known[key] for key in ("src", "href", "xlink:href", "action", "data") if key in known]
        self.ids += [known["id"]] if "id" in known else []
        if "page" in (known.get("class") or "").split():
            assert "article" not in self.open  # a page in a page could not be shown alone
            self.pages.append(known["id"])
        if re.fullmatch(r"h[1-6]", tag):
            self.headings.append(int(tag[1]))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag
