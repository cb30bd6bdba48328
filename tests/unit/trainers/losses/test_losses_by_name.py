"""Losses of installed packages: found by name, imported only if asked for, and refused with package and remedy."""

import json
import platform
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import ValidationError

from tests.loss_packages import TEMPERED, install, package_site
from trainers import extensions
from trainers.config import TrainingConfig, with_params
from trainers.errors import ConfigError
from trainers.extensions import require_packages
from trainers.losses import LOSS_NAMES, LOSSES, GRPOParams, TokenBatch, loss_entry, policy_loss
from trainers.losses.contract import check_loss

OURS = ", ".join(map(repr, LOSSES))


@pytest.fixture(autouse=True)
def site(tmp_path: Path) -> Iterator[Path]:
    """Make a folder that installed packages are found in."""
    with package_site(tmp_path):
        yield tmp_path


@pytest.fixture
def tempered(site: Path) -> Path:
    """Install a package with the loss `tempered`."""
    install(site, "tempered_loss", "tempered = tempered_loss:ENTRY")
    return site


def python(site: Path, code: str) -> str:
    """Return what a fresh interpreter prints that finds the packages."""
    path = f"import sys; sys.path.insert(0, {str(site)!r})\n"
    return subprocess.run([sys.executable, "-c", path + code], check=True, capture_output=True, text=True).stdout


def validated(loss: Any) -> Any:
    return TrainingConfig.model_validate({"loss": loss}).loss


def refused(loss: Any) -> list[tuple[tuple[Any, ...], str]]:
    with pytest.raises(ValidationError) as caught:
        validated(loss)
    errors = [item for item in caught.value.errors() if item["type"] != "default_factory_not_called"]  # follows these
    return [(item["loc"], item["msg"]) for item in errors]


def test_the_loss_of_a_package_is_read_by_its_own_params(tempered: Path) -> None:
    config = TrainingConfig.model_validate({"loss": {"name": "tempered", "alpha": 0.3, "epsilon": 0.1}})
    dumped = config.model_dump(mode="json")
    wanted = {"name": "tempered", "alpha": 0.3, "epsilon_low": 0.1, "epsilon_high": 0.1, "log_ratio_clamp": 20.0}
    assert dumped["loss"] == wanted
    assert json.loads(config.model_dump_json()) == dumped
    assert TrainingConfig.model_validate(dumped) == TrainingConfig.model_validate_json(json.dumps(dumped)) == config
    assert TrainingConfig(loss=config.loss) == config
    assert TrainingConfig.model_validate(with_params(dumped, {"loss.alpha": 0.7})) != config
    assert config.model_dump(include={"loss": {"alpha"}}) == {"loss": {"alpha": 0.3}}


def test_it_is_computed_by_its_own_function(tempered: Path) -> None:
    params = validated({"name": "tempered", "alpha": 0.5})
    ratio_BT = torch.tensor([[4.0, 0.25]], dtype=torch.float64)
    logprobs_BT = ratio_BT.log().requires_grad_()
    batch = TokenBatch(logprobs_BT, logprobs_BT * 0, torch.tensor([[1.0, -1.0]]).double(), torch.ones(1, 2))
    output = policy_loss(batch, params)
    assert output.loss_BT.tolist() == [[pytest.approx(-2.0), pytest.approx(0.5)]]
    assert torch.autograd.grad(output.loss_BT.sum(), logprobs_BT)[0].tolist() == output.loss_BT.tolist()
    check_loss(loss_entry("tempered"), params, weight=lambda ratio, advantage, params: ratio**params.alpha)


def test_its_mistakes_have_the_places_that_ours_have(tempered: Path) -> None:
    faults = refused({"name": "tempered", "alpha": 2, "epsilon_low": -1, "betta": 1})
    assert [place for place, _ in faults] == [("loss", "epsilon_low"), ("loss", "alpha"), ("loss", "betta")]
    assert faults[1][1] == "Input should be less than or equal to 1"
    assert [place for place, _ in refused({"name": "tempered", "alpha": True})] == [("loss", "alpha")]


def test_an_unknown_name_is_refused_with_all_that_are_known_also_those_that_come_later(site: Path) -> None:
    assert "'tempered'" not in refused({"name": "temperd"})[0][1]
    install(site, "tempered_loss", "tempered = tempered_loss:ENTRY")
    ((place, message),) = refused({"name": "temperd"})
    assert place == ("loss",)
    assert message.startswith(
        f"there is no loss 'temperd'; there are {OURS}, 'tempered' on this machine, and a package"
    )
    assert validated({"name": "tempered"}).alpha == 0.5


def test_a_config_with_one_of_ours_imports_no_package(site: Path) -> None:
    install(site, "explosive_loss", "explosive = explosive_loss:ENTRY", "raise RuntimeError('boom')")
    for name in LOSSES:
        assert validated({"name": name}).name == name
    assert "explosive_loss" not in sys.modules
    messages = [refused({"name": "explosive"})[0][1] for _ in range(2)]
    assert messages[0] == messages[1]
    assert "of explosive-loss (explosive_loss:ENTRY) cannot be used: RuntimeError: boom; correct it" in messages[0]


PARAMS = "from pydantic import BaseModel\nfrom trainers.losses import GRPOParams, LossEntry\n"


def odd(*lines: str) -> str:
    """Return a loss that is named odd, with these lines in its params."""
    return TEMPERED.replace('"tempered"', '"odd"').replace(
        "    alpha:", "".join(f"    {line}\n" for line in lines) + "    alpha:"
    )


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import absent_module", "ModuleNotFoundError: No module named 'absent_module'; correct it, or install"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("", "AttributeError: module 'odd_loss' has no attribute 'ENTRY'"),
        ("ENTRY = print", "not a trainers.losses.LossEntry; name a LossEntry(params,"),
        (PARAMS + "class P(BaseModel): name: str = 'odd'\nENTRY = LossEntry(P, print)", "lack the bounds low and high"),
        (PARAMS + "ENTRY = LossEntry(GRPOParams(), print)", "lack the bounds low and high"),
        (TEMPERED, "its params do not have the name of its entry point; give them `name: Literal['odd'] = 'odd'`"),
        (odd().replace("Params, tempered)", "Params, 3)"), "its function is 3; give one that takes a TokenBatch"),
        (odd("clips_like_ppo = True", "epsilon_below = 9"), "clips_like_ppo promises PPO's bounds"),
        (
            odd("model_config = {'arbitrary_types_allowed': True}", "view: memoryview | None = None"),
            "its params have no JSON schema",
        ),
    ],
)
def test_what_cannot_be_a_loss_is_refused_with_package_and_remedy(site: Path, code: str, reason: str) -> None:
    install(site, "odd_loss", "odd = odd_loss:ENTRY", code)
    ((place, message),) = refused({"name": "odd"})
    assert place == ("loss",)
    assert message.startswith("the loss 'odd' of odd-loss (odd_loss:ENTRY) cannot be used: ")
    assert reason in message


def test_no_package_takes_a_name_of_ours_or_of_another(site: Path) -> None:
    install(site, "one_loss", "grpo = one_loss:ENTRY\ntempered = one_loss:ENTRY")
    install(site, "other_loss", "tempered = other_loss:ENTRY")
    assert refused({"name": "grpo"})[0][1] == (
        "more than one policy loss is named 'grpo': this package (trainers.losses.clipped:grpo), one-loss "
        "(one_loss:ENTRY); rename or uninstall one"
    )
    assert "more than one policy loss is named 'tempered': " in refused({"name": "tempered"})[0][1]
    assert validated({"name": "dapo"}).name == "dapo"
    assert "one_loss" not in sys.modules


@pytest.mark.parametrize("heavy", [True, False])
def test_a_package_is_read_without_torch_and_refused_if_it_imports_torch(site: Path, heavy: bool) -> None:
    install(site, "own_loss", "tempered = own_loss:ENTRY", f"import torch\n{TEMPERED}" if heavy else TEMPERED)
    told = python(
        site,
        "from trainers.config import TrainingConfig\n"
        "for _ in range(2):\n"
        "    try: loss = TrainingConfig.model_validate({'loss': {'name': 'tempered'}}).loss\n"
        "    except ValueError as error: print(error)\n"
        "    else: print(loss.alpha, 'torch' in sys.modules)\n"
        "print(TrainingConfig.model_validate({'loss': {'name': 'grpo'}}).loss.name)\n",
    )
    assert told.count("0.5 False") == (0 if heavy else 2)
    assert told.count("of own-loss (own_loss:ENTRY) cannot be used: importing it imports torch") == (2 if heavy else 0)
    assert told.count("import torch inside the function") == (2 if heavy else 0)
    assert told.endswith("grpo\n")


WRONG_OUTPUTS = {
    "return 3": "int, not a LossOutput",
    "output.regions.pop('na_lp'); return output": "the regions pa_lp, pa_low, na_high, not na_lp, ",
    "return replace(output, loss_BT=output.loss_BT.mean())": r"loss_BT of shape \(\), not \(1, 2\) as logprobs_BT",
    "return replace(output, loss_BT=output.loss_BT.detach())": "a loss_BT that carries no gradient of logprobs_BT",
    "return replace(output, ratio_BT=batch.logprobs_BT.exp())": "a ratio_BT that carries a gradient; detach it",
}


@pytest.mark.parametrize("ending", WRONG_OUTPUTS)
def test_a_function_that_returns_something_else_ends_the_run_with_a_sentence(site: Path, ending: str) -> None:
    code = TEMPERED.replace("    return LossOutput(", "    output = LossOutput(").replace(
        "\n\nENTRY", f"\n    {ending}\n\nENTRY"
    )
    install(site, "wrong_loss", "tempered = wrong_loss:ENTRY", f"from dataclasses import replace\n{code}")
    logprobs_BT = torch.zeros(1, 2).requires_grad_()
    batch = TokenBatch(logprobs_BT, torch.zeros(1, 2), torch.ones(1, 2), torch.ones(1, 2))
    with pytest.raises(
        ConfigError, match=f"'tempered' of wrong-loss returned {WRONG_OUTPUTS[ending]}.*correct it, and"
    ):
        policy_loss(batch, validated({"name": "tempered"}))


def test_another_version_or_other_code_of_a_package_has_other_versions(site: Path) -> None:
    install(site, "tempered_loss", "tempered = tempered_loss:ENTRY", version="1.2")
    assert LOSS_NAMES.packages("tempered") == {"tempered-loss": "1.2"}
    first = LOSS_NAMES.versions("tempered")
    assert first == {"tempered-loss": first["tempered-loss"]}
    assert re.fullmatch(r"1\.2 \([0-9a-f]{12}\)", first["tempered-loss"])
    (site / "tempered_loss.py").write_text(TEMPERED + "\n")
    assert LOSS_NAMES.versions("tempered") != first
    assert LOSS_NAMES.versions("grpo") == LOSS_NAMES.packages("grpo") == {}


def test_a_machine_without_a_package_that_a_run_needs_says_which(tempered: Path) -> None:
    require_packages(["tempered-loss==1", "tempered-loss==2", "pydantic==0"])
    with pytest.raises(ConfigError) as caught:
        require_packages(["absent-loss==1.2", "tempered-loss==1", "other-loss==3"])
    assert [problem.partition(", which")[0] for problem in caught.value.problems] == [
        "the package absent-loss 1.2",
        "the package other-loss 3",
    ]
    assert f"is not installed on {platform.node()}; install it for {sys.executable}" in str(caught.value)


def test_packages_are_searched_once_until_a_folder_changes(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    searches = list[str]()
    search = metadata.entry_points
    monkeypatch.setattr(extensions, "entry_points", lambda group: searches.append(group) or search(group=group))
    for _ in range(100):
        validated({"name": "grpo"})
        refused({"name": "absent"})
    assert len(searches) <= 1
    install(site, "tempered_loss", "tempered = tempered_loss:ENTRY")
    assert validated({"name": "tempered"}).name == "tempered"


def test_the_schema_has_ours_in_full_and_takes_others() -> None:
    offered = TrainingConfig.model_json_schema()["properties"]["loss"]
    ours, others = offered["anyOf"]
    assert set(ours["discriminator"]["mapping"]) == set(LOSSES)
    assert others["properties"]["name"] == {"type": "string", "not": {"enum": list(LOSSES)}}
    assert "additionalProperties" not in others
    assert offered["default"]["name"] == "ce_gppo"


def test_an_instance_is_taken_as_it_is(tempered: Path) -> None:
    for params in (GRPOParams(epsilon_low=0.1), validated({"name": "tempered"})):
        assert TrainingConfig(loss=params).loss is params
