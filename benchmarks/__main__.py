# SPDX-License-Identifier: Apache-2.0
"""Run every benchmark in its quick size."""

from benchmarks import learning, tightness

if __name__ == "__main__":
    tightness.main(["--quick"])
    learning.main(["--quick"])
