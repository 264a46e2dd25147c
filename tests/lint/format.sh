#!/bin/sh
# clang-format has the last word on layout. `tests/lint/format.sh --fix` lets it speak.
cd "$(dirname "$0")/../.." || exit 1
mode="--dry-run -Werror"
[ "${1:-}" = --fix ] && mode="-i"
# shellcheck disable=SC2086
find src include tests -name '*.[ch]' -not -path '*/build/*' -print0 | xargs -0 -r clang-format --style=file $mode 2>&1
