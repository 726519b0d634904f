"""Runs the answer to a function exercise on its calls and writes down what happened."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from helpers.judge.function_probes import Call, function_calls
from helpers.judge.guard import Raised, Spy, attempt, does_nothing
from helpers.judge.recording import READY_MADE, Run, as_array, direction, is_open_blank

_BY_HAND = {
    "softmax": ("softmax", "log_softmax", "softmin"),
    "inverted_dropout": ("dropout", "alpha_dropout", "feature_dropout"),
}


class FunctionRun(Run):
    """A function exercise: called with each set of arguments."""

    def everything(self) -> None:
        if not callable(self.answer):
            self.facts |= {"trouble": "not a function", "kind": type(self.answer).__name__}
            return
        if does_nothing(self.answer):
            self.facts |= {"trouble": "blank", "kind": "body"}
            return
        for number, call in enumerate(function_calls(self.exercise, self.draw)):
            if not self._run(call, first=number == 0):
                return

    def _run(self, call: Call, first: bool) -> bool:
        """Run one call. Returns False when the blank is still open."""
        arguments, untouched = call.make(), call.make()
        if call.gradients:
            arguments = tuple(a.requires_grad_() if _is_float(a) else a for a in arguments)
        spy = Spy()

        def run() -> Any:
            with spy if first else torch.enable_grad():
                return self.answer(*arguments, **dict(call.keywords))

        value, raised = attempt(run)
        if first and raised is not None and is_open_blank(raised):
            self.facts |= {"trouble": "blank", "raised": vars(raised)}
            return False
        if first:
            self.facts["forbidden"] = self._ready_made(spy.called)
        value, raised = self._finish(value, raised, arguments)
        if value is ...:
            self.facts |= {"trouble": "blank", "kind": "body"}
            return False
        output = self.record(call.id, value, raised)
        if any(
            isinstance(a, torch.Tensor) and not torch.equal(a, b) for a, b in zip(arguments, untouched, strict=True)
        ):
            self.facts.setdefault("edited_inputs", []).append(call.id)
        if call.gradients and output is not None and output.is_floating_point():
            self._backward(call, arguments, output)
        return True

    def _ready_made(self, called: set[str]) -> list[str]:
        used = set(called)
        if self.exercise == "torch_attention":
            return [] if any("multi_head_attention" in name for name in used) else ["not used"]
        banned = _BY_HAND.get(self.exercise, ())
        return sorted(n for n in used if n in banned or any(part in n for part in READY_MADE))

    def _finish(self, value: Any, raised: Raised | None, arguments: tuple[Any, ...]) -> tuple[Any, Raised | None]:
        """Turn layers into numbers: what do they give on some tokens?"""
        finish: dict[str, Callable[[Any, tuple[Any, ...]], Any]] = {
            "fuse_projections": self._run_fused,
            "stack_heads": self._run_stacked,
            "init_attention_weights": self._read_weights,
        }
        if raised is not None or self.exercise not in finish:
            return value, raised
        return attempt(lambda: finish[self.exercise](value, arguments))

    def _run_fused(self, fused: Any, layers: tuple[nn.Linear, ...]) -> Any:
        if not isinstance(fused, nn.Linear):
            return fused
        x = self.draw.tokens(310, 2, 3, layers[0].in_features)
        output = fused(x)
        self._note_layers([fused], layers)
        with torch.no_grad():
            for layer in layers:
                layer.weight.zero_()
        return torch.stack([output, fused(x)])  # the second must not follow the edited originals

    def _run_stacked(self, wide: Any, arguments: tuple[Any, ...]) -> Any:
        if not isinstance(wide, tuple | list) or not all(isinstance(layer, nn.Linear) for layer in wide):
            return wide
        small = [layer for head in arguments[0] for layer in head]
        x = self.draw.tokens(410, 2, 3, small[0].in_features)
        self._note_layers(list(wide), tuple(small))
        before = torch.stack([layer(x) for layer in wide])
        with torch.no_grad():
            for layer in small:
                layer.weight.zero_()
        return torch.stack([before, torch.stack([layer(x) for layer in wide])])

    def _note_layers(self, made: list[nn.Linear], given: tuple[nn.Linear, ...]) -> None:
        bias = given[0].bias is not None
        self.facts.setdefault("layer_bias", []).append([bias, [layer.bias is not None for layer in made]])
        frozen = [not layer.weight.requires_grad or not layer.weight.is_leaf for layer in made]
        self.facts["frozen_layers"] = self.facts.get("frozen_layers", False) or any(frozen)

    def _read_weights(self, value: Any, arguments: tuple[Any, ...]) -> torch.Tensor:
        mha = arguments[0]
        layers = [mha.wq, mha.wk, mha.wv, mha.wo]
        trainable = all(layer.weight.requires_grad and layer.weight.is_leaf for layer in layers)
        self.facts["frozen_layers"] = self.facts.get("frozen_layers", False) or not trainable
        width = mha.d_model
        columns = [
            torch.cat([layer.weight, torch.zeros(width, 1) if layer.bias is None else layer.bias[:, None]], dim=1)
            for layer in layers
        ]
        return torch.stack(columns)  # (4, d_model, d_model + 1): weights, then the bias as the last column

    def _backward(self, call: Call, arguments: tuple[Any, ...], output: torch.Tensor) -> None:
        if not output.requires_grad:
            self.facts["cases"][f"{call.id}/backward"] = {"no_graph": True}
            return
        leaves = [a for a in arguments if _is_float(a)]
        _, raised = attempt(lambda: output.backward(direction(output), inputs=leaves))
        self.facts["cases"][f"{call.id}/backward"] = {"raised": vars(raised)} if raised else {}
        for i, argument in enumerate(arguments):
            if raised is None and _is_float(argument):
                gradient = torch.zeros_like(argument) if argument.grad is None else argument.grad
                self.tensors[f"{call.id}/input gradient {i}"] = as_array(gradient)


def _is_float(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()
