#!/usr/bin/env bash
# Install Chromium, which the tests of the page run in, where it is missing.
set -euo pipefail
if command -v chromium >/dev/null; then
  exit 0
fi
if ! command -v apt-get >/dev/null; then
  echo "the tests of the page need Chromium, and there is no apt-get to install it (install chromium and put it on the PATH)" >&2
  exit 1
fi
elevated=()
if [ "$(id -u)" != 0 ]; then
  elevated=(sudo)
fi
if ! { "${elevated[@]}" apt-get update -qq && "${elevated[@]}" apt-get install -y --no-install-recommends chromium; }; then
  echo "the tests of the page need Chromium, and apt-get could not install it (install the package chromium by hand)" >&2
  exit 1
fi
