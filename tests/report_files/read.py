"""What a reader of a report's page sees."""

from html.parser import HTMLParser


class Page(HTMLParser):
    """tables: rows of cell texts. tags: names of all elements. headings: of sections. attributes: all, by element."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tables: list[list[list[str]]] = []
        self.tags: list[str] = []
        self.headings: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.text = ""
        self._inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        self._inside = tag
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")
        elif tag == "h2":
            self.headings.append("")

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside == "style":
            return
        self.text += data
        if self._inside in ("td", "th"):
            self.tables[-1][-1][-1] += data
        elif self._inside == "h2":
            self.headings[-1] += data

    def rows(self) -> list[list[str]]:
        return [row for table in self.tables for row in table]
