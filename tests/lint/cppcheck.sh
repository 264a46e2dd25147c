#!/bin/sh
# cppcheck over the product's sources. Suppressed: what it only guesses about code it does not see.
cd "$(dirname "$0")/../.." || exit 1
mkdir -p build/cppcheck
# house.cfg says that a failed CHECK ends the process.
# Check's START_TEST/END_TEST and uthash's macros are not seen here, hence no tests and no map.c in depth.
out=$(cppcheck --quiet --std=c11 --language=c --enable=warning,performance,portability --inline-suppr -j 2 \
    --cppcheck-build-dir=build/cppcheck --library=tests/lint/house.cfg --error-exitcode=1 -I src -I include -D_GNU_SOURCE -D__GNUC__ \
    --suppress=missingIncludeSystem --suppress=unknownMacro --suppress=internalAstError src 2>&1)
code=$?
[ -n "$out" ] && echo "$out"
exit $code
