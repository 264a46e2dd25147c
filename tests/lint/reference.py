#!/usr/bin/python3
"""libwaybill's reference: each public function has a comment of its own and an example, in the comment or in tests/examples."""
import os
import re
import sys

import tree


def functions(text):
    """(name, comment before it) of each declaration at the left margin; a typedef's or a field's pointer is none."""
    for match in re.finditer(r"^(?!typedef|#| |/|\*)[^;{}#/]*?\b(wb_\w+)\(", text, flags=re.M):
        before = text[:match.start()].rstrip()
        comment = before[before.rindex("/**"):] if before.endswith("*/") else ""
        yield match.group(1), comment if comment.count("*/") == 1 else ""


def main():
    wrong = []
    folder = "tests/examples"
    shown = "".join(tree.code(path) for path in tree.files(folder))
    count = 0
    for path in tree.files("include", ends=(".h",)):
        for name, comment in functions(tree.text(path)):
            count += 1
            if not comment:
                wrong.append("%s: %s has no comment" % (path, name))
            elif "@code" not in comment and not re.search(r"\b%s\(" % name, shown):
                wrong.append("%s: %s has no example, neither a @code nor in %s" % (path, name, folder))
    if count < 50:
        wrong.append("only %d functions were found in %s" % (count, os.path.join(tree.ROOT, "include")))
    print("\n".join(wrong)) if wrong else None
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
