"""Which models of a sweep are measured on benchmarks."""

from sweep_service.intake.spec_check import parse_spec
from sweep_service.sweep.evaluations import missing_evaluations, models_of_trials
from sweep_service.sweep.plan import first_records
from sweep_service.sweep.records import TrialState
from tests import stored_sweeps as sweeps


def test_a_trial_s_models_begin_with_the_one_from_which_its_config_starts() -> None:
    space = {"model.hidden_size": [32, 64], "loss.beta1": [0.0, 0.5]}
    changes = {"space": space, "benchmarks": {"names": ["expressions"], "of": "all"}}
    spec = parse_spec(sweeps.SPEC | changes)
    configs, trials = first_records(spec, "swp")
    ended = [trial.model_copy(update={"state": TrialState.SUCCEEDED}) for trial in trials[1:]]
    evaluations = missing_evaluations(spec, configs, [trials[0], *ended], [])
    models = models_of_trials(configs, evaluations)
    assert models.keys() == {trial.id for trial in ended}
    size = {config.id: config.training["model"]["hidden_size"] for config in configs}
    assert set(size.values()) == {32, 64}
    for trial in ended:
        initial, trained = models[trial.id]
        assert (initial.trial_id, initial.model_step, size[initial.config_id]) == (None, 0, size[trial.config_id])
        assert (trained.trial_id, trained.model_step) == (trial.id, 16)
