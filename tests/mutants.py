"""Every small slip in the source of a solution, made by mutation operators, and a test of what the slip changes."""

from __future__ import annotations

import ast
import linecache
import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import combinations, product
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from helpers.course import BY_NAME

ROOT = Path(__file__).resolve().parent.parent
CLASSES = ("SelfAttentionV1", "SelfAttentionV2", "SelfAttentionV3", "MultiHeadAttention")


@dataclass(frozen=True)
class Mutant:
    """One small change of a solution.

    change: the changed lines, before → after, or two statements that changed places: first ⇄ second.
    source: the whole changed answer.
    """

    exercise: str
    operator: str
    change: str
    source: str

    def build(self) -> Any:
        """Run the source as a notebook cell would be run. Returns the class or function."""
        return _run_cell(self.source, self.exercise, f"<mutant of {self.exercise}: {self.change}>")


@lru_cache
def mutants(exercise: str) -> list[Mutant]:
    """All mutants of a solution, in a fixed order, each once."""
    tree = _solution_tree(exercise)
    original = ast.unparse(tree)
    found: dict[str, tuple[str, str]] = {}
    for operator, change, source in _mutated_sources(tree):
        if source != original:
            found.setdefault(source, (operator, change))
    return [
        Mutant(exercise, operator, change or _changed_lines(original, source), source)
        for source, (operator, change) in found.items()
        if _compiles(source)
    ]


def _run_cell(source: str, name: str, filename: str) -> Any:
    """Execute a source with the imports of a notebook. Returns what it binds to `name`."""
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    namespace: dict[str, Any] = {"__name__": "__main__", "math": math, "torch": torch, "nn": nn}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(source, filename, "exec"), namespace)
    return namespace[name]


def _solution_tree(exercise: str) -> ast.Module:
    """The syntax tree of one solution, without its docstrings."""
    stem = BY_NAME[exercise].notebook[3:]  # "01_self_attention_v1" → "self_attention_v1"
    module = ast.parse((ROOT / "solutions" / f"{stem}.py").read_text("utf-8"))
    tree = next(n for n in module.body if isinstance(n, ast.ClassDef | ast.FunctionDef) and n.name == exercise)
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            del node.body[0]
    return ast.Module([tree], [])


def _changed_lines(before: str, after: str) -> str:
    old, new = before.splitlines(), after.splitlines()
    while old and new and old[0] == new[0]:
        del old[0], new[0]
    while old and new and old[-1] == new[-1]:
        del old[-1], new[-1]
    return " ⏎ ".join(s.strip() for s in old) + " → " + (" ⏎ ".join(s.strip() for s in new) or "(nothing)")


def _compiles(source: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(source, "<mutant>", "exec")
    except SyntaxError:
        return False
    return True


# --------------------------------------------------------------------------------- places in a tree


@dataclass(frozen=True)
class _Place:
    """Where a node hangs: a field of its parent, and its index where the field is a list."""

    parent: ast.AST
    field: str
    index: int | None

    @property
    def node(self) -> Any:
        held = getattr(self.parent, self.field)
        return held if self.index is None else held[self.index]

    def put(self, node: Any) -> None:
        if self.index is None:
            setattr(self.parent, self.field, node)
        else:
            getattr(self.parent, self.field)[self.index] = node


_NOT_COMPUTED = {"annotation", "returns", "bases", "decorator_list", "type_params", "ctx", "op", "ops"}


def _places(node: ast.AST) -> Iterator[_Place]:
    """Every place below `node`, outermost first; annotations and the texts of errors hold no computation."""
    for field, value in ast.iter_fields(node):
        if field in _NOT_COMPUTED or isinstance(node, ast.JoinedStr):
            continue
        children = [(i, child) for i, child in enumerate(value)] if isinstance(value, list) else [(None, value)]
        for index, child in children:
            if isinstance(child, ast.AST):
                yield _Place(node, field, index)
                if _number(child) is None:  # "-1" is one number
                    yield from _places(child)


def _is_name(node: Any) -> bool:
    """A variable, or an attribute of self."""
    return isinstance(node, ast.Name) or (
        isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"
    )


def _scopes(tree: ast.Module) -> Iterator[tuple[ast.FunctionDef, dict[str, int]]]:
    """Each function with its names (parameters, variables, attributes of self) and the line that binds each first."""
    attributes = {f"self.{n.attr}": 0 for n in ast.walk(tree) if isinstance(n, ast.Attribute) and _is_name(n)}
    for function in [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]:
        bound = [n for n in ast.walk(function) if _is_name(n) and isinstance(n.ctx, ast.Store)]
        lines = {ast.unparse(n): n.lineno for n in sorted(bound, key=lambda n: n.lineno, reverse=True)}
        parameters = {argument.arg: 0 for argument in function.args.args if argument.arg != "self"}
        yield function, attributes | lines | parameters


# ------------------------------------------------------------------------------------ the operators


def _mutated_sources(tree: ast.Module) -> Iterator[tuple[str, str, str]]:
    """Operator, words for the change where the lines do not say it, source. The tree is put back after each."""
    for function, names in _scopes(tree):
        for place in list(_places(function)):
            node = place.node
            for operator, replacement in _replacements(node, names, place.field):
                place.put(replacement)
                yield operator, "", ast.unparse(tree)
                place.put(node)
        pairs = [("swap names", *pair) for pair in _name_pairs(function, names)]
        pairs += [("swap statements", *pair) for pair in _neighbours(function)]
        for operator, first, second in pairs:
            one, two = first.node, second.node
            change = f"{_head(one)} ⇄ {_head(two)}" if operator == "swap statements" else ""
            first.put(two)
            second.put(one)
            yield operator, change, ast.unparse(tree)
            first.put(one)
            second.put(two)


def _replacements(node: Any, names: dict[str, int], field: str) -> Iterator[tuple[str, ast.AST]]:
    """Everything that may stand in the place of one node."""
    if isinstance(node, ast.stmt):
        yield from _instead_of_statement(node)
    if _is_name(node) and ast.unparse(node) in names:
        yield from (("replace name", _code(name)) for name in _other_names(node, names))
    if _number(node) is not None and field != "defaults":
        yield from (("change number", _code(repr(other))) for other in _other_numbers(_number(node)))
    if isinstance(node, ast.Constant) and (node.value is None or isinstance(node.value, bool)):
        yield from (("replace constant", ast.Constant(c)) for c in (True, False, None) if c is not node.value)
    if isinstance(node, ast.Attribute):
        yield from (("use a sister", ast.Attribute(node.value, s, node.ctx)) for s in _SISTERS.get(node.attr, ()))
    if isinstance(node, ast.Call):
        yield from _instead_of_call(node)
        yield from _applied_twice(node)
    if isinstance(node, ast.BinOp):
        yield from _instead_of_operation(node)
    if isinstance(node, ast.Compare):
        yield from _instead_of_comparison(node)
    if isinstance(node, ast.UnaryOp) and not isinstance(node.operand, ast.Constant):
        yield "drop wrapper", node.operand
    if isinstance(node, ast.IfExp):
        yield from (("drop branch", node.body), ("drop branch", node.orelse))
    if isinstance(node, ast.Tuple) and len(node.elts) > 1 and isinstance(node.ctx, ast.Load):
        for i in range(len(node.elts)):
            yield "drop element", ast.Tuple(node.elts[:i] + node.elts[i + 1 :], ast.Load())
    if field == "test":
        yield "negate condition", ast.UnaryOp(ast.Not(), node)


def _other_names(node: Any, names: dict[str, int]) -> list[str]:
    """The names that may stand for this one. Those that are bound only later would raise, and teach nothing."""
    reads = isinstance(node.ctx, ast.Load)
    return [name for name, line in names.items() if name != ast.unparse(node) and (line < node.lineno or not reads)]


def _code(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def _number(node: Any) -> int | float | None:
    """The value of a number literal, its sign included, else None."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _number(node.operand)
        return None if inner is None else -inner
    is_number = isinstance(node, ast.Constant) and type(node.value) in (int, float)
    return node.value if is_number else None


def _other_numbers(value: int | float) -> list[int | float]:
    """Neighbours, the other sign, and what stands for an axis."""
    others = (value + 1, value - 1, -value, -2, -1, 0, 1, 2)
    return [other for other in dict.fromkeys(others) if other != value]


def _instead_of_statement(node: ast.stmt) -> Iterator[tuple[str, ast.AST]]:
    if isinstance(node, ast.FunctionDef):
        return
    yield "drop statement", ast.Pass()
    if isinstance(node, ast.If | ast.With | ast.For):
        yield "drop wrapper", ast.If(ast.Constant(True), node.body, [])
    if isinstance(node, ast.If) and node.orelse:
        yield "drop branch", ast.If(ast.Constant(True), node.orelse, [])


def _instead_of_call(node: ast.Call) -> Iterator[tuple[str, ast.AST]]:
    if ast.unparse(node) == "float('-inf')":
        yield from (("replace -inf", _code(fill)) for fill in ("0", "1e-20", "-1", "float('inf')", "-1e9"))
        return
    for argument in node.args:
        yield "drop wrapper", argument.value if isinstance(argument, ast.Starred) else argument
    if isinstance(node.func, ast.Attribute):
        yield "drop wrapper", node.func.value
        if len(node.args) == 1 and not isinstance(node.func.value, ast.Name):
            swapped = ast.Attribute(node.args[0], node.func.attr, ast.Load())
            yield "swap arguments", ast.Call(swapped, [node.func.value], node.keywords)
    for i, j in combinations(range(len(node.args)), 2):
        args = list(node.args)
        args[i], args[j] = args[j], args[i]
        yield "swap arguments", ast.Call(node.func, args, node.keywords)
    for i in range(len(node.args)):
        yield "drop argument", ast.Call(node.func, node.args[:i] + node.args[i + 1 :], node.keywords)
    for i in range(len(node.keywords)):
        yield "drop keyword", ast.Call(node.func, node.args, node.keywords[:i] + node.keywords[i + 1 :])


def _applied_twice(node: ast.Call) -> Iterator[tuple[str, ast.AST]]:
    if ast.unparse(node.func).endswith(("_", "_like", "float", "tuple")):
        return  # filling, drawing or converting twice is doing it once
    if isinstance(node.func, ast.Attribute) and not _is_name(node.func.value):
        yield "apply twice", ast.Call(ast.Attribute(node, node.func.attr, ast.Load()), node.args, node.keywords)
    if node.args:
        yield "apply twice", ast.Call(node.func, [node, *node.args[1:]], node.keywords)


# What a tired hand writes instead.
_SISTERS = {
    "softmax": ("log_softmax", "sigmoid"),
    "max": ("min", "mean"),
    "sum": ("mean", "prod", "cumsum"),
    "exp": ("exp2", "expm1", "sigmoid"),
    "sqrt": ("cbrt", "log", "isqrt", "exp"),
    "tril": ("triu",),
    "ones": ("zeros", "eye"),
    "rand_like": ("randn_like", "ones_like", "zeros_like"),
    "masked_fill": ("masked_fill_",),
    "view": ("reshape",),
    "reshape": ("view",),
    "transpose": ("view", "permute", "reshape"),
    "unsqueeze": ("squeeze",),
    "chunk": ("split",),
    "cat": ("stack", "hstack"),
    "copy_": ("add_", "mul_"),
    "Dropout": ("AlphaDropout", "Dropout1d", "Dropout2d", "Identity", "FeatureAlphaDropout"),
    "xavier_uniform_": ("xavier_normal_", "kaiming_uniform_", "kaiming_normal_", "orthogonal_", "uniform_", "zeros_"),
    "zeros_": ("ones_", "uniform_", "normal_"),
    "weight": ("bias",),
    "bias": ("weight",),
    "in_features": ("out_features",),
    "wq": ("wk", "wv", "wo"),
    "wk": ("wq", "wv", "wo"),
    "wv": ("wq", "wk", "wo"),
    "wo": ("wq", "wk", "wv"),
}

_OPERATORS = (ast.Mult(), ast.Div(), ast.Add(), ast.Sub(), ast.FloorDiv())
_COMPARISONS = (ast.Eq(), ast.NotEq(), ast.Lt(), ast.LtE(), ast.Gt(), ast.GtE())


def _instead_of_operation(node: ast.BinOp) -> Iterator[tuple[str, ast.AST]]:
    for op in _OPERATORS:
        yield "change operator", ast.BinOp(node.left, op, node.right)
    yield "swap operands", ast.BinOp(node.right, node.op, node.left)
    yield "drop operand", node.left
    yield "drop operand", node.right


def _instead_of_comparison(node: ast.Compare) -> Iterator[tuple[str, ast.AST]]:
    if isinstance(node.ops[0], ast.Is | ast.IsNot):
        return  # turned round by "negate condition"
    for op in _COMPARISONS:
        yield "change operator", ast.Compare(node.left, [op], node.comparators)
    yield "drop operand", node.left
    yield "drop operand", node.comparators[0]


def _name_pairs(function: ast.FunctionDef, names: dict[str, int]) -> Iterator[tuple[_Place, _Place]]:
    """Two names that stand in one statement, headers of loops and conditions included."""
    for statement in ast.walk(function):
        if not isinstance(statement, ast.stmt) or isinstance(statement, ast.FunctionDef):
            continue
        inside = [
            place
            for place in _places(statement)
            if ast.unparse(place.node) in names and not _within_body(statement, place)
        ]
        yield from combinations(inside, 2)


def _neighbours(function: ast.FunctionDef) -> Iterator[tuple[_Place, _Place]]:
    """Statements that follow each other."""
    for node in ast.walk(function):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            yield from ((_Place(node, "body", i), _Place(node, "body", i + 1)) for i in range(len(body) - 1))


def _head(statement: ast.stmt) -> str:
    """A statement's first line, or what it assigns to."""
    assigned = isinstance(statement, ast.Assign)
    return ast.unparse(statement.targets[0] if assigned else statement).splitlines()[0]


def _within_body(statement: ast.stmt, place: _Place) -> bool:
    inner = [part for field in ("body", "orelse") for part in getattr(statement, field, [])]
    return any(place.parent is node for part in inner for node in ast.walk(part))


# ------------------------------------------------- what an answer computes, without any help of the judge

Look = Callable[[Any], list[Tensor]]  # runs an answer in one way; returns what is seen, always in the same order


def difference(exercise: str, answer: Any) -> str:
    """How an answer differs from the solution on inputs that keep the contract: what was tried, or "" for nothing.

    An exception, another shape, or numbers further apart than 1e-4 (absolute and relative) count.
    """
    expected = _expected(exercise)
    with _quiet():
        for (label, look), right in zip(looks(exercise).items(), expected, strict=True):
            try:
                seen = _seeded(look, answer)
            except Exception as error:
                return f"{label}: {type(error).__name__}"
            if len(seen) != len(right) or any(map(_apart, seen, right)):
                return label
    return ""


@lru_cache
def _expected(exercise: str) -> list[list[Tensor]]:
    """What the solution, run as a cell too, shows."""
    solution = _run_cell(ast.unparse(_solution_tree(exercise)), exercise, f"<solution of {exercise}>")
    with _quiet():
        return [_seeded(look, solution) for look in looks(exercise).values()]


@contextmanager
def _quiet() -> Iterator[None]:
    """No warnings, and the random state as it was."""
    with warnings.catch_warnings(), torch.random.fork_rng(devices=[]):
        warnings.simplefilter("ignore")
        yield


def _seeded(look: Look, answer: Any) -> list[Tensor]:
    torch.default_generator.manual_seed(0)  # torch.manual_seed would set up every kind of device each time
    return look(answer)


def _apart(seen: Any, expected: Tensor) -> bool:
    if (
        not isinstance(seen, Tensor)
        or seen.shape != expected.shape
        or (seen.dtype == torch.bool) != (expected.dtype == torch.bool)
    ):
        return True
    return not torch.allclose(seen.double(), expected.double(), atol=1e-4, rtol=1e-4, equal_nan=True)


def _draw(seed: int, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def _keep(seed: int, *shape: int) -> Tensor:
    """A random mask in which no row is empty."""
    keep = torch.rand(*shape, generator=torch.Generator().manual_seed(seed)) < 0.6
    keep[..., seed % shape[-1]] = True
    return keep


def _gradient(x: Tensor) -> Tensor:
    return torch.zeros_like(x) if x.grad is None else x.grad


@lru_cache
def looks(exercise: str) -> dict[str, Look]:
    """The ways in which an answer to the exercise is run, by label."""
    if exercise in CLASSES:
        return _class_looks(exercise)
    special: dict[str, dict[str, Look]] = {
        "fuse_projections": _fuse_looks(),
        "stack_heads": _stack_looks(),
        "init_attention_weights": {"with biases": partial(_initialised, True), "without": partial(_initialised, False)},
        "torch_attention": _torch_looks(),
        "inverted_dropout": _dropout_looks(),
    }
    return special.get(exercise) or {
        f"call {i}": partial(_called, arguments) for i, arguments in enumerate(_CALLS[exercise]())
    }


# -- the classes


def _class_looks(exercise: str) -> dict[str, Look]:
    looks: dict[str, Look] = {}
    sizes = ((2, 5, 7, 24, 4), (1, 1, 1, 4, 1), (3, 4, 4, 9, 3), (1, 3, 2, 6, 6), (2, 1, 6, 10, 2), (4, 6, 1, 1, 1))
    for size in sizes:
        looks[f"size {size}"] = partial(_module_run, exercise, size)
    size = sizes[0]
    looks["gradients"] = partial(_module_run, exercise, size, gradients=True)
    looks["large inputs"] = partial(_module_run, exercise, size, factor=10.0)
    looks["float64"] = partial(_module_run, exercise, size, dtype=torch.float64)
    looks["train mode"] = partial(_module_run, exercise, size, train=True)
    if exercise in ("SelfAttentionV3", "MultiHeadAttention"):
        for form, dtype in product(range(_MASK_FORMS), _MASK_DTYPES):
            looks[f"mask form {form}, {dtype}"] = partial(_module_run, exercise, size, mask=(form, dtype))
        for other, form in product(sizes[1:3], range(_MASK_FORMS)):
            looks[f"mask form {form}, size {other}"] = partial(_module_run, exercise, other, mask=(form, torch.bool))
        looks["mask, large inputs"] = partial(_module_run, exercise, size, mask=(0, torch.bool), factor=10.0)
        looks["mask, gradients"] = partial(_module_run, exercise, size, mask=(0, torch.bool), gradients=True)
        looks["mask, train mode"] = partial(_module_run, exercise, size, mask=(0, torch.bool), train=True)
        looks["empty rows"] = partial(_module_run, exercise, size, mask=(0, torch.bool), empty_row=True)
    if exercise == "MultiHeadAttention":
        looks["self-attention"] = partial(_module_run, exercise, (2, 5, 5, 24, 4), same=True)
        for width, h in ((10, 4), (10, 3), (7, 2), (2, 4), (9, 6)):
            looks[f"{h} heads do not divide {width}"] = partial(_refuses, width, h)
    return looks


_MASK_DTYPES = (torch.bool, torch.int64, torch.uint8, torch.float32)
_MASK_FORMS = 6


def _mask(exercise: str, form: int, size: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """One of the shapes that broadcast to (B, L, L), or to (B, h, L_q, L_k)."""
    B, L_q, L_k, _, h = size
    self_forms = ((B, L_q, L_q), (L_q, L_q), (1, L_q, L_q), (B, 1, L_q), (1, 1, L_q), (L_q,))
    cross_forms = ((B, 1, L_q, L_k), (L_q, L_k), (B, h, L_q, L_k), (B, 1, 1, L_k), (h, L_q, L_k), (1, 1, 1, L_k))
    shape = (cross_forms if exercise == "MultiHeadAttention" else self_forms)[form]
    return _keep(form, *shape).to(dtype)


def _arguments(exercise: str, size: tuple[int, ...], dropout_rate: float = 0.3) -> tuple[Any, ...]:
    d, h = size[3], size[4]
    return {"SelfAttentionV3": (d, dropout_rate), "MultiHeadAttention": (d, h)}.get(exercise, (d,))


def _module_run(
    exercise: str,
    size: tuple[int, ...],
    answer: Any,
    mask: tuple[int, torch.dtype] | None = None,
    factor: float = 1.0,
    dtype: torch.dtype = torch.float32,
    gradients: bool = False,
    train: bool = False,
    empty_row: bool = False,
    same: bool = False,
) -> list[Tensor]:
    """Build a module, give it weights by name, run it twice. Returns outputs, what must stay as it was, gradients."""
    B, L_q, L_k, d, _ = size
    module = answer(*_arguments(exercise, size)).to(dtype).train(train)
    module.load_state_dict(_weights(exercise, d), strict=True)
    keys = [_draw(2, B, L_k, d), _draw(3, B, L_k, d)] if exercise == "MultiHeadAttention" else []
    inputs = [factor * x.to(dtype) for x in (_draw(1, B, L_q, d), *keys)]
    inputs = [x.requires_grad_(gradients) for x in (inputs[:1] * 3 if same else inputs)]
    masks = [] if mask is None else [_mask(exercise, mask[0], size, mask[1])]
    if empty_row:
        masks[0][0, ..., 1, :] = False
    torch.default_generator.manual_seed(7)
    outputs = [module(*inputs, *masks) for _ in range(2)]
    if empty_row:
        outputs = [torch.cat([output[:1, :1], output[:1, 2:]], dim=1) for output in outputs]
    seen = [*outputs, *inputs, *masks, *(value for _, value in sorted(module.state_dict().items()))]
    if gradients:
        (outputs[0] * torch.arange(outputs[0].numel()).reshape(outputs[0].shape).cos()).sum().backward()
        seen += [_gradient(x) for x in (*inputs, *(p for _, p in sorted(module.named_parameters())))]
    return seen


@lru_cache
def _weights(exercise: str, d: int) -> dict[str, Tensor]:
    """Weights by the contract's names."""
    wide = {"proj": 3 * d}
    names = {
        "SelfAttentionV1": ("query_proj", "key_proj", "value_proj"),
        "SelfAttentionV2": ("proj",),
        "SelfAttentionV3": ("proj", "output_proj"),
        "MultiHeadAttention": ("wq", "wk", "wv", "wo"),
    }[exercise]
    weights: dict[str, Tensor] = {}
    for i, name in enumerate(names):
        weights[f"{name}.weight"] = 1.2 * _draw(20 + i, wide.get(name, d), d) / math.sqrt(d)
        weights[f"{name}.bias"] = 0.7 * _draw(30 + i, wide.get(name, d))
    return weights


def _refuses(width: int, h: int, answer: Any) -> list[Tensor]:
    try:
        answer(width, h)
    except (ValueError, AssertionError):
        return [torch.tensor(True)]
    return [torch.tensor(False)]


# -- the functions


def _called(arguments: tuple[Any, ...], answer: Any) -> list[Tensor]:
    """Call a function. Returns the result, the arguments after the call, and gradients where there are any."""
    given = [a.clone().requires_grad_(a.is_floating_point()) if isinstance(a, Tensor) else a for a in arguments]
    result = answer(*given)
    if isinstance(result, int | float):
        return [torch.tensor(float(result), dtype=torch.float64)]
    tensors = [a for a in given if isinstance(a, Tensor)]
    seen = [result.detach(), *(t.detach() for t in tensors)]
    if result.requires_grad:
        (result * torch.arange(result.numel()).reshape(result.shape).cos()).sum().backward()
        seen += [_gradient(t) for t in tensors if t.is_floating_point()]
    return seen


def _score_calls() -> list[tuple[Any, ...]]:
    shapes = (((2, 5, 6), (2, 7, 6)), ((3, 4), (5, 4)), ((2, 3, 4, 1), (2, 3, 2, 1)), ((4, 4, 4), (4, 4, 4)))
    return [(_draw(1, *q), _draw(2, *k)) for q, k in shapes]


def _softmax_calls() -> list[tuple[Any, ...]]:
    rows = [_draw(1, *shape) for shape in ((2, 5, 7), (3, 3), (4, 1), (2, 3, 4, 5), (4, 4, 4))]
    far = torch.tensor([[1000.0, -1000.0, 999.0], [-1000.0, -1001.0, 0.0]])
    return [(scores,) for scores in (*rows, rows[0] + 1000, rows[0] - 1000, far)]


def _masked_calls() -> list[tuple[Any, ...]]:
    shapes = (((2, 5, 7), (2, 5, 7)), ((3, 4), (3, 4)), ((2, 4, 5, 7), (2, 1, 5, 7)), ((2, 5, 7), (2, 1, 7)),
              ((2, 5, 7), (5, 7)), ((5, 5, 5), (5, 1, 5)), ((2, 3, 1), (1, 1, 1)))  # fmt: skip
    calls = [
        (factor * _draw(1, *scores), _keep(2, *mask).to(dtype))
        for scores, mask in shapes
        for dtype in _MASK_DTYPES
        for factor in (1.0, 100.0)
    ]
    return calls


def _padding_calls() -> list[tuple[Any, ...]]:
    lengths = (([3, 1, 5], 5), ([2, 4], 7), ([2], 3), ([4, 1, 3, 2], 4), ([0, 2], 3), ([1], 1))
    return [(torch.tensor(n, dtype=dtype), longest) for n, longest in lengths for dtype in (torch.int64, torch.int32)]


def _split_calls() -> list[tuple[Any, ...]]:
    sizes = ((2, 5, 24, 4), (1, 3, 4, 2), (3, 7, 10, 2), (2, 3, 6, 1), (2, 3, 6, 6), (2, 4, 24, 4), (1, 1, 8, 2))
    return [(_draw(1, B, L, d), h) for B, L, d, h in sizes] + [(_draw(1, 5, 2, 24).transpose(0, 1), 4)]


def _merge_calls() -> list[tuple[Any, ...]]:
    sizes = ((2, 4, 5, 6), (1, 2, 3, 2), (3, 2, 7, 5), (2, 1, 3, 6), (4, 4, 4, 4), (1, 3, 1, 4), (2, 3, 5, 1))
    return [(_draw(1, *size),) for size in sizes] + [(_draw(1, 2, 5, 4, 6).transpose(1, 2),)]


_CALLS: dict[str, Callable[[], list[tuple[Any, ...]]]] = {
    "weighted_average": lambda: [(_draw(1, *w).softmax(-1), _draw(2, *v)) for w, v in
                                 (((3, 5), (5, 4)), ((4, 4), (4, 4)), ((1, 1), (1, 6)), ((2, 7), (7, 1)))],
    "attention_scores": _score_calls,
    "softmax": _softmax_calls,
    "dot_product_std": lambda: [(d,) for d in (1, 2, 3, 4, 16, 64, 100, 768)],
    "attention_parameters": lambda: [(d, *bias) for d in (1, 2, 3, 12, 64, 768) for bias in ((), (True,), (False,))],
    "fused_xavier_ratio": lambda: [()],
    "causal_mask": lambda: [(n,) for n in (1, 2, 3, 4, 7)],
    "padding_mask": _padding_calls,
    "masked_softmax": _masked_calls,
    "repaired_weights": _masked_calls,
    "split_heads": _split_calls,
    "merge_heads": _merge_calls,
}  # fmt: skip


def _dropout_looks() -> dict[str, Look]:
    """Under one seed; the only solution whose numbers depend on it."""
    weights = (_draw(1, 40, 30).softmax(-1), _draw(2, 2, 3, 4, 5).softmax(-1))
    calls = [(w, rate, *mode) for w in weights for rate in (0.0, 0.2, 0.5, 0.9) for mode in ((), (True,), (False,))]
    return {f"call {i}": partial(_called, arguments) for i, arguments in enumerate(calls)}


def _linear(seed: int, inputs: int, outputs: int, bias: bool) -> nn.Linear:
    layer = nn.Linear(inputs, outputs, bias)
    with torch.no_grad():
        for i, parameter in enumerate(layer.parameters()):
            parameter.copy_(_draw(seed + i, *parameter.shape))
    return layer


def _layers_seen(made: list[Any], given: list[nn.Linear], x: Tensor) -> list[Tensor]:
    """What new layers compute, whether they can be trained, and that they own their weights and left the old ones."""
    seen = [torch.tensor([type(layer) is nn.Linear and layer.weight.is_leaf for layer in made])]
    seen += [layer(x) for layer in made]
    seen += [p.clone() for layer in given for p in layer.parameters()]
    seen += [torch.tensor([layer.bias is not None and layer.bias.requires_grad for layer in made])]
    with torch.no_grad():
        for layer in given:
            for parameter in layer.parameters():
                parameter.zero_()
    return seen + [layer(x) for layer in made]


def _fuse_looks() -> dict[str, Look]:
    def look(d: int, bias: bool, answer: Any) -> list[Tensor]:
        given = [_linear(10 * i, d, d, bias) for i in range(3)]
        return _layers_seen([answer(*given)], given, _draw(99, 2, 3, d))

    return {f"d = {d}, bias {bias}": partial(look, d, bias) for d in (6, 1, 9) for bias in (True, False)}


def _stack_looks() -> dict[str, Look]:
    def look(size: tuple[int, int, int], bias: bool, answer: Any) -> list[Tensor]:
        d_model, d_k, h = size
        heads = [tuple(_linear(10 * i + 100 * j, d_model, d_k, bias) for i in range(3)) for j in range(h)]
        made = answer(heads)
        return _layers_seen(list(made), [layer for head in heads for layer in head], _draw(99, 2, 3, d_model))

    sizes = ((24, 6, 4), (10, 5, 2), (6, 6, 1), (3, 1, 3), (6, 2, 3))
    return {f"{size}, bias {bias}": partial(look, size, bias) for size in sizes for bias in (True, False)}


class _Four(nn.Module):
    """The layers of multi-head attention, without its forward."""

    def __init__(self, d_model: int, h: int, bias: bool = True):
        super().__init__()
        self.h = h
        self.d_k = d_model // h
        self.wq, self.wk, self.wv, self.wo = (_linear(10 * i, d_model, d_model, bias) for i in range(4))


def _initialised(bias: bool, answer: Any) -> list[Tensor]:
    """Facts that hold for Xavier-uniform weights whatever was drawn; order and seed are free."""
    mha = _Four(64, 4, bias)
    before = {name: p.clone() for name, p in mha.named_parameters()}
    answer(mha)
    bound = math.sqrt(6 / 128)
    facts = []
    for name, now in mha.named_parameters():
        if name.endswith("bias"):
            facts.append(bool((now == 0).all()))
        else:
            facts += [not torch.equal(now, before[name]), bool(now.abs().max() <= bound), now.requires_grad]
            facts += [abs(now.std().item() / bound * math.sqrt(3) - 1) < 0.05, abs(now.mean().item()) < 0.05 * bound]
    facts += [not torch.equal(a.weight, b.weight) for a, b in combinations((mha.wq, mha.wk, mha.wv, mha.wo), 2)]
    return [torch.tensor(facts)]


def _torch_looks() -> dict[str, Look]:
    def look(size: tuple[int, ...], masked: bool, answer: Any) -> list[Tensor]:
        B, L_q, L_k, d, h = size
        mask = (_keep(4, L_q, L_k),) if masked else ()
        mha = _Four(d, h)
        output = answer(mha, _draw(1, B, L_q, d), _draw(2, B, L_k, d), _draw(3, B, L_k, d), *mask)
        return [output, *mha.state_dict().values()]

    sizes = ((2, 5, 7, 24, 4), (3, 4, 4, 10, 2), (1, 1, 3, 6, 1))
    return {f"{size}, mask {masked}": partial(look, size, masked) for size in sizes for masked in (False, True)}
