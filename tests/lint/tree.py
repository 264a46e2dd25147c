"""The source tree as the lints see it."""
import os
import re

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def files(*folders, ends=(".c", ".h")):
    for folder in folders:
        for place, names, found in os.walk(os.path.join(ROOT, folder)):
            names[:] = sorted(n for n in names if n not in ("build", ".git", "__pycache__"))
            for name in sorted(found):
                if name.endswith(tuple(ends)):
                    yield os.path.relpath(os.path.join(place, name), ROOT)


def text(path):
    with open(os.path.join(ROOT, path), encoding="utf-8", errors="replace") as f:
        return f.read()


def code(path):
    """The text with comments, strings and character constants blanked, line for line."""
    def blank(match):
        found = match.group(0)
        keep = "\n" * found.count("\n")
        return keep if found.startswith("/") else found[0] + found[0]
    pattern = r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
    return re.sub(pattern, blank, text(path), flags=re.S)


def includes(path):
    """[(line number, name, True if written with quotes)]"""
    found = []
    for number, line in enumerate(text(path).splitlines(), 1):
        match = re.match(r'\s*#\s*include\s+(["<])([^">]+)[">]', line)
        if match:
            found.append((number, match.group(2), match.group(1) == '"'))
    return found
