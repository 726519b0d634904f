"""Finds where each probe weight belongs in a learner's module, whatever its names and layout.

A binding gives every parameter an *index tensor* of its own shape: which entry of the flat vector of probe weights goes
to which place. Loading is then `vector[index]`, and gradients travel back by the same index.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import nn

from helpers.judge.probes import ROLES, offsets

# The contract's names: where they are there, no other reading is tried.
CONTRACT_NAMES = {
    "SelfAttentionV1": {"query_proj": "q", "key_proj": "k", "value_proj": "v"},
    "SelfAttentionV2": {"proj": "qkv"},
    "SelfAttentionV3": {"proj": "qkv", "output_proj": "o"},
    "MultiHeadAttention": {"wq": "q", "wk": "k", "wv": "v", "wo": "o"},
}
NEEDED = {
    "SelfAttentionV1": "qkv",
    "SelfAttentionV2": "qkv",
    "SelfAttentionV3": "qkvo",
    "MultiHeadAttention": "qkvo",
}
_MOST_CANDIDATES = 600


@dataclass(frozen=True)
class Unit:
    """Some parameters that together hold whole projections: one weight, or one small weight per head.

    key: the name with head numbers replaced by `*`; one name per weight. shape: of the stacked weights.
    linear: the last axis is the input, as in nn.Linear. roles: how many projections it holds.
    slice: which matrix of an (n, d, d) stack.
    """

    key: str
    names: tuple[str, ...]
    shape: tuple[int, ...]
    linear: bool
    roles: int
    biases: tuple[str, ...] = ()
    slice: int | None = None


@dataclass(frozen=True)
class Placement:
    """A unit with its roles and the order of its axes.

    axes: r (role), h (head), e (feature inside a head), i (the other width).
    """

    unit: Unit
    roles: str
    axes: str


@dataclass(frozen=True)
class Binding:
    """A full reading of a module. loose_biases: (name, roles) of bias parameters that belong to no nn.Linear."""

    placements: tuple[Placement, ...]
    loose_biases: tuple[tuple[str, str], ...] = ()
    contract: bool = False
    unbound: tuple[str, ...] = field(default=(), compare=False)

    @property
    def roles(self) -> str:
        return "".join(placement.roles for placement in self.placements)

    def notes(self) -> list[str]:
        """What is unusual about this reading, as ids for the explanation."""
        seen = set()
        for placement in self.placements:
            axes = placement.axes
            if "r" in axes and axes.index("r") > min((axes.index(a) for a in "he" if a in axes), default=9):
                seen.add("layout-interleaved")
            if len(placement.roles) > 1 and placement.roles != "".join(r for r in ROLES if r in placement.roles):
                seen.add("layout-order")
            if "h" in axes and "e" in axes and axes.index("e") < axes.index("h"):
                seen.add("layout-strided-heads")
        return sorted(seen)


# ------------------------------------------------------------------------------------ reading a module


def _is_linear(module: nn.Module) -> bool:
    kind = getattr(module, "original_name", type(module).__name__)
    return kind in ("Linear", "NonDynamicallyQuantizableLinear", "LazyLinear") or (
        isinstance(module, nn.Conv1d) and module.kernel_size == (1,)
    )


def _belongs_to_norm(module: nn.Module, name: str) -> bool:
    owner = module.get_submodule(name.rpartition(".")[0])
    return "norm" in type(owner).__name__.lower()


def find_units(module: nn.Module, d: int, h: int) -> tuple[list[Unit], list[str], list[str]]:
    """Read a module's parameters: (units, loose biases, parameters that fit nothing)."""
    parameters = dict(module.named_parameters())
    linear_of: dict[str, str] = {}  # weight name → bias name or ""
    for name, child in module.named_modules():
        prefix = f"{name}." if name else ""
        if _is_linear(child) and f"{prefix}weight" in parameters:
            linear_of[f"{prefix}weight"] = f"{prefix}bias" if f"{prefix}bias" in parameters else ""
    owned_biases = {bias for bias in linear_of.values() if bias}
    groups: dict[str, list[str]] = {}
    loose, misfits = [], []
    for name, parameter in parameters.items():
        if name in owned_biases:
            continue
        count, shape = parameter.numel(), tuple(parameter.shape)
        whole = count in (d * d, 2 * d * d, 3 * d * d, 4 * d * d)
        flat = sum(size > 1 for size in shape) <= 1
        if name in linear_of or (whole and (not flat or len(shape) == 1)):
            key = name if whole and count >= d * d else re.sub(r"\d+", "*", name)
            groups.setdefault(key, []).append(name)
        elif not flat and count in (d * d // h, 3 * d * d // h):
            groups.setdefault(re.sub(r"\d+", "*", name), []).append(name)
        elif count in (d, 2 * d, 3 * d, 4 * d, d // h, 3 * d // h) and not _belongs_to_norm(module, name):
            loose.append(name)
        else:
            misfits.append(name)
    units: list[Unit] = []
    for key, names in groups.items():
        made = _units_of(key, names, parameters, linear_of, d)
        units += made
        misfits += [] if made else names
    return units, loose, misfits


def _units_of(key: str, names: list[str], parameters: dict[str, Any], linear_of: dict[str, str], d: int) -> list[Unit]:
    """Zero units where the size fits no projection; several for a stack of whole matrices."""
    shapes = {tuple(size for size in parameters[name].shape if size > 1) or (1,) for name in names}
    if len(shapes) != 1:
        return []
    shape = shapes.pop()
    linear = names[0] in linear_of
    if linear and len(names) == 1:
        shape = tuple(parameters[names[0]].shape[:2])
    elif linear:
        shape = (len(names), *parameters[names[0]].shape[:2])
    elif len(names) > 1:
        shape = (len(names), *shape)
    total = sum(parameters[name].numel() for name in names)
    if total % (d * d) or total // (d * d) not in (1, 2, 3, 4):
        return []
    roles = total // (d * d)
    biases = tuple(linear_of[name] for name in names if linear_of.get(name))
    biases = biases if len(biases) == len(names) else ()
    if len(names) == 1 and roles > 1 and shape == (roles, d, d):
        return [Unit(f"{key}[{i}]", tuple(names), (d, d), linear, 1, (), i) for i in range(roles)]
    if len(names) == 1 and roles == 4 and shape in ((4 * d, d), (d, 4 * d)):  # all projections side by side
        return [Unit(f"{key}[{i}]", tuple(names), (d, d), linear, 1, (), i) for i in range(roles)]
    return [Unit(key, tuple(names), shape, linear, roles, biases)]


_ROLE_WORDS = {
    "q": r"q|query|queries|quer",
    "k": r"k|key|keys",
    "v": r"v|val|value|values",
    "o": r"o|out|output|outputs|final|merge|join|combine|mix|unify",
}
_AROUND = r"(?:w|to|fc|lin|linear|proj|projection|p|mat|m|weight|weights|dense|layer|head|heads|s)"


def role_in_name(name: str) -> str:
    """The role that a name tells, or "" : `to_q`, `W_query`, `heads.0.key`, `fc_out`."""
    name = re.sub(r"\.(weight|bias)$", "", name)
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name)
    tokens = [token for token in re.split(r"[^A-Za-z]+", name.lower()) if token]
    found = []
    for token in tokens:
        for role, words in _ROLE_WORDS.items():
            if re.fullmatch(rf"{_AROUND}?(?:{words}){_AROUND}?", token):
                found.append(role)
    return found[-1] if found else ""


# ----------------------------------------------------------------------------------------- candidates


def _axis_orders(unit: Unit, role_count: int, d: int, h: int) -> list[str]:
    """The orders of r, h, e, i that fit the unit's shape."""
    sizes = {"e": d // h, "i": d}
    if h > 1:
        sizes["h"] = h
    if role_count > 1:
        sizes["r"] = role_count
    fitting = []
    for order in itertools.permutations(sizes):
        if unit.linear and order[-1] != "i":
            continue
        if _grouping(order, sizes, unit.shape) is not None:
            fitting.append("".join(order))
    last = unit.linear  # nn.Linear stores (out, in); a bare parameter is mostly multiplied as x @ W, (in, out)
    return sorted(fitting, key=lambda axes: ((axes[-1] == "i") != last, ["rhei".index(a) for a in axes if a != "i"]))


def _output_axis_orders(unit: Unit, d: int, h: int) -> list[str]:
    """The same for an output projection: i is its output, h and e together its input."""
    sizes = {"i": d, "e": d // h} | ({"h": h} if h > 1 else {})
    fitting = []
    for order in itertools.permutations(sizes):
        per_head = len(unit.names) > 1
        if unit.linear and not per_head and order[0] != "i":
            continue
        if unit.linear and per_head and order[:2] != ("h", "i"):
            continue
        if _grouping(order, sizes, unit.shape) is not None:
            fitting.append("".join(order))
    likely = "ihe" if unit.linear else "hei"
    return sorted(fitting, key=lambda axes: [likely.index(axis) for axis in axes])


def _grouping(order: Any, sizes: dict[str, int], shape: tuple[int, ...]) -> list[int] | None:
    """How many of the ordered axes each axis of `shape` swallows, or None when they do not fit."""
    result, rest = [], list(order)
    for length in shape:
        product, taken = 1, 0
        while rest and product < length:
            product *= sizes[rest.pop(0)]
            taken += 1
        if product != length:
            return None
        result.append(taken)
    return result if not any(sizes[axis] > 1 for axis in rest) else None


def candidates(module: nn.Module, exercise: str, d: int, h: int) -> Iterator[Binding]:
    """Readings of a module, the likely ones first. By the contract's names there are only the head layouts to try."""
    units, loose, misfits = find_units(module, d, h)
    needed = NEEDED[exercise]
    contract = _contract_roles(units, exercise)
    if contract is not None:
        assignments: list[dict[Unit, str]] = [contract]
    else:
        assignments = list(_role_assignments(units, needed))
    count = 0
    for assignment in assignments:
        for binding in _layouts(assignment, d, h, in_order=contract is not None and exercise != "MultiHeadAttention"):
            unbound = tuple(misfits + [u.key for u in units if u not in assignment])
            biases = _loose_bias_roles(loose, module, binding, d)
            yield replace(binding, loose_biases=biases, contract=contract is not None, unbound=unbound)
            count += 1
            if count >= _MOST_CANDIDATES:
                return


def _contract_roles(units: list[Unit], exercise: str) -> dict[Unit, str] | None:
    """The roles by the contract's names, when all the names of the projections are there."""
    names = CONTRACT_NAMES[exercise]
    by_name = {unit.key.removesuffix(".weight"): unit for unit in units}
    inputs = [name for name, roles in names.items() if roles != "o"]
    if not all(name in by_name and by_name[name].roles == len(names[name]) for name in inputs):
        return None
    found = {by_name[name]: roles for name, roles in names.items() if name in by_name}
    rest = [unit for unit in units if unit not in found]
    missing_output = "o" in NEEDED[exercise] and "o" not in "".join(found.values())
    told = [unit for unit in rest if role_in_name(unit.key) == "o"]
    rest = told if len(told) == 1 else rest
    if missing_output and len(rest) == 1 and rest[0].roles == 1:
        found[rest[0]] = "o"
    return found


def _role_assignments(units: list[Unit], needed: str) -> Iterator[dict[Unit, str]]:
    """Every way to give the roles to the units; the one that the names tell first, then the order of definition."""
    if not units:
        return
    told = {unit: role_in_name(unit.key) for unit in units}
    total = sum(unit.roles for unit in units)
    if total > len(needed):  # a layer too many: leave out those whose names tell no role
        units = sorted(units, key=lambda unit: unit.roles == 1 and not told[unit])
    ways = []
    for order in itertools.permutations(needed, min(total, len(needed))):
        rest, way, fits = list(order), {}, True
        for unit in units:
            if not rest:
                break
            mine = "".join(rest[: unit.roles])
            rest = rest[unit.roles :]
            # One weight holds the input projections, or the output projection, never both by different axes.
            if len(mine) < unit.roles or ("o" in mine and len(mine) > 1):
                fits = False
                break
            way[unit] = mine
        if fits and way:
            ways.append(way)

    def likelihood(way: dict[Unit, str]) -> tuple[int, int, int]:
        against = sum(1 for unit, mine in way.items() if told[unit] and mine != told[unit] and len(mine) == 1)
        output_shape = sum(1 for unit, mine in way.items() if mine == "o")
        disorder = sum(
            a > b for a, b in itertools.combinations([needed.index(r) for mine in way.values() for r in mine], 2)
        )
        return against, disorder, -output_shape

    yield from sorted(ways, key=likelihood)


def _layouts(assignment: dict[Unit, str], d: int, h: int, in_order: bool) -> Iterator[Binding]:
    """Every consistent choice of axes for one assignment of roles: the same for all units of a kind."""
    kinds: dict[tuple[Any, ...], list[str]] = {}
    for unit, roles in assignment.items():
        kind = (unit.shape, unit.linear, roles == "o", len(roles))
        orders = _output_axis_orders(unit, d, h) if roles == "o" else _axis_orders(unit, len(roles), d, h)
        if in_order:
            orders = [axes for axes in orders if "r" not in axes or axes.replace("i", "")[0] == "r"]
        kinds[kind] = orders
    for choice in itertools.product(*kinds.values()):
        by_kind = dict(zip(kinds, choice, strict=True))
        flat = [axes for kind, axes in zip(kinds, choice, strict=True) if _heads_share_an_axis(axes, kind[0], d, h)]
        if len({axes.index("h") < axes.index("e") for axes in flat}) > 1:
            continue  # heads taken in one layout and joined in another: not a layout but a mistake
        placements = tuple(
            Placement(unit, roles, by_kind[(unit.shape, unit.linear, roles == "o", len(roles))])
            for unit, roles in assignment.items()
        )
        yield Binding(placements)


def _heads_share_an_axis(axes: str, shape: tuple[int, ...], d: int, h: int) -> bool:
    """True where head and feature lie on one axis of the parameter, so that their order is a layout."""
    if "h" not in axes:
        return False
    sizes = {"e": d // h, "i": d, "h": h, "r": math.prod(shape) // (d * d)}
    start = 0
    for taken in _grouping(axes, sizes, shape) or []:
        if {"h", "e"} <= set(axes[start : start + taken]):
            return True
        start += taken
    return False


def _loose_bias_roles(names: list[str], module: nn.Module, binding: Binding, d: int) -> tuple[tuple[str, str], ...]:
    """Bias parameters outside nn.Linear: by size, then by their names, else in the order of definition."""
    parameters = dict(module.named_parameters())
    open_roles = [p.roles for p in binding.placements if not p.unit.biases]
    result = []
    for name in sorted(names, key=lambda name: not role_in_name(name)):  # those whose names tell choose first
        fitting = [roles for roles in open_roles if len(roles) * d == parameters[name].numel()]
        told = role_in_name(name)
        chosen = told if told in fitting else next(iter(fitting), "")
        if chosen:
            open_roles.remove(chosen)
        elif parameters[name].numel() == 4 * d and len(binding.roles) == 4:
            chosen = binding.roles  # one bias for all four, in the order of their weights
        elif parameters[name].numel() == 3 * d and {"q", "k", "v"} <= set(open_roles):
            chosen = "qkv"  # three separate weights, one bias for all
            open_roles = [roles for roles in open_roles if roles not in "qkv"]
        result.append((name, chosen))
    order = {name: i for i, name in enumerate(names)}
    return tuple(sorted(result, key=lambda pair: order[pair[0]]))


# --------------------------------------------------------------------------------------- index tensors


def index_tensors(binding: Binding, module: nn.Module, d: int, h: int) -> dict[str, torch.Tensor]:
    """For every bound parameter: which entry of the flat weight vector stands at which place.

    Raises KeyError when the module lacks a parameter that the binding names.
    """
    parameters = dict(module.named_parameters())
    result: dict[str, torch.Tensor] = {}
    for placement in binding.placements:
        unit = placement.unit
        names = _members(unit, parameters)
        weight_index, bias_index = _placed(placement, d, h)
        weight_index = weight_index.reshape(len(names), -1)
        for position, name in enumerate(names):
            parameter = parameters[name]
            if unit.slice is None:
                result[name] = weight_index[position].reshape(parameter.shape)
            else:
                whole = result.setdefault(name, torch.empty(parameter.shape, dtype=torch.long))
                if parameter.dim() == 2 and parameter.shape[0] < parameter.shape[1]:  # (d, 4d): a slice is some columns
                    whole[:, unit.slice * d : (unit.slice + 1) * d] = weight_index.reshape(d, d)
                else:  # (n, d, d) or (4d, d)
                    whole.view(-1, d, d)[unit.slice] = weight_index.reshape(d, d)
        if unit.biases:
            bias_names = [re.sub(r"weight$", "bias", name) for name in names]
            if placement.roles == "o" and len(names) > 1:  # one output bias per head: their sum counts
                result |= {name: bias_index.reshape(parameters[name].shape) for name in bias_names[:1]}
                continue
            rows = bias_index.reshape(len(names), -1)
            result |= {n: rows[i].reshape(parameters[n].shape) for i, n in enumerate(bias_names)}
    for name, roles in binding.loose_biases:
        if name in parameters and roles:
            index = _loose_bias_index(parameters[name], roles, binding, d, h)
            if index is not None:
                result[name] = index
    return result


def _members(unit: Unit, parameters: dict[str, Any]) -> list[str]:
    """The unit's parameter names in this module, which may have another number of heads."""
    if "*" not in unit.key:
        return [unit.names[0]] if unit.names[0] in parameters else [_missing(unit.names[0])]
    pattern = re.compile(re.escape(unit.key).replace(r"\*", r"\d+"))
    names = [name for name in parameters if pattern.fullmatch(name)]
    return names or [_missing(unit.key)]


def _missing(name: str) -> str:
    raise KeyError(name)


def _placed(placement: Placement, d: int, h: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Index tensors of one unit's stacked weight and of its bias, in the placement's order of axes."""
    start = offsets(d)
    head = torch.arange(d * d)
    if placement.roles == "o":
        grid = (start["W_o"] + head).reshape(d, h, d // h)  # (i, h, e)
        order = ["ihe".index(axis) for axis in _with_heads(placement.axes)]
        return grid.permute(order), start["b_o"] + torch.arange(d)
    grids = [(start[f"W_{role}"] + head).reshape(h, d // h, d) for role in placement.roles]  # (h, e, i)
    biases = [(start[f"b_{role}"] + torch.arange(d)).reshape(h, d // h) for role in placement.roles]  # (h, e)
    axes = _with_heads(placement.axes)
    axes = axes if "r" in axes else "r" + axes
    weight = torch.stack(grids).permute(["rhei".index(axis) for axis in axes])
    bias = torch.stack(biases).permute(["rhe".index(axis) for axis in axes if axis != "i"])
    return weight, bias


def _with_heads(axes: str) -> str:
    return axes if "h" in axes else axes.replace("e", "he")


def _loose_bias_index(parameter: torch.Tensor, roles: str, binding: Binding, d: int, h: int) -> torch.Tensor | None:
    """A bias of several roles follows the layout of the weight that holds them."""
    if parameter.numel() == d:
        placement = next((p for p in binding.placements if roles in p.roles), None)
        index = offsets(d)[f"b_{roles[0]}"] + torch.arange(d)
        if placement is not None and roles != "o" and "h" in placement.axes and "e" in placement.axes:
            strided = placement.axes.index("e") < placement.axes.index("h")
            index = index.reshape(h, d // h).T.flatten() if strided else index
        return index.reshape(parameter.shape)
    fused = next((p for p in binding.placements if len(p.roles) * d == parameter.numel()), None)
    if fused is not None and fused.roles == roles:
        return _placed(fused, d, h)[1].reshape(parameter.shape)
    if parameter.numel() == 4 * d:
        return torch.cat([offsets(d)[f"b_{role}"] + torch.arange(d) for role in roles]).reshape(parameter.shape)
    if parameter.numel() == 3 * d:
        starts = [offsets(d)[f"b_{role}"] + torch.arange(d) for role in "qkv"]
        return torch.cat(starts).reshape(parameter.shape)
    return None


# --------------------------------------------------------------------------------------------- loading


@dataclass
class Loaded:
    """A module together with its index tensors; loads probe weights and reads gradients back."""

    module: nn.Module
    index: dict[str, torch.Tensor]

    def load(self, vector: torch.Tensor) -> None:
        """Write the probe weights into the parameters, in place."""
        parameters = dict(self.module.named_parameters())
        with torch.no_grad():
            for name, index in self.index.items():
                parameters[name].copy_(vector[index])
            for name in self.zeroed:
                parameters[name].zero_()

    @property
    def zeroed(self) -> list[str]:
        """Biases that no index reaches: the output biases of all heads but the first."""
        bound_weights = {name.removesuffix("weight") for name in self.index if name.endswith("weight")}
        return [
            name
            for name, _ in self.module.named_parameters()
            if name.endswith("bias") and name not in self.index and name.removesuffix("bias") in bound_weights
        ]

    def gradients(self, size: int) -> torch.Tensor:
        """The parameters' gradients, brought into the order of the flat vector; NaN where nothing is bound."""
        parameters = dict(self.module.named_parameters())
        result = torch.full((size,), float("nan"), dtype=torch.float32)
        for name, index in self.index.items():
            gradient = parameters[name].grad
            value = torch.zeros(index.shape, dtype=torch.float32) if gradient is None else gradient.detach().float()
            result[index.flatten()] = value.flatten()
        return result
