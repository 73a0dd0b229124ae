"""Checks that every relative link of the documents leads to a file, and to a heading of it if it names one, and that every
path they show in code exists. It starts nothing, and looks at nothing outside the tree."""
import re
import sys
from pathlib import Path

ROOMS = "config|metrics|balancer|proxy|lab|tests|scripts|docs"


def anchor(heading):
    """Returns the anchor that GitHub makes: it has no punctuation but hyphens, and blanks become hyphens."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def anchors(document):
    return {anchor(heading) for heading in re.findall(r"^#+ (.*)$", document.read_text(), re.M)}


def problems(document):
    text = document.read_text()
    for target in re.findall(r"\]\((?!\w+:)([^)\s]+)\)", text):
        path, _, heading = target.partition("#")
        file = document.parent / path if path else document
        if not file.exists():
            yield f"there is no {target}"
        elif heading and heading not in anchors(file):
            yield f"{target}: no such heading"
    for path in re.findall(rf"(?<![\w./-])((?:{ROOMS})/[\w./-]*\w)", text):
        # A document may name a header without its ending: `proxy/exchange/relay`.
        if not Path(path).exists() and not list(Path().glob(f"{path}.?pp")):
            yield f"there is no {path}"


def main():
    documents = [*Path().glob("*.md"), *Path("docs").glob("**/*.md"), *Path("tests").glob("**/*.md")]
    found = [f"{document}: {problem}" for document in documents for problem in problems(document)]
    print(*found, sep="\n", file=sys.stderr)
    return 1 if found else 0


sys.exit(main())
