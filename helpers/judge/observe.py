"""Runs an answer on the probes and writes down what happened. It judges nothing."""

from __future__ import annotations

from typing import Any

import torch

from helpers.judge.guard import Interrupted, Raised, guarded
from helpers.judge.observation import Observation
from helpers.judge.observe_class import ClassRun, Key
from helpers.judge.observe_function import FunctionRun
from helpers.judge.probes import CLASSES


def observe(answer: Any, exercise: str, key: Key | None = None) -> Observation:
    """Run `answer` on the probes of `exercise`.

    key: the right outputs of the cases "main" and "biased/…"; with it odd names and layouts are recognised.
    Never raises for anything the answer does; a keyboard interrupt is written down and ends the run.
    """
    observation = Observation(exercise, facts={"cases": {}})
    run = ClassRun(answer, observation, key or {}) if exercise in CLASSES else FunctionRun(answer, observation)
    with guarded() as printed:
        torch.manual_seed(0)
        try:
            run.everything()
        except Interrupted as stop:
            observation.facts["interrupted"] = vars(stop.args[0])
        except Exception as error:  # an answer that replaces what the check itself stands on
            observation.facts |= {"trouble": "broke the check", "kind": Raised.of(error).message}
        observation.facts["printed"] = printed.tell()
    return observation
