# SPDX-License-Identifier: Apache-2.0
"""Simulate what an observer sees, play the best attack on it, and hold the outcome against the certified number."""

from sottovoce.auditing.attack import Attack, fitted_attack, likelihood_attack
from sottovoce.auditing.confidence import Evidence, clopper_pearson, evidence
from sottovoce.auditing.results import Audit
from sottovoce.auditing.simulate import Simulator, gossip_simulator
from sottovoce.auditing.verbs import audit, audit_simulator

__all__ = [
    "Attack",
    "Audit",
    "Evidence",
    "Simulator",
    "audit",
    "audit_simulator",
    "clopper_pearson",
    "evidence",
    "fitted_attack",
    "gossip_simulator",
    "likelihood_attack",
]
