"""Reads the tables of models, rope-core/models/src/types/rows.rs and architectures.rs: Rust, one row a name.

A row is `"name" = BASE { field: value, .. };` within `rows! { .. }`. Values are Rust expressions, and stay text.
"""

import pathlib
import re

SOURCES = pathlib.Path(__file__).parents[2] / "rope-core/models/src"
TYPES = SOURCES / "types/rows.rs"
ARCHITECTURES = SOURCES / "architectures.rs"


def split(text, comma=","):
    """The pieces of a list between commas that are in no bracket and no text."""
    pieces, depth, start, quoted = [], 0, 0, False
    for at, letter in enumerate(text):
        if letter == '"':
            quoted = not quoted
        elif quoted:
            continue
        elif letter in "([{":
            depth += 1
        elif letter in ")]}":
            depth -= 1
        elif letter == comma and depth == 0:
            pieces.append(text[start:at].strip())
            start = at + 1
    return [piece for piece in [*pieces, text[start:].strip()] if piece]


class Row:
    def __init__(self, name, base, fields):
        self.name, self.base, self.fields = name, base, fields

    def expression(self, struct):
        """The row as a value in Rust, of that struct."""
        fields = "".join(f"{field}: {value}, " for field, value in self.fields.items())
        return f"{struct} {{ {fields}..{self.base} }}"

    def changed(self, **fields):
        """The row with other fields."""
        return Row(self.name, self.base, self.fields | fields)


def read(path):
    """The rows of a table by their names, and what stands before and after them in the file."""
    text = path.read_text()
    before, _, rest = text.partition("\nrows! {\n")
    body, _, after = rest.rpartition("\n}")
    rows = {}
    for row in split(re.sub(r"//[^\n]*", "", body), ";"):
        name, base, fields = re.fullmatch(r'"([^"]+)"\s*=\s*(\w+)\s*(?:\{(.*)\})?', row, re.S).groups()
        pairs = (re.fullmatch(r"(\w+):\s*(.*)", field, re.S).groups() for field in split(fields or ""))
        assert name not in rows, name
        rows[name] = Row(name, base, {field: re.sub(r"\s+", " ", value) for field, value in pairs})
    return rows, before + "\nrows! {\n", "\n}" + after


def bases(path):
    """The fields of the constants that rows start from, by their names."""
    found = {}
    for name, body in re.findall(r"pub\(crate\) const ([A-Z_]+): \w*Row = \w*Row \{\n(.*?)\n\};", path.read_text(), re.S):
        fields = {}
        for field in split(re.sub(r"//[^\n]*", "", body)):
            if field.startswith(".."):
                fields = found[field[2:]] | fields
            else:
                key, _, value = field.partition(":")
                fields[key.strip()] = re.sub(r"\s+", " ", value.strip())
        found[name] = fields
    return found


def whole(row, all_bases):
    """All fields of a row, those of its base too."""
    return all_bases[row.base] | row.fields


def keys():
    """The keys of files that rows name."""
    source = (SOURCES / "types/row.rs").read_text()
    return re.search(r"    Key:\n(.*?)\n\}", source, re.S)[1].split()


def lists():
    """The lists of types without rows, by their names in the source."""
    others = (SOURCES / "types/others.rs").read_text()
    found = dict(re.findall(r'const (\w+): &str = "\\\n(.*?)";', others, re.S))
    assert found.keys() >= {"FLAT", "PARTS"}, found.keys()
    return found


def flat():
    """The composites whose text model may lie flat in the file, and its type."""
    return dict(line.split() for line in lists()["FLAT"].splitlines())


def composites():
    """The types whose parts have types of their own."""
    return set(re.findall(r"^([^\s:]+):", lists()["PARTS"], re.M))


def names():
    """All model types that are known, those without a rotation too."""
    others = (SOURCES / "types/others.rs").read_text()
    found = set(read(TYPES)[0]) | composites()
    found.update(word for name, listed in lists().items() if name != "PARTS" for word in listed.split())
    refused = re.search(r"const REFUSED.*?refused! \{\n(.*?)\n\};", others, re.S)[1]
    return found | set(re.findall(r'^\s*"([^"\s]+)":', refused, re.M))
