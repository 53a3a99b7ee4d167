# SPDX-License-Identifier: Apache-2.0
"""Run every benchmark in its quick size."""

from benchmarks import tightness

if __name__ == "__main__":
    tightness.main(["--quick"])
