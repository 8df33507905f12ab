"""Reads a page as a browser does: headings, ids and tags, and a complaint about what is not closed."""

from html.parser import HTMLParser

VOID = {"meta", "br", "img", "link", "input"}


class Walker(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.headings, self.ids, self.tags = [], [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.ids += [value for name, value in attrs if name == "id"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "h2":
            self.headings.append(data)


def walked(html):
    """A page that was walked through: whole, and with no id twice."""
    walker = Walker()
    walker.feed(html)
    assert walker.open == []
    assert len(walker.ids) == len(set(walker.ids))
    return walker
