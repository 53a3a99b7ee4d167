# SPDX-License-Identifier: Apache-2.0
"""The price of privacy: accuracy against ε, for views, topologies and protocols.

A frontier is cut into parts. First the noise of every network, protocol and view, for each step that may be taken; then
the runs at each ε, a trusted server's among them, and those without noise. Parts appear in a folder whole or not at
all, so that work that was stopped goes on where it was.

Steps are chosen on public or synthetic data alone, or given: no record that is protected has a say in them.
"""

from sottovoce.frontiers.questions import STEPS, Question
from sottovoce.frontiers.results import Arm, Frontier, Point
from sottovoce.frontiers.run import frontier
from sottovoce.frontiers.tuning import stand_in

__all__ = ["STEPS", "Arm", "Frontier", "Point", "Question", "frontier", "stand_in"]
