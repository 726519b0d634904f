"""Runs an answer on the probes and writes down what happened. It judges nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from helpers.judge.guard import Interrupted, Raised, guarded
from helpers.judge.observation import Observation
from helpers.judge.observe_class import ClassRun, Key
from helpers.judge.observe_function import FunctionRun
from helpers.judge.probes import CLASSES, PUBLISHED, Draw
from helpers.judge.recording import Run


def observe(answer: Any, exercise: str, key: Key | None = None) -> Observation:
    """Run `answer` on the published probes of `exercise`.

    key: the right outputs of the cases "main" and "biased/…"; with it odd names and layouts are recognised.
    Never raises for anything the answer does; a keyboard interrupt is written down and ends the run.
    """
    return observe_each(answer, exercise, key, [PUBLISHED])[0]


def observe_each(answer: Any, exercise: str, key: Key | None, draws: Sequence[Draw]) -> list[Observation]:
    """Run `answer` on the probes of every draw: one observation for each.

    key: right outputs of the first draw, for `observe`. Which weight plays which role is found out there; the runs of
    the other draws take it over, so that no right output of theirs is needed where the answer runs.
    Never raises for anything the answer does.
    """
    observations: list[Observation] = []
    known = None
    for draw in draws:
        observation = Observation(exercise, facts={"cases": {}})
        with guarded() as printed:
            torch.manual_seed(0)  # in every draw: an answer's own random numbers are none of the probes
            run: Run
            if exercise in CLASSES:
                run = ClassRun(answer, observation, draw, key, known)
            else:
                run = FunctionRun(answer, observation, draw)
            _carry_out(run)
            observation.facts["printed"] = printed.tell()
        if isinstance(run, ClassRun):
            known, key = run.binding, None
        observations.append(observation)
    return observations


def _carry_out(run: Run) -> None:
    try:
        run.everything()
    except Interrupted as stop:
        run.facts["interrupted"] = vars(stop.args[0])
    except Exception as error:  # an answer that replaces what the check itself stands on
        run.facts |= {"trouble": "broke the check", "kind": Raised.of(error).message}
