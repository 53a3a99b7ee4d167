"""What a run holds."""

import numpy as np

from sottovoce import gossip, graphs, train
from sottovoce.learning import History, load_data, task_from


def test_a_history_grows_entry_by_entry() -> None:
    history = (
        History.empty().extended(1, 2.0, 3.0, 0.5, 0.1, 0.3, 0.7).extended(2, 1.0, 2.0, 0.25, 0.2, 0.4, 0.8)
    )
    assert history.rounds.tolist() == [1, 2]
    assert history.rounds.dtype == np.int64
    assert history.epsilon.tolist() == [0.1, 0.2]
    assert history.unconditional.tolist() == [0.3, 0.4]


def test_final_measurements_are_those_of_the_models() -> None:
    task = task_from(load_data("breast-cancer"), 4)
    run = train(task, gossip(graphs.metropolis_weights("ring:n=4"), rounds=6), noise_multiplier=1.0, seed=2)
    assert task.test is not None
    truth = [
        np.mean(task.loss.predictions(m, task.test.features) == task.test.labels) for m in run.state.models
    ]
    assert run.node_accuracies == (min(truth), np.mean(truth))
    assert run.loss == task.risk(run.model)
    assert task.optimum is not None
    assert run.excess_risk == task.risk(run.model) - task.optimum.risk
    assert run.average_excess_risk == task.risk(run.state.average) - task.optimum.risk
    assert run.excess_risk >= -task.optimum.gap
    assert repr(run).startswith("Run(breast-cancer, 6 of 6 rounds, ε ≤ ")
