"""Runs one of the four attention classes on the probes and writes down what happened."""

from __future__ import annotations

import inspect
import itertools
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn

from helpers.judge import probes
from helpers.judge.binding import Binding, Loaded, candidates, find_units, index_tensors
from helpers.judge.guard import Interrupted, Raised, Spy, attempt, does_nothing
from helpers.judge.observation import Observation
from helpers.judge.probes import MASKED, PUBLISHED, Case, Draw
from helpers.judge.recording import (
    MOST_NUMBERS,
    READY_MADE,
    Run,
    as_array,
    direction,
    equal,
    is_open_blank,
    parameters_of,
)

_CANDIDATES_KEPT = 80
_WITH_GRADIENTS = ("main", "random mask")  # the cases that are run backwards as well
Key = dict[str, np.ndarray]  # right outputs by which a layout is recognised; not secret


class ClassRun(Run):
    """One of the four attention classes.

    known: the reading of the module that an earlier run found; without it, the key helps to find one.
    """

    def __init__(
        self, answer: Any, observation: Observation, draw: Draw, key: Key | None = None, known: Binding | None = None
    ):
        super().__init__(answer, observation, draw)
        self.key = key or {}
        self.known = known
        self.modules: dict[tuple[int, int], Loaded | Raised] = {}
        self.binding: Binding | None = None
        self.cases = probes.class_cases(self.exercise, draw)
        self.main = self.cases[0]

    # -- building and calling

    def build(self, d: int, h: int, rate: float = probes.DROPOUT_RATE) -> nn.Module:
        """Construct the learner's module with the contract's arguments, by position or by the contract's names."""
        parameters = parameters_of(self.answer)
        if self.exercise == "MultiHeadAttention":
            if {"d_model", "h"} <= set(parameters):
                return self.answer(d_model=d, h=h)
            return self.answer(d, h)
        width = {"hidden_dim": d} if "hidden_dim" in parameters else {}
        positional = () if width else (d,)
        if self.exercise == "SelfAttentionV3":
            rate_name = next((n for n in parameters if "drop" in n.lower() or n.lower() in ("p", "rate")), None)
            if rate_name is not None:
                return self.answer(*positional, **width, **{rate_name: rate})
            if len(parameters) > 1:
                return self.answer(d, rate)
        return self.answer(*positional, **width)

    def _built(self, d: int, h: int, rate: float, train: bool) -> nn.Module:
        module = self.build(d, h, rate)
        if not train:
            module.eval()
        return module

    def call(self, module: nn.Module, inputs: tuple[torch.Tensor, ...], mask: torch.Tensor | None) -> Any:
        if mask is None:
            return module(*inputs)
        if self.mask_name is not None:
            return module(*inputs, **{self.mask_name: mask})
        return module(*inputs, mask)

    def loaded(self, d: int, h: int) -> Loaded | Raised:
        """The learner's module of these sizes, with its binding; built once."""
        if (d, h) not in self.modules:
            self.modules[d, h] = self._load_new(d, h)
        return self.modules[d, h]

    def _load_new(self, d: int, h: int, rate: float = probes.DROPOUT_RATE, train: bool = False) -> Loaded | Raised:
        module, raised = attempt(lambda: self._built(d, h, rate, train))
        if raised is not None:
            return raised
        case = next(c for c in self.cases if (c.d, c.h) == (d, h))
        _, raised = attempt(lambda: module(*_fresh(case.inputs)))  # layers that are built at the first call
        if raised is not None:
            return raised
        binding = self.binding
        if binding is None:
            return Loaded(module, {})
        index, raised = attempt(lambda: index_tensors(binding, module, d, h))
        return raised or Loaded(module, index)

    def run(self, case: Case, gradients: bool = False) -> None:
        """Run one case in eval mode and write it down."""
        loaded = self.loaded(case.d, case.h)
        if isinstance(loaded, Raised):
            self.facts["cases"][case.id] = {"raised": vars(loaded)}
            return
        self._run_on(loaded, case, case.id, gradients)

    def _run_on(self, loaded: Loaded, case: Case, name: str, gradients: bool) -> None:
        """Run a case on a module in whatever mode it is, and write it down under `name`."""
        loaded.load(self.draw.flat_weights(case.d, case.weights))
        inputs = _fresh(case.inputs, gradients)
        mask = _copied(case.mask)
        with torch.set_grad_enabled(gradients):
            value, raised = attempt(lambda: self.call(loaded.module, inputs, mask))
        output = self.record(name, value, raised)
        given = list(zip(inputs, case.inputs, strict=True))
        given += [(mask, case.mask)] if mask is not None and case.mask is not None else []
        if any(not torch.equal(now, before) for now, before in given):
            self.facts.setdefault("edited_inputs", []).append(name)
        if gradients and output is not None:
            self._backward(name, case.d, loaded, inputs, output)

    def _backward(
        self, name: str, d: int, loaded: Loaded, inputs: tuple[torch.Tensor, ...], output: torch.Tensor
    ) -> None:
        """Send a fixed gradient back and write down what arrives at the weights and inputs."""
        if not output.requires_grad:
            self.facts["cases"][f"{name}/backward"] = {"no_graph": True}
            return
        loaded.module.zero_grad()
        leaves = [t for t in (*loaded.module.parameters(), *inputs) if t.requires_grad]
        _, raised = attempt(lambda: output.backward(direction(output), inputs=leaves))
        self.facts["cases"][f"{name}/backward"] = {"raised": vars(raised)} if raised else {}
        if raised is None:
            self.tensors[f"{name}/gradient"] = as_array(loaded.gradients(len(self.draw.flat_weights(d, "plain"))))
            for i, x in enumerate(inputs):
                gradient = torch.zeros_like(x) if x.grad is None else x.grad
                self.tensors[f"{name}/input gradient {i}"] = as_array(gradient)

    # -- the order of events

    def everything(self) -> None:
        if not self._is_a_class() or not self._builds_and_runs():
            return
        spy = Spy()
        with spy:
            self._run_all()
        module = self.modules[self.main.d, self.main.h]
        if isinstance(module, Loaded):
            found = {*self.facts["forbidden"], *_forbidden(spy.called, module.module)}
            self.facts["forbidden"] = sorted(found)

    def _run_all(self) -> None:
        self._bind()
        for case in self.cases:
            self.run(case, gradients=case.id in _WITH_GRADIENTS)
        self._bind_loose_biases()
        self._run_again()
        self._run_train_mode()
        if self.exercise == "SelfAttentionV3":
            self._run_dropout()
        else:
            self._run_dropout_not_asked()
        if self.exercise == "MultiHeadAttention":
            self._build_indivisible()
        if self.draw == PUBLISHED:
            self._look_for_notes()

    def _is_a_class(self) -> bool:
        if isinstance(self.answer, nn.Module):
            self.facts["trouble"] = "an instance"
        elif not callable(self.answer):
            self.facts["trouble"] = "not a class"
            self.facts["kind"] = type(self.answer).__name__
        elif isinstance(self.answer, type):
            own = vars(self.answer)
            blank = next((name for name in ("__init__", "forward") if does_nothing(own.get(name))), None)
            if self.answer.__bases__ in ((nn.Module,), (object,)) and not {"__init__", "forward"} & set(own):
                blank = "class"
            if blank is not None:
                self.facts |= {"trouble": "blank", "kind": blank}
            elif not issubclass(self.answer, nn.Module):
                self.facts["trouble"] = "not a module"
        return "trouble" not in self.facts

    def _builds_and_runs(self) -> bool:
        module, raised = attempt(lambda: self.build(self.main.d, self.main.h))
        if raised is None and not isinstance(module, nn.Module):
            self.facts |= {"trouble": "built no module", "kind": type(module).__name__}
            return False
        if raised is not None:
            self.facts["trouble"] = "blank" if is_open_blank(raised) else "cannot be built"
            self.facts["raised"] = vars(raised)
            self.facts["parameters"] = parameters_of(self.answer)
            return False
        _, raised = attempt(module.eval)
        if raised is not None:
            self.facts |= {
                "trouble": "cannot be built",
                "raised": vars(raised),
                "parameters": parameters_of(self.answer),
            }
            return False
        self.mask_name = _mask_name(module, len(self.main.inputs))
        before = [id(parameter) for parameter in module.parameters()]
        spy = Spy()
        with spy:
            first, raised = attempt(lambda: module(*_fresh(self.main.inputs)))
            if raised is not None and self.exercise == "MultiHeadAttention":  # does it run when all lengths are equal?
                first, still_raised = attempt(lambda: module(*_fresh(self.cases[2].inputs)))
                raised = raised if still_raised else None
        if raised is not None:
            self.facts["trouble"] = "blank" if is_open_blank(raised) else "cannot be called"
            self.facts["raised"] = vars(raised)
            self.facts["shapes"] = {name: list(p.shape) for name, p in module.named_parameters()}
            self.facts["forward"] = parameters_of(getattr(module, "forward", None))
            return False
        self.facts["forbidden"] = _forbidden(spy.called, module)
        built_later = [id(parameter) for parameter in module.parameters()]
        with torch.no_grad():
            second, _ = attempt(lambda: module(*_fresh(self.main.inputs)))
        after = [id(parameter) for parameter in module.parameters()]
        self.facts["parameters_replaced"] = bool(after) and after != built_later and len(after) >= len(before)
        a, b = (value[0] if isinstance(value, tuple) and value else value for value in (first, second))
        both = isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) and a.numel() <= MOST_NUMBERS
        same, unreadable = attempt(lambda: equal(as_array(a), as_array(b))) if both else (True, None)
        self.facts["repeatable"] = same or unreadable is not None
        self.modules[self.main.d, self.main.h] = Loaded(module, {})
        self._describe(module)
        return True

    def _describe(self, module: nn.Module) -> None:
        d, h = self.main.d, self.main.h
        _, _, misfits = find_units(module, d, h)
        registered = {id(thing) for thing in (*module.modules(), *module.parameters(), *module.buffers())}
        self.facts |= {
            "misfits": {n: list(p.shape) for n, p in module.named_parameters() if n in misfits},
            "shapes": {name: list(parameter.shape) for name, parameter in module.named_parameters()},
            "unregistered": _unregistered(module, registered),
            "saved_buffers": [
                name
                for name, buffer in module.state_dict().items()
                if name not in self._names(module) and buffer.dim() >= 2 and buffer.shape[-1] == buffer.shape[-2]
            ],
            "plain_tensors": {
                name: str(tensor.dtype).removeprefix("torch.")
                for name, tensor in vars(module).items()
                if isinstance(tensor, torch.Tensor) and tensor.dim() >= 2
            },
            "default_rate": _default_rate(self.answer),
            "dropouts": sum(isinstance(child, nn.Dropout) for child in module.modules()),
        }

    @staticmethod
    def _names(module: nn.Module) -> set[str]:
        return {name for name, _ in module.named_parameters()}

    def _bind(self) -> None:
        """Try the readings of the module until one gives the right output on the main case."""
        d, h = self.main.d, self.main.h
        module = self.modules[d, h].module  # type: ignore[union-attr]
        right = self.key.get("main")
        plain = self.draw.flat_weights(d, "plain")
        first: Binding | None = None
        outputs: list[np.ndarray] = []
        tried = 0
        for binding in [self.known] if self.known else candidates(module, self.exercise, d, h):
            index, raised = attempt(partial(index_tensors, binding, module, d, h))
            if raised is not None:
                continue
            first = first or binding
            tried += 1
            if right is None:
                break
            loaded = Loaded(module, index)
            loaded.load(plain)
            with torch.no_grad():
                value, raised = attempt(lambda: module(*_fresh(self.main.inputs)))
            output = value[0] if isinstance(value, tuple) and value else value
            if raised is not None or not isinstance(output, torch.Tensor):
                break  # it fails for every reading alike
            array, raised = attempt(partial(as_array, output))
            if raised is not None or array.size > MOST_NUMBERS:
                break
            if equal(array, right):
                self.facts["recognised"] = True
                first = binding
                outputs.clear()
                break
            outputs.append(array)
        self.binding = first
        if len(outputs) > 1 and len({output.shape for output in outputs}) == 1:
            self.tensors["candidates"] = np.stack(outputs[:_CANDIDATES_KEPT])
        self.facts["readings_tried"] = tried
        if first is not None:
            index = index_tensors(first, module, d, h)
            self.modules[d, h] = Loaded(module, index)
            self._describe_binding(index)

    def _describe_binding(self, index: dict[str, torch.Tensor]) -> None:
        assert self.binding is not None
        start = probes.offsets(self.main.d)
        bound = set(torch.cat([i.flatten() for i in index.values()]).tolist())
        biases = "".join(role for role in probes.ROLES if start[f"b_{role}"] in bound)
        self.facts["binding"] = {
            "roles": self.binding.roles,
            "units": {p.unit.key: p.roles for p in self.binding.placements},
            "notes": self.binding.notes(),
            "contract": self.binding.contract,
            "linear": all(p.unit.linear for p in self.binding.placements),
            "unbound": list(self.binding.unbound),
            "biases": biases,
        }

    def _bind_loose_biases(self) -> None:
        """A bias that belongs to no nn.Linear may serve any role: try them until the biased case comes out right."""
        if self.binding is None or not self.binding.loose_biases or "biased" not in self.tensors:
            return
        case = next(c for c in self.cases if c.id == "biased")
        loaded = self.modules[case.d, case.h]
        if isinstance(loaded, Raised) or self._biased_is_right():
            return
        guess, module = self.binding, loaded.module
        names = [name for name, _ in guess.loose_biases]
        sizes = {name: parameter.numel() for name, parameter in module.named_parameters()}
        single = [name for name in names if sizes[name] == case.d]
        fixed = [(name, roles) for name, roles in guess.loose_biases if name not in single]
        taken = "".join(roles for _, roles in fixed) + "".join(p.roles for p in guess.placements if p.unit.biases)
        for roles in itertools.permutations([role for role in guess.roles if role not in taken], len(single)):
            self.binding = replace(guess, loose_biases=(*fixed, *zip(single, roles, strict=True)))
            index = index_tensors(self.binding, module, case.d, case.h)
            self.modules[case.d, case.h] = Loaded(module, index)
            self._describe_binding(index)
            self.run(case)
            if self._biased_is_right():
                for other in self.cases:
                    if other.id in _WITH_GRADIENTS:  # the gradients of the biases now have their right places
                        self.run(other, gradients=True)
                return
        self.binding = guess
        self.modules[case.d, case.h] = loaded
        self._describe_binding(loaded.index)
        self.run(case)

    def _biased_is_right(self) -> bool:
        right = self.key.get("biased/" + self.facts["binding"]["biases"].replace("k", ""))
        yours = self.tensors.get("biased")
        return right is None or yours is None or equal(yours, right)

    def _run_again(self) -> None:
        """The main case once more: does anything that happened since change it?"""
        loaded = self.loaded(self.main.d, self.main.h)
        if isinstance(loaded, Raised):
            return
        self._rerun(loaded, "again", self.main.inputs)
        expected = self.draw.flat_weights(self.main.d, "plain")
        parameters = dict(loaded.module.named_parameters())
        changed = [
            n for n, i in loaded.index.items() if n in parameters and not torch.equal(parameters[n], expected[i])
        ]
        self.facts["edited_parameters"] = changed
        if not self.facts.get("repeatable", True):
            self._rerun(loaded, "eval, one key", probes.dropout_inputs(self.exercise, 64, 1), "dropout")

    def _rerun(
        self, loaded: Loaded, case: str, inputs: tuple[torch.Tensor, ...], weights: probes.WeightSet = "plain",
        mask: torch.Tensor | None = None,
    ) -> None:  # fmt: skip
        loaded.load(self.draw.flat_weights(self.main.d, weights))
        with torch.no_grad():
            value, raised = attempt(lambda: self.call(loaded.module, _fresh(inputs), _copied(mask)))
        self.record(case, value, raised)

    # -- train mode and dropout

    def _run_train_mode(self) -> None:
        """Train mode at a dropout rate of 0: the same outputs and gradients as in eval mode."""
        cases = {case.id: case for case in self.cases if case.id in probes.TRAIN_CASES}
        modules: dict[tuple[int, int], Loaded | Raised] = {}
        for case in cases.values():
            sizes = (case.d, case.h)
            if sizes not in modules:
                modules[sizes] = self._load_new(*sizes, rate=0.0, train=True)
            loaded = modules[sizes]
            if isinstance(loaded, Raised):
                self.facts["cases"][f"train/{case.id}"] = {"raised": vars(loaded)}
                continue
            for layer in loaded.module.modules():
                if isinstance(layer, nn.Dropout):
                    layer.p = 0.0
            self._run_on(loaded, case, f"train/{case.id}", gradients=case.id in _WITH_GRADIENTS)

    def _run_dropout(self) -> None:
        """Dropout on the weights of stage 3, with values that are all 1."""
        loaded = self.loaded(self.main.d, self.main.h)
        if isinstance(loaded, Raised):
            return
        one = probes.dropout_inputs(self.exercise, 64, 1)
        many = probes.dropout_inputs(self.exercise, 32, 7)
        first_four = (torch.arange(7) < 4).expand(32, 1, 7)
        module = loaded.module.train()
        torch.manual_seed(0)
        self._run_dropped_gradient(loaded, one)
        self._rerun(loaded, "dropout, one key again", one, "dropout")
        self._rerun(loaded, "dropout, many keys", many, "dropout")
        self._rerun(loaded, "dropout, four of seven keys", many, "dropout", first_four)
        self._run_train_masked(loaded)
        if self.facts["dropouts"] > 1:
            self._run_dropouts_alone(loaded, one)
        module.eval()
        self._rerun(loaded, "eval after train", self.main.inputs)
        module.train()
        self._rerun(loaded, "dropout, after eval", one, "dropout")
        module.eval()
        for rate in probes.OTHER_DROPOUT_RATES:
            other = self._load_new(self.main.d, self.main.h, rate, train=True)
            if not isinstance(other, Raised):
                self._rerun(other, f"dropout, rate {rate}", one, "dropout")

    def _run_dropped_gradient(self, loaded: Loaded, inputs: tuple[torch.Tensor, ...]) -> None:
        """Dropout on one key, with the gradient of the sum of all outputs."""
        loaded.load(self.draw.flat_weights(self.main.d, "dropout"))
        given = _fresh(inputs, gradients=True)
        value, raised = attempt(lambda: self.call(loaded.module, given, None))
        output = self.record("dropout, one key", value, raised)
        if (
            output is not None
            and output.requires_grad
            and attempt(lambda: output.sum().backward(inputs=list(given)))[1] is None
        ):
            gradient = given[0].grad
            if gradient is not None:
                self.tensors["dropout, one key/input gradient 0"] = as_array(gradient)

    def _run_train_masked(self, loaded: Loaded) -> None:
        """Two runs with the same random numbers, the last token changed: may an earlier position notice?"""
        x = self.main.inputs[0]
        changed = x.clone()
        changed[:, -1] += 1
        causal = probes.CAUSAL
        for case, inputs in (("train, masked", x), ("train, masked, last token changed", changed)):
            torch.manual_seed(1)
            self._rerun(loaded, case, (inputs,), mask=causal)

    def _run_dropouts_alone(self, loaded: Loaded, inputs: tuple[torch.Tensor, ...]) -> None:
        layers = [child for child in loaded.module.modules() if isinstance(child, nn.Dropout)]
        rates = [layer.p for layer in layers]
        for i, layer in enumerate(layers):
            for other in layers:
                other.p = 0.0
            layer.p = rates[i]
            self._rerun(loaded, f"dropout, one key, layer {i} alone", inputs, "dropout")
        for layer, rate in zip(layers, rates, strict=True):
            layer.p = rate

    def _run_dropout_not_asked(self) -> None:
        """For the classes whose contract has no dropout: where does it fall, if there is any?"""
        loaded = self.loaded(self.main.d, self.main.h)
        if isinstance(loaded, Raised):
            return
        module = loaded.module.train()
        for layer in module.modules():
            if isinstance(layer, nn.Dropout) and layer.p > 0:
                layer.p = probes.DROPOUT_RATE
        self._rerun(loaded, "train mode", self.main.inputs)
        main = self.tensors.get("main")
        if main is not None and not equal(self.tensors.get("train mode", main), main):
            self._rerun(loaded, "dropout, one key", probes.dropout_inputs(self.exercise, 64, 1), "dropout")
        module.eval()

    # -- odd constructions and notes

    def _build_indivisible(self) -> None:
        try:
            self.build(self.draw.size(90, 10, (9, 14, 18, 22)), 4)
        except KeyboardInterrupt as error:
            raise Interrupted(Raised.of(error)) from None
        except BaseException as error:
            self.facts["indivisible"] = [kind.__name__ for kind in type(error).__mro__]
        else:
            self.facts["indivisible"] = []

    def _look_for_notes(self) -> None:
        """Half precision and a device without data: what passes here may still break elsewhere."""
        loaded = self.loaded(self.main.d, self.main.h)
        if isinstance(loaded, Raised):
            return
        masked = self.exercise in MASKED
        case = next(c for c in self.cases if c.id == ("random mask" if masked else "main"))
        deep = tuple(30 * x for x in case.inputs)
        if masked:
            self._rerun(loaded, "very large scores", deep, mask=case.mask)
        for name, dtype in (("double", torch.float64), ("half", torch.float16), ("bfloat16", torch.bfloat16)):
            inputs = tuple(x.to(dtype) for x in case.inputs)

            def run(inputs: tuple[torch.Tensor, ...] = inputs, dtype: torch.dtype = dtype) -> Any:
                with torch.no_grad():
                    return self.call(loaded.module.to(dtype), inputs, _copied(case.mask))

            _, raised = attempt(run)
            self.facts[name] = vars(raised) if raised else None

        def on_meta() -> Any:
            mask = None if case.mask is None else case.mask.to("meta")
            with torch.no_grad():
                module = loaded.module.float().to("meta")
                return self.call(module, tuple(x.to("meta") for x in case.inputs), mask)

        _, raised = attempt(on_meta)
        self.facts["meta"] = vars(raised) if raised else None


def _fresh(inputs: tuple[torch.Tensor, ...], gradients: bool = False) -> tuple[torch.Tensor, ...]:
    """Copies with the same strides, so that an answer may edit them; what was one tensor stays one tensor."""
    copies: dict[int, torch.Tensor] = {}
    for x in inputs:
        if id(x) not in copies:
            copies[id(x)] = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype).copy_(x).requires_grad_(gradients)
    return tuple(copies[id(x)] for x in inputs)


def _copied(mask: torch.Tensor | None) -> torch.Tensor | None:
    return None if mask is None else mask.clone()


def _default_rate(answer: Any) -> float | None:
    """The default of the constructor's dropout rate, if it has one."""
    try:
        parameters = inspect.signature(answer).parameters
    except (TypeError, ValueError):
        return None
    defaults = [p.default for name, p in parameters.items() if "drop" in name.lower()]
    return float(defaults[0]) if defaults and isinstance(defaults[0], int | float) else None


def _mask_name(module: nn.Module, inputs: int) -> str | None:
    """The mask's name when it can only be given by name, else None."""
    try:
        parameters = inspect.signature(module.forward).parameters
    except (TypeError, ValueError):
        return None
    names = list(parameters)
    keyword_only = [n for n, p in parameters.items() if p.kind is inspect.Parameter.KEYWORD_ONLY and "mask" in n]
    if keyword_only and len(names) > inputs:
        return keyword_only[0]
    positional = [n for n, p in parameters.items() if p.kind is not inspect.Parameter.KEYWORD_ONLY]
    if len(positional) > inputs and "mask" not in positional[inputs]:
        return next((n for n in positional[inputs:] if "mask" in n), None)
    return None


def _forbidden(called: set[str], module: nn.Module) -> list[str]:
    """Ready-made attention that was used."""
    found = {name for name in called if any(part in name for part in READY_MADE)}
    for child in module.modules():
        if isinstance(child, nn.MultiheadAttention | nn.TransformerEncoderLayer):
            found.add(f"nn.{type(child).__name__}")
    if isinstance(module, torch.jit.ScriptModule):
        graph, _ = attempt(lambda: str(module.inlined_graph))
        found |= {name for name in ("scaled_dot_product_attention",) if graph and name in graph}
    return sorted(found)


def _unregistered(module: nn.Module, registered: set[int]) -> list[str]:
    """Layers and parameters that the module keeps where PyTorch does not look: in plain lists, tuples and dicts."""
    found = []
    for name, value in vars(module).items():
        if name.startswith("_") or not isinstance(value, list | tuple | dict):
            continue
        things = list(value.values()) if isinstance(value, dict) else list(value)
        for thing in things:
            inner = list(thing) if isinstance(thing, list | tuple) else [thing]
            layers = [t for t in inner if isinstance(t, nn.Module | nn.Parameter) and id(t) not in registered]
            if any(isinstance(t, nn.Parameter) or any(True for _ in t.parameters()) for t in layers):
                found.append(name)
                break
    return found
