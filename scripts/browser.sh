#!/usr/bin/env bash
# Install what the tests of the page need where it is missing: Chromium, which they run in, and pdftotext, which reads
# what it prints.
set -euo pipefail
missing=()
command -v chromium >/dev/null || missing+=(chromium)
command -v pdftotext >/dev/null || missing+=(poppler-utils)
if [ ${#missing[@]} = 0 ]; then
  exit 0
fi
if ! command -v apt-get >/dev/null; then
  echo "the tests of the page need ${missing[*]}, and there is no apt-get to install that (install it and put it on the PATH)" >&2
  exit 1
fi
elevated=()
if [ "$(id -u)" != 0 ]; then
  elevated=(sudo)
fi
if ! { "${elevated[@]}" apt-get update -qq && "${elevated[@]}" apt-get install -y --no-install-recommends "${missing[@]}"; }; then
  echo "the tests of the page need ${missing[*]}, and apt-get could not install that (install it by hand)" >&2
  exit 1
fi
