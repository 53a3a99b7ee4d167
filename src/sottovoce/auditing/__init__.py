# SPDX-License-Identifier: Apache-2.0
"""Simulate what an observer sees, play the best attack on it, and hold the outcome against the certified number."""

from sottovoce.auditing.attack import ViewAttack, fitted_attack, likelihood_attack
from sottovoce.auditing.confidence import ErrorRates, Evidence, clopper_pearson, evidence
from sottovoce.auditing.programs import program_scene, program_simulator
from sottovoce.auditing.results import Audit, TrainingAudit
from sottovoce.auditing.simulate import Simulator
from sottovoce.auditing.training import CanaryLoss, audit_training, training_simulator
from sottovoce.auditing.verbs import audit, audit_simulator

__all__ = [
    "Audit",
    "CanaryLoss",
    "ErrorRates",
    "Evidence",
    "Simulator",
    "TrainingAudit",
    "ViewAttack",
    "audit",
    "audit_simulator",
    "audit_training",
    "clopper_pearson",
    "evidence",
    "fitted_attack",
    "likelihood_attack",
    "program_scene",
    "program_simulator",
    "training_simulator",
]
