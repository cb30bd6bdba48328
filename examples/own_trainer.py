"""A complete trainer of one's own: a softmax policy over six answers to each of 40 problems (docs/own_trainer.md)."""

import json
import math
import random
import signal
import sys
import time
from pathlib import Path

PROBLEMS, ANSWERS, SAMPLES = 40, 6, 16
options = {name: Path(value) for name, value in zip(sys.argv[1::2], sys.argv[2::2], strict=True)}
config, output = json.loads(options["--config"].read_text()), options["--output"]  # JSON is YAML
policy, generator, first = [[0.0] * ANSWERS for _ in range(PROBLEMS)], random.Random(config["seed"]), 0
if "--resume-from" in options:
    first, policy, (version, state, more) = json.loads(options["--resume-from"].read_text())
    generator.setstate((version, tuple(state), more))
stopping: list[int] = []
signal.signal(signal.SIGTERM, lambda number, _frame: stopping.append(number))
events = (output / "events.jsonl").open("a")


def write(**event: object) -> None:
    print(json.dumps(event), file=events, flush=True)  # one whole line at a time


def probabilities(logits: list[float]) -> list[float]:
    return [math.exp(logit) / sum(map(math.exp, logits)) for logit in logits]


def evaluate(step: int) -> None:
    dice = random.Random(f"{config['seed']} {step}")  # of its own, so that training does not notice
    drawn = [dice.choices(range(ANSWERS), probabilities(logits), k=SAMPLES) for logits in policy]
    right = {f"problem {index}": [answers.count(index % ANSWERS), SAMPLES] for index, answers in enumerate(drawn)}
    write(type="evaluation", step=step, problems=right)


if first == 0:
    evaluate(0)
for step in range(first + 1, config["steps"] + 1):
    rewards: list[int] = []
    for problem in generator.sample(range(PROBLEMS), 20):
        chances = probabilities(policy[problem])
        (answer,) = generator.choices(range(ANSWERS), chances)
        rewards.append(int(answer == problem % ANSWERS))
        advantage = rewards[-1] - chances[problem % ANSWERS]
        weight = config["learning_rate"] * advantage * (1 if advantage > 0 else config["beta"])
        policy[problem] = [z + weight * ((a == answer) - chances[a]) for a, z in enumerate(policy[problem])]
    time.sleep(config.get("step_s", 0))  # a real step takes its time
    write(type="step", step=step, metrics={"reward/mean": sum(rewards) / len(rewards)})
    if due := step % config["evaluate_every"] == 0 or step == config["steps"]:
        evaluate(step)  # before its step's checkpoint, so that a crash between both loses nothing
    if due or stopping:
        (part := output / "part").write_text(json.dumps([step, policy, generator.getstate()]))
        part.rename(output / f"step-{step}.json")  # complete or absent
        write(type="checkpoint", step=step, path=f"step-{step}.json")
    if stopping and step < config["steps"]:
        sys.exit(4)  # saved, and to be continued
write(type="finished")
