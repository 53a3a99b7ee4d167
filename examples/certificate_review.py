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

from sottovoce import View, certificates, certify, gossip, graphs, verify

MECHANISM = certificates.Mechanism(noise_multiplier=4.0, delta=1e-5)


def main() -> None:
    """The author certifies one pair; the reviewer has the file and the graph, and nothing else."""
    weights = graphs.metropolis_weights("florentine")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "medici.json"
        families = gossip(weights, rounds=20)
        certificate = certify(families, View.secure_sum("Medici"), "Acciaiuoli", mechanism=MECHANISM)
        certificates.save(certificate, file)

        received = certificates.load(file)
    verdict = verify(received, weights)
    for check in verdict.checks:
        print(f"{'holds' if check.holds else 'fails'}: {check.name}")
    for sentence in verdict.trusted:
        print(f"trusted: {sentence}")
    assert verdict.epsilon is not None
    epsilon = math.ceil(verdict.epsilon * 1e4) / 1e4
    print(f"{verdict.verdict}: Δ² ≤ {verdict.squared.upper:.4f}, so ε ≤ {epsilon} at δ = {MECHANISM.delta:g}")

    forged = replace(received, squared_lower=0.0, squared_upper=received.squared_upper / 2)
    print(f"forged: verified is {verify(forged, weights).verified}")


if __name__ == "__main__":
    main()
