# SPDX-License-Identifier: Apache-2.0
"""Run every benchmark in its quick size."""

from benchmarks import (
    against_direct,
    learning,
    peers,
    protocols,
    scale,
    server,
    sums,
    tightness,
    training_audit,
    training_certificate,
    training_utility,
)

if __name__ == "__main__":
    tightness.main(["--quick"])
    learning.main(["--quick"])
    against_direct.main(["--quick"])
    protocols.main(["--quick"])
    scale.main(["--quick"])
    peers.main(["--quick"])
    server.main(["--quick"])
    sums.main(["--quick"])
    training_certificate.main(["--quick"])
    training_audit.main(["--quick"])
    training_utility.main([])
