"""What the notebooks show beside the learner's own code: a small sentence, right weights, small experiments.

Pure functions: random numbers come from local generators, the global random state is never touched.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

TOKENS = ("the", "cat", "sleeps", "because", "it", "ate")
_KINDS = (0, 1, 2, 0, 1, 2)  # connecting word, being, deed: "it" is near "cat", "ate" is near "sleeps"

# For each token the tokens that it looks for, in the layers that `projections` makes.
_LOOKS_FOR = {
    "the": ("cat",),
    "cat": ("the", "sleeps"),
    "sleeps": ("cat",),
    "because": ("sleeps", "ate"),
    "it": ("cat",),
    "ate": ("cat", "it"),
}

NO_SCALE, BY_ROOT, BY_WIDTH = "no scale", "÷ √d", "÷ d"
# What the dot products are multiplied with, by the width d; None is what PyTorch's own attention does.
SCALES: dict[str, Callable[[int], float] | None] = {NO_SCALE: lambda d: 1.0, BY_ROOT: None, BY_WIDTH: lambda d: 1 / d}


def sentence(d: int = 16, seed: int = 0) -> tuple[list[str], torch.Tensor]:
    """Six tokens with made-up embeddings; words of one kind have similar embeddings ("it" and "cat").

    d: the width; the mean square of the entries of every embedding is 1.
    returns: the tokens, and x (1, L, d) with L = 6
    raises: ValueError when d is below 1
    """
    if d < 1:
        raise ValueError(f"The width d must be at least 1, not {d}.")
    directions = torch.empty(max(_KINDS) + 1 + len(TOKENS), d)  # one for each kind, then one for each token
    nn.init.orthogonal_(directions, generator=torch.Generator().manual_seed(seed))
    kinds, own = directions[: max(_KINDS) + 1], directions[max(_KINDS) + 1 :]
    x = 0.8 * kinds[list(_KINDS)] + 0.6 * own  # (L, d)
    x = x / x.square().mean(dim=-1, keepdim=True).sqrt()
    return list(TOKENS), x.unsqueeze(0)  # (1, L, d)


def projections(d: int = 16, seed: int = 0) -> tuple[nn.Linear, nn.Linear, nn.Linear]:
    """Query, key and value layers, set by hand so that the attention on `sentence(d, seed)` can be read.

    "it" looks at "cat", "because" looks at both verbs. A sought key has a scaled score near 3, others near 0.

    d: the width, at least 6, the number of tokens.
    returns: three nn.Linear, each (..., d) → (..., d), the biases zero, no gradients asked for
    raises: ValueError when d is below the number of tokens
    """
    if d < len(TOKENS):
        raise ValueError(f"The width d must be at least {len(TOKENS)}, the number of tokens, not {d}.")
    generator = torch.Generator().manual_seed(seed)
    x = sentence(d, seed)[1][0]  # (L, d)
    sought = [[float(key in _LOOKS_FOR[query]) for key in TOKENS] for query in TOKENS]
    keys = d**0.25 * nn.init.orthogonal_(torch.empty(len(TOKENS), d), generator=generator)  # (L, d)
    noise = 0.4 * torch.randn(len(TOKENS), len(TOKENS), generator=generator)
    wanted = 3 * torch.tensor(sought) + noise  # (L, L), the scaled scores to reach
    queries = wanted @ keys  # (L, d): a query points to the keys it looks for
    value_weight = nn.init.orthogonal_(torch.empty(d, d), generator=generator)
    inverse = torch.linalg.pinv(x)  # (d, L): the layers must turn x into exactly these queries and keys
    return _linear((inverse @ queries).T), _linear((inverse @ keys).T), _linear(value_weight)


def with_projections(module: nn.Module, d: int = 16, seed: int = 0) -> nn.Module:
    """A copy of `module` whose query_proj, key_proj and value_proj hold what `projections(d, seed)` makes.

    A module that names its layers otherwise comes back as a plain copy. The module itself is left as it was.
    """
    twin = copy.deepcopy(module)
    for name, layer in zip(("query_proj", "key_proj", "value_proj"), projections(d, seed), strict=True):
        own = getattr(twin, name, None)
        if isinstance(own, nn.Linear) and own.weight.shape == layer.weight.shape:
            own.weight.data.copy_(layer.weight)
            if own.bias is not None:
                own.bias.data.zero_()
    return twin


def attention_weights(
    q: torch.Tensor, k: torch.Tensor, mask: torch.Tensor | None = None, scale: float | None = None
) -> torch.Tensor:
    """The right attention weights, out of PyTorch's own attention: an identity as values hands them back.

    q: (..., L_q, d); k: (..., L_k, d)
    mask: broadcasts to (..., L_q, L_k); True or non-zero = may look
    scale: what the scores are multiplied with; None for 1 / √d
    returns: (..., L_q, L_k)
    """
    identity = torch.eye(k.shape[-2], dtype=q.dtype, device=q.device).expand(*k.shape[:-2], -1, -1)
    may_look = None if mask is None else mask != 0
    return F.scaled_dot_product_attention(q, k, identity, attn_mask=may_look, scale=scale)


def scores(q: torch.Tensor, k: torch.Tensor, scale: float | None = None) -> torch.Tensor:
    """The scores inside PyTorch's own attention: what its softmax is given.

    q: (..., L_q, d); k: (..., L_k, d)
    scale: what the dot products are multiplied with; None for 1 / √d
    returns: (..., L_q, L_k), without gradients
    """
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), _BeforeSoftmax() as seen:  # a fused kernel would hide them
        F.scaled_dot_product_attention(q, k, k, scale=scale)
    return seen.scores


class _BeforeSoftmax(TorchDispatchMode):
    """Keeps what is given to a softmax, also to one inside a function of PyTorch."""

    scores: torch.Tensor

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if "softmax" in func.name():
            self.scores = args[0]
        return func(*args, **(kwargs or {}))


def score_path(q: torch.Tensor, k: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The three stations from queries and keys to weights, for a picture.

    q: (..., L_q, d); k: (..., L_k, d)
    returns: scores, scaled scores and weights, each (..., L_q, L_k)
    """
    return scores(q, k, scale=1.0), scores(q, k), attention_weights(q, k)


def wrong_axis_weights(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    """Weights with the softmax over the wrong axis: every column sums to 1, the rows do not.

    q: (..., L_q, d); k: (..., L_k, d)
    returns: (..., L_q, L_k)
    """
    return attention_weights(k, q).transpose(-2, -1)  # (..., L_k, L_q) → (..., L_q, L_k)


def scale_experiment(
    widths: Sequence[int], seed: int = 0, n_queries: int = 256, n_keys: int = 64
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """What no scale, 1 / √d and 1 / d do to the scores of random queries and keys, as the width d grows.

    Entries of q and k are independent, with mean 0 and variance 1.

    returns: the standard deviation of the scores, and the mean entropy of a row of weights in nats (at most
        log(n_keys)); both map a label to one number for each width
    """
    stds: dict[str, list[float]] = {}
    entropies: dict[str, list[float]] = {}
    for label, table in _random_scores(widths, seed, n_queries, n_keys):
        stds.setdefault(label, []).append(table.std().item())
        entropy = torch.special.entr(table.softmax(dim=-1)).sum(dim=-1)  # (n_queries,)
        entropies.setdefault(label, []).append(entropy.mean().item())
    return stds, entropies


def gradient_experiment(
    widths: Sequence[int], seed: int = 0, n_queries: int = 128, n_keys: int = 64
) -> dict[str, list[float]]:
    """How much gradient the softmax lets through, as the width d grows: same set-up as `scale_experiment`.

    returns: label → for each width the Frobenius norm of the Jacobian of softmax, averaged over the queries
    """
    jacobian = torch.func.vmap(torch.func.jacrev(lambda row: row.softmax(dim=-1)))
    norms: dict[str, list[float]] = {}
    for label, table in _random_scores(widths, seed, n_queries, n_keys):
        norms.setdefault(label, []).append(torch.linalg.matrix_norm(jacobian(table)).mean().item())
    return norms


def attention_flops(length: int, d: int) -> tuple[int, int]:
    """Count the floating-point operations of stage 1, forward, on one sequence; nothing is computed.

    length, d: the sequence (1, length, d)
    returns: those of the three projections, and those of the two products (scores, and weights with values)
    """
    from torch.utils.flop_counter import FlopCounterMode

    x = torch.empty(1, length, d, device="meta")
    layers = [nn.Linear(d, d, device="meta") for _ in range(3)]
    with FlopCounterMode(display=False) as projecting:
        q, k, v = (layer(x) for layer in layers)  # each (1, length, d)
    with FlopCounterMode(display=False) as attending:
        F.scaled_dot_product_attention(q, k, v)  # (1, length, d)
    return projecting.get_total_flops(), attending.get_total_flops()


def watch_weights(module: Callable[..., Any], *inputs: Any, **kw: Any) -> torch.Tensor:
    """The attention weights inside any module: runs it once, in eval mode without gradients, and watches.

    Weights are known by their shape (..., L_q, L_k), no negative entry, and rows that sum to 1 (a row of NaN,
    with nothing to look at, is let through). Of several, those with the most leading axes win, then the last:
    a loop over heads shows its last head. The mode of the module and of its parts is put back.

    module: a module, or any function of tensors
    inputs, kw: what it is called with; the lengths are read from the tensors' second last axes
    returns: (..., L_q, L_k), a copy
    raises: ValueError when no input has (B, L, d), or no weights were seen (a fused kernel hides them)
    """
    tensors = [value for value in (*inputs, *kw.values()) if isinstance(value, torch.Tensor)]
    tensors = [tensor for tensor in tensors if tensor.is_floating_point() and tensor.dim() >= 2]
    if not tensors:
        raise ValueError("Give watch_weights the tensors that the module is called with: (B, L, d).")
    watch = _Watch(tensors[0].shape[-2], {tensor.shape[-2] for tensor in tensors})
    parts = list(module.modules()) if isinstance(module, nn.Module) else []
    modes = [part.training for part in parts]
    try:
        for part in parts:
            part.training = False
        with torch.no_grad(), watch:
            module(*inputs, **kw)
    finally:
        for part, mode in zip(parts, modes, strict=True):
            part.training = mode
    if watch.seen is None:
        raise ValueError(
            "No attention weights were seen: no tensor of shape (..., L_q, L_k) has rows that sum to 1. "
            "Either the softmax runs over another axis, or a fused function hides the weights."
        )
    return watch.seen


class _Watch(TorchFunctionMode):
    """Keeps the last result, among those with the most leading axes, that looks like attention weights."""

    def __init__(self, L_q: int, L_k: set[int]):
        super().__init__()
        self.L_q = L_q
        self.L_k = L_k
        self.seen: torch.Tensor | None = None

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, tuple | list) else (result,):
            if isinstance(tensor, torch.Tensor) and self._is_weights(tensor):
                self.seen = tensor.detach().clone()  # a copy: the module may go on to edit its own tensor
        return result

    def _is_weights(self, result: torch.Tensor) -> bool:
        if not result.is_floating_point() or result.dim() < 2 or result.shape[-2] != self.L_q:
            return False
        if result.shape[-1] not in self.L_k or (self.seen is not None and result.dim() < self.seen.dim()):
            return False
        sums = result.detach().sum(dim=-1)
        empty = sums.isnan()
        tolerance = 1e-4 if torch.finfo(result.dtype).bits >= 32 else 2e-2
        right = empty | ((sums - 1).abs() < tolerance)
        return bool(right.all() and not empty.all() and not (result < 0).any())


def _linear(weight: torch.Tensor) -> nn.Linear:
    """A layer that holds this weight and a zero bias; made without a draw from the global generator."""
    layer = nn.Linear(weight.shape[1], weight.shape[0], device="meta").to_empty(device="cpu")
    layer.weight.data.copy_(weight)
    layer.bias.data.zero_()
    return layer.requires_grad_(False)


def _random_scores(widths: Sequence[int], seed: int, n_queries: int, n_keys: int) -> Iterator[tuple[str, torch.Tensor]]:
    """For each width and each label the scores (n_queries, n_keys) of random queries and keys."""
    generator = torch.Generator().manual_seed(seed)
    for d in widths:
        q = torch.randn(n_queries, d, generator=generator)
        k = torch.randn(n_keys, d, generator=generator)
        for label, scale in SCALES.items():
            yield label, scores(q, k, None if scale is None else scale(d))
