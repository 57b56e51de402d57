"""Follows every link of rustdoc's pages: rustdoc_links.py DOC CRATE ..

A link leads to a file of DOC and, after `#`, to an element of it. What leaves DOC is not followed.
"""

import html
import pathlib
import re
import sys
import urllib.parse

doc, crates = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:]
link = re.compile(r'<a\b[^>]*?\bhref="([^"]*)"')
identity = re.compile(r'\bid="([^"]*)"')
ids = {}


def has_id(page, wanted):
    if page not in ids:
        ids[page] = {html.unescape(found) for found in identity.findall(page.read_text())}
    return wanted in ids[page]


# `#[doc(hidden)]`: signatures of private functions lead to pages that rustdoc does not write.
hidden = [doc / "rope_core/internals"]
followed, wrong = 0, []
for crate in crates:
    for page in sorted((doc / crate).rglob("*.html")):
        for target in set(link.findall(page.read_text())):
            url = urllib.parse.urlsplit(html.unescape(target))
            if url.scheme or url.netloc:
                continue
            followed += 1
            led = (page.parent / urllib.parse.unquote(url.path)).resolve() if url.path else page
            # The lines of a source have no elements of their own in a range of several.
            is_source = (doc / "src") in led.parents
            if led.parent in hidden:
                continue
            if not led.exists():
                wrong.append(f"{page.relative_to(doc)}: {target}: no such file")
            elif url.fragment and not is_source and not has_id(led, url.fragment):
                wrong.append(f"{page.relative_to(doc)}: {target}: no such element")

for line in wrong:
    print(line)
assert followed > 1000, f"{followed} links in {doc}"
if wrong:
    sys.exit(f"{len(wrong)} of {followed} links lead nowhere")
print(f"{followed} links of rustdoc's pages lead somewhere")
