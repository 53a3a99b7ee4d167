# SPDX-License-Identifier: Apache-2.0
"""Write a certificate, check it as a reviewer would, and see a forged one refused.

Run it: python examples/certificate_review.py
"""

# ruff: noqa: T201 - an example prints

from __future__ import annotations

import math
import tempfile
from dataclasses import replace
from pathlib import Path

from sottovoce import View, certificates, certify, gaussian, gossip, graphs, verify

NOISE, DELTA = 4.0, 1e-5


def main() -> None:
    """The author certifies one pair; the reviewer has the file and the graph, and nothing else."""
    weights = graphs.metropolis_weights("florentine")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "medici.json"
        certificate = certify(gossip(weights, rounds=20), View.secure_sum("Medici"), "Acciaiuoli")
        certificates.save(certificate, file)

        received = certificates.load(file)
    verdict = verify(received, weights)
    for check in verdict.checks:
        print(f"{'holds' if check.holds else 'fails'}: {check.name}")
    for sentence in verdict.trusted:
        print(f"trusted: {sentence}")
    mu = math.sqrt(received.squared_upper) / NOISE
    print(f"Δ² ≤ {received.squared_upper:.4f}, so ε ≤ {gaussian.epsilon(mu, DELTA):.4f} at δ = {DELTA:g}")

    forged = replace(received, squared_lower=0.0, squared_upper=received.squared_upper / 2)
    print(f"forged: verified is {verify(forged, weights).verified}")


if __name__ == "__main__":
    main()
