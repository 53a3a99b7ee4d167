# SPDX-License-Identifier: Apache-2.0
"""Messages of the library in the words of the command line: options in place of Python arguments."""

from __future__ import annotations

import re

__all__ = ["SEEN_IN_WORDS", "in_options"]

SEEN_IN_WORDS = {
    "everyone": "every message, as local DP takes it",
    "neighbourhood": "the messages of its neighbours, sent in the clear",
    "secure-sum": "the weighted sum it receives alone, by a secure aggregation",
    "single-node": "the messages it sends itself",
    "coalition-sums": "members pool the sums they receive",
    "coalition-messages": "members pool the messages they receive",
}

OPTIONS = {
    "batch_fraction": "--batch-fraction",
    "batches": "--batches",
    "checkpoint_every": "--checkpoint-every",
    "clip": "--clip",
    "confidence": "--confidence",
    "contribution": "--contribution",
    "damping": "--damping",
    "delta": "--delta",
    "effort": "--effort",
    "engine": "--engine",
    "epsilons": "--epsilons",
    "host": "--host",
    "l2": "--l2",
    "local_steps": "--local-steps",
    "loss": "--loss",
    "losses": "--losses",
    "max_epsilon": "--max-epsilon",
    "networks": "--graph",
    "noise_multiplier": "--noise-multiplier",
    "nominal": "--shard-size",
    "observers": "--observer",
    "own_noise": "--own-noise",
    "port": "--port",
    "participation": "--participation",
    "protocol": "--protocol",
    "protocols": "--protocols",
    "proxy": "--proxy",
    "relation": "--relation",
    "repeats": "--repeats",
    "rounds": "--rounds",
    "seed": "--seed",
    "skew": "--skew",
    "split_by": "--split-by",
    "step": "--step",
    "step_smoothness": "--step-smoothness",
    "steps": "--steps",
    "target_delta": "--target-delta",
    "target_epsilon": "--target-epsilon",
    "targets": "--target",
    "test_share": "--test-share",
    "token": "--token",
    "tolerance": "--tolerance",
    "tune_on": "--tune-on",
    "unit": "--unit",
    "updates": "--updates",
    "view": "--view",
    "views": "--views",
    "workers": "--workers",
}
REMEDIES = {
    "resume=True": "--resume",
    "overwrite=True": "--overwrite",
    "pass normalise=True": "scale the rows of the matrix",
    "read the file with directed=True": "give it as directed GraphML",
    "metropolis_weights(graph)": "--weights metropolis",
    "uniform_weights(graph)": "--weights uniform",
    "name each in observers": "repeat --observer for each",
    "with split_by of train": "with --split-by of train",
    "add step_smoothness": "add --step-smoothness",
    "beside step_smoothness": "beside --step-smoothness",
    "give damping beside it": "give --damping beside it",
    "leave exchanges out": "leave --exchanges out",
    "name a rule that builds": "name with --weights a rule that builds",
}


def in_options(message: str) -> str:
    """`message` with the option in place of an argument that it opens with or proposes.

    >>> in_options("noise_multiplier must be a finite number above 0; got -1.0")
    '--noise-multiplier must be a finite number above 0; got -1.0'
    >>> in_options("the observer knows its noise (choose another target, or own_noise='hidden')")
    'the observer knows its noise (choose another target, or --own-noise hidden)'
    """
    names = "|".join(OPTIONS)
    message = re.sub(rf"^({names})(?= must )", lambda found: OPTIONS[found[1]], message)
    message = re.sub(rf"(?<=where )({names})(?= is )", lambda found: OPTIONS[found[1]], message)
    message = re.sub(rf"\b({names})='([a-z-]+)'", lambda found: f"{OPTIONS[found[1]]} {found[2]}", message)
    for spoken, typed in REMEDIES.items():
        message = message.replace(spoken, typed)
    return message
