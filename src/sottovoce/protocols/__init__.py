# SPDX-License-Identifier: Apache-2.0
"""A protocol is a program that every node runs: values, the builders of those people use, and their spelling."""

from sottovoce.protocols.builders import (
    chebyshev,
    clean_state,
    exact_diffusion,
    gossip,
    gradient_tracking,
    momentum,
    once,
    pairwise_noise,
    push_sum,
    repeated,
    round_weights,
    scheduled,
)
from sottovoce.protocols.missing import missing_noise
from sottovoce.protocols.program import Combine, Draw, Exchange, Program
from sottovoce.protocols.protocol import MOST_ROUNDS, Contribution, Protocol, hash_of_damping
from sottovoce.protocols.rationals import Number, PerNode
from sottovoce.protocols.spelling import parse_program, parse_protocol, read_program
from sottovoce.protocols.updates import Slopes

__all__ = [
    "MOST_ROUNDS",
    "Combine",
    "Contribution",
    "Draw",
    "Exchange",
    "Number",
    "PerNode",
    "Program",
    "Protocol",
    "Slopes",
    "chebyshev",
    "clean_state",
    "exact_diffusion",
    "gossip",
    "gradient_tracking",
    "hash_of_damping",
    "missing_noise",
    "momentum",
    "once",
    "pairwise_noise",
    "parse_program",
    "parse_protocol",
    "push_sum",
    "read_program",
    "repeated",
    "round_weights",
    "scheduled",
]
