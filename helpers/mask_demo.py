"""The experiments of notebook 03: masks, fill values, empty rows, dropout, the output projection.

Pure functions: what they draw comes from a local generator or inside a forked random state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from helpers import demo
from helpers.plots import masks

EQUAL_CLUES, ONE_CLEAR_CLUE = "seven equal clues", "one clear clue, six faint ones"
PAD = "[pad]"
LEARNED, LEFT_OUT, ONLY_SMALLER = "learned", "left out", "left out, branch ÷ √3"


@dataclass(frozen=True)
class Table:
    """A small table of text that a notebook can show: one header, rows of the same length."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def __repr__(self) -> str:
        widths = [max(len(line[i]) for line in (self.header, *self.rows)) for i in range(len(self.header))]
        lines = [
            "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
            for line in (self.header, *self.rows)
        ]
        return "\n".join(lines)

    def _repr_markdown_(self) -> str:
        lines = [self.header, tuple("---" for _ in self.header), *self.rows]
        return "\n".join("| " + " | ".join(line) + " |" for line in lines)


class LibraryAttention(nn.Module):
    """Stage 3 on top of PyTorch's own attention, for the demonstrations. Starts from `seed`.

    forward(x, attention_mask=None): (B, L, d) → (B, L, d); True or non-zero = may look
    """

    def __init__(self, d: int, dropout_rate: float = 0.0, seed: int = 0):
        super().__init__()
        self.dropout_rate = dropout_rate
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.proj = nn.Linear(d, 3 * d)
            self.output_proj = nn.Linear(d, d)

    def forward(self, x: torch.Tensor, attention_mask: torch.Tensor | None = None) -> torch.Tensor:
        return self.output_proj(self._attend(x, attention_mask, need_weights=False)[0])

    def weights(self, x: torch.Tensor) -> torch.Tensor:
        """The weights without a mask. (B, L, d) → (B, L, L)"""
        return self._attend(x, None, need_weights=True)[1]

    def _attend(self, x: torch.Tensor, mask: torch.Tensor | None, *, need_weights: bool) -> tuple[Any, Any]:
        """PyTorch's function for several heads, with one. Returns what the head gathered, and its weights."""
        B, L, d = x.shape
        tokens = x.transpose(0, 1)  # (L, B, d): it takes the batch second
        gathered, weights = F.multi_head_attention_forward(
            *(tokens, tokens, tokens),
            embed_dim_to_check=d,
            num_heads=1,
            in_proj_weight=self.proj.weight,
            in_proj_bias=self.proj.bias,
            bias_k=None,
            bias_v=None,
            add_zero_attn=False,
            dropout_p=self.dropout_rate,
            out_proj_weight=torch.eye(d, dtype=x.dtype, device=x.device),  # this layer has its own, which comes after
            out_proj_bias=None,
            training=self.training,
            need_weights=need_weights,
            attn_mask=None if mask is None else (mask == 0).expand(B, L, L),
        )
        return gathered.transpose(0, 1), weights


# ---------------------------------------------------------------- masks


def causal(length: int) -> torch.Tensor:
    """The causal mask of PyTorch's own attention: where equal scores get any weight.

    returns: (L, L), bool, True = may look
    """
    equal = torch.zeros(length, 1)
    return F.scaled_dot_product_attention(equal, equal, torch.eye(length), is_causal=True) > 0


def padding(batch: Sequence[Sequence[str]]) -> torch.Tensor:
    """The padding mask of a batch of sentences that are filled up with PAD.

    batch: B lists of L words
    returns: (B, 1, L), bool, True = a real token
    raises: ValueError when the sentences differ in length
    """
    lengths = sorted({len(words) for words in batch})
    if len(lengths) != 1:
        raise ValueError(f"All sentences of a batch must have one length; these have {lengths}.")
    return torch.tensor([[[word != PAD for word in words]] for words in batch])


def moved(
    layer: Callable[..., torch.Tensor], x: torch.Tensor, attention_mask: torch.Tensor | None = None
) -> torch.Tensor:
    """Who hears whom: replaces one token after the other and looks which outputs move.

    A module runs in eval mode and is put back. A NaN counts as a move only where there was none before.

    layer: called as layer(x) or layer(x, attention_mask); (1, L, d) → (1, L, d)
    x: (1, L, d)
    returns: (L, L), bool; entry [i, j]: does changing token j move output i
    raises: ValueError when x is not one sample
    """
    if x.dim() != 3 or x.shape[0] != 1:
        raise ValueError(f"moved looks at one sample: x must be (1, L, d), not {tuple(x.shape)}.")
    length = x.shape[1]
    inputs = () if attention_mask is None else (attention_mask,)
    columns = []
    with _mode(layer, training=False), torch.no_grad():
        before = _output(layer(x, *inputs))[0]  # (L, d)
        for j in range(length):
            other = x.clone()
            other[:, j] = x[:, j].flip(-1) + 1
            after = _output(layer(other, *inputs))[0]  # (L, d)
            same = torch.isclose(after, before, rtol=1e-4, atol=1e-6, equal_nan=True)
            columns.append(~same.all(dim=-1))  # (L,)
    return torch.stack(columns, dim=-1)  # (L, L)


@contextmanager
def _mode(layer: object, *, training: bool) -> Iterator[None]:
    """Put a module and its parts into one mode, and back afterwards. A function has no mode."""
    parts = list(layer.modules()) if isinstance(layer, nn.Module) else []
    modes = [part.training for part in parts]
    try:
        for part in parts:
            part.training = training
        yield
    finally:
        for part, mode in zip(parts, modes, strict=True):
            part.training = mode


def _output(result: Any) -> Any:
    """The output alone, where a layer returns its weights too."""
    return result[0] if isinstance(result, tuple) else result


# ---------------------------------------------------------------- what is written into hidden places


def random_scores(length: int, spread: float = 1.0, seed: int = 0) -> torch.Tensor:
    """Made-up scores with mean 0 and standard deviation `spread`. returns: (L, L)"""
    return spread * torch.randn(length, length, generator=torch.Generator().manual_seed(seed))


def filled(scores: torch.Tensor, mask: torch.Tensor, fill: float) -> torch.Tensor:
    """The scores of a picture with `fill` in the hidden places: numbers only, no gradient flows back.

    scores: (..., L_q, L_k); mask broadcasts to it, non-zero = may look. returns: (..., L_q, L_k)
    raises: RuntimeError when the dtype of the scores cannot hold `fill`
    """
    held = scores.new_zeros(1).masked_fill(torch.tensor([True]), fill).item()  # raises where numpy would round to -inf
    return torch.from_numpy(masks.filled(scores.detach().numpy(), (mask != 0).numpy(), held))


def filled_weights(scores: torch.Tensor, mask: torch.Tensor, fill: float) -> torch.Tensor:
    """Weights after `fill` was written into the hidden places of the scores. Shapes and errors as in `filled`."""
    return filled(scores, mask, fill).softmax(dim=-1)


def tutorial_weights(scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Weights as the published tutorial computes them. Shapes as in `filled_weights`."""
    return filled_weights(scores, mask, 1e-20)


def zeroed_weights(scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Softmax over all keys first, hidden weights set to 0 afterwards. Shapes as in `filled_weights`."""
    return F.softmax(scores, -1) * (mask != 0)


def leaked(weights: torch.Tensor, mask: torch.Tensor) -> float:
    """The largest share of one row that lies on hidden keys; 0 when the mask is kept.

    weights: (..., L_q, L_k); mask broadcasts to it
    """
    return (weights * (mask == 0)).sum(dim=-1).max().item()


def leak_table(mask: torch.Tensor, fills: Sequence[float | str], spreads: Sequence[float]) -> Table:
    """How much weight each fill leaves on hidden keys, for small and large scores, in two dtypes.

    mask: (L, L). fills: numbers, or "finfo.min" for the smallest number of the dtype.
    spreads: standard deviations of the scores
    """
    dtypes = (torch.float32, torch.float16)
    cases = [(dtype, spread) for dtype in dtypes for spread in spreads]
    header = ["fill", *(f"{str(dtype).removeprefix('torch.')}, spread {spread:g}" for dtype, spread in cases)]
    rows = []
    for fill in fills:
        cells = [fill if isinstance(fill, str) else f"{fill:g}"]
        for dtype, spread in cases:
            scores = random_scores(len(mask), spread).to(dtype)
            value = torch.finfo(dtype).min if isinstance(fill, str) else fill
            try:
                cells.append(f"{leaked(filled_weights(scores, mask, value), mask):.2g}")
            except RuntimeError:
                cells.append("error: does not fit")
        rows.append(tuple(cells))
    return Table(tuple(header), tuple(rows))


def hidden_key_table(seed: int = 0) -> Table:
    """Which part of a hidden token still matters: its key, its value, or neither, for four ways to mask.

    One query, five keys of width 8, the last key hidden; its key or its value is replaced by another vector.
    """
    generator = torch.Generator().manual_seed(seed)
    q, k, v = (torch.randn(rows, 8, generator=generator) for rows in (1, 5, 5))
    other_k, other_v = k.clone(), v.clone()
    other_k[-1] += 2
    other_v[-1] += 2
    mask = padding([["a", "b", "c", "d", PAD]])[0]  # (1, 5)
    ways: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "no mask": lambda scores: F.softmax(scores, -1),
        "1e-20 before softmax": lambda scores: tutorial_weights(scores, mask),
        "0 after softmax": lambda scores: zeroed_weights(scores, mask),
        "-inf before softmax": lambda scores: filled_weights(scores, mask, float("-inf")),
    }

    def weights(weigh: Callable[[torch.Tensor], torch.Tensor], k: torch.Tensor) -> torch.Tensor:
        return weigh(demo.scores(q, k))  # (1, 5)

    rows = []
    for name, weigh in ways.items():
        start = weights(weigh, k) @ v  # (1, 5) @ (5, 8) → (1, 8)
        by_key = (weights(weigh, other_k) @ v - start).abs().max().item()
        by_value = (weights(weigh, k) @ other_v - start).abs().max().item()
        rows.append((name, *(f"{x:.2f}" for x in (weights(weigh, k).sum().item(), by_key, by_value))))
    return Table(("mask", "row sum", "move: other hidden key", "move: other hidden value"), tuple(rows))


def empty_row_table() -> Table:
    """Five answers for a query with nothing to look at: what it receives, and what the gradient of v is.

    The loss reads the other rows only: whatever arrives in v's gradient comes from them, or from a NaN.
    """
    generator = torch.Generator().manual_seed(0)
    scores, v = (torch.randn(4, width, generator=generator) for width in (4, 3))
    mask = torch.ones(4, 4, dtype=torch.bool)
    mask[0] = False

    def library(scores: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        identity = torch.eye(4)  # q = the scores and k = the identity: their product is the scores again
        return F.scaled_dot_product_attention(scores, identity, v, attn_mask=mask, scale=1.0)

    def minus_inf(scores: torch.Tensor) -> torch.Tensor:
        return filled_weights(scores, mask, float("-inf"))

    ways: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
        "-inf": lambda s, v: minus_inf(s) @ v,
        "-inf, NaN replaced in the output": lambda s, v: (minus_inf(s) @ v).nan_to_num(0),
        "-inf, NaN replaced in the weights": lambda s, v: minus_inf(s).nan_to_num(0) @ v,
        "-1e9": lambda s, v: filled_weights(s, mask, -1e9) @ v,
        "PyTorch's own function": library,
    }
    rows = []
    for name, attend in ways.items():
        values = v.clone().requires_grad_()
        out = attend(scores, values)
        out[1:].sum().backward()
        assert values.grad is not None
        gradient = "NaN" if values.grad.isnan().any() else "finite"
        rows.append((name, _in_words(out[0].detach(), v), gradient))
    return Table(("way", "the empty row receives", "gradient of v"), tuple(rows))


def _in_words(row: torch.Tensor, v: torch.Tensor) -> str:
    """What a query received, in a word or two. row: (d,), v: (L, d)"""
    if row.isnan().any():
        return "NaN"
    if torch.equal(row, torch.zeros_like(row)):
        return "zeros"
    return "the mean of all values" if torch.allclose(row, v.mean(dim=0), atol=1e-6) else "something else"


# ---------------------------------------------------------------- dropout


@contextmanager
def _one_thread() -> Iterator[None]:
    """These tensors are tiny: a second thread would only be waited for. The setting is put back."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def draws(draw: Callable[[], torch.Tensor], n: int, seed: int = 0) -> torch.Tensor:
    """Call `draw` n times from one seed; the global random state is left as it was. returns: (n, ...)"""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return torch.stack([draw() for _ in range(n)])


def dropped_weights(weights: torch.Tensor, rate: float) -> torch.Tensor:
    """Weights set to 0 with the probability `rate`, the others left as they are. returns: the same shape"""
    return F.dropout(weights, rate) * (1 - rate)


def repeats(layer: nn.Module, x: torch.Tensor) -> dict[str, bool]:
    """Whether two calls with the same x agree, in train and in eval mode. The mode is put back.

    x: (B, L, d)
    """
    answers = {}
    for name in ("train", "eval"):
        with _mode(layer, training=name == "train"), torch.no_grad():
            answers[f"{name}: two calls are equal"] = torch.equal(_output(layer(x)), _output(layer(x)))
    return answers


def leaning(
    rates: Sequence[float], seeds: Sequence[int]
) -> tuple[dict[str, list[float]], dict[str, list[list[float]]]]:
    """Does dropout on the weights stop a trained layer from leaning on one position? Two tasks, one layer.

    A query looks at seven positions and says which of two classes they show. Either all seven tell the same
    (EQUAL_CLUES), or one tells it clearly and six faintly, each with its own noise (ONE_CLEAR_CLUE). The
    start is uneven on purpose: the first weights already prefer one position.

    returns: for each task the largest weight after training, a mean over the seeds for each rate;
        and (lowest, highest) over the seeds for each rate
    """
    means: dict[str, list[float]] = {}
    ranges: dict[str, list[list[float]]] = {}
    for task in (EQUAL_CLUES, ONE_CLEAR_CLUE):
        largest = [[_largest_weight(task, rate, seed) for seed in seeds] for rate in rates]
        means[task] = [sum(one) / len(one) for one in largest]
        ranges[task] = [[min(one) for one in largest], [max(one) for one in largest]]
    return means, ranges


def _clues(task: str, n: int) -> tuple[torch.Tensor, torch.Tensor]:
    """One batch: position 0 asks, positions 1 to 7 carry the clue in feature 8. returns: (n, 8, 16), (n,)"""
    label = torch.randint(0, 2, (n,)).float()
    x = torch.zeros(n, 8, 16)
    x[:, :, :8] = 2 * torch.eye(8)  # features 0 to 7 say which position this is
    sign = (2 * label - 1).unsqueeze(-1)  # (n, 1)
    if task == EQUAL_CLUES:
        x[:, 1:, 8] = sign + 0.5 * torch.randn(n, 1)  # one noise for all: a second look tells nothing new
    else:
        x[:, 1:, 8] = 0.5 * sign + torch.randn(n, 7)
        x[:, 3, 8] = label * 2 - 1 + 0.4 * torch.randn(n)
    return x, label


def _largest_weight(task: str, rate: float, seed: int, steps: int = 300) -> float:
    """Train one layer on one task; the mean of the query's largest weight afterwards, in eval mode."""
    with _one_thread(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layer, head = LibraryAttention(16, rate, seed), nn.Linear(16, 1)
        with torch.no_grad():
            layer.proj.weight[:32] *= 4  # queries and keys: larger scores, an uneven start
        optimizer = torch.optim.Adam([*layer.parameters(), *head.parameters()], lr=0.01)
        for _ in range(steps):
            x, label = _clues(task, 64)
            loss = F.binary_cross_entropy_with_logits(head(layer(x)[:, 0]).squeeze(-1), label)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        x, _ = _clues(task, 1000)
    with torch.no_grad():
        weights = layer.eval().weights(x)[:, 0]  # (1000, 8, 8) → (1000, 8): those of the query
    return weights.max(dim=-1).values.mean().item()


# ---------------------------------------------------------------- the output projection


def deep_stack(
    depth: int, steps: int, seeds: Sequence[int], *, norm: bool = False
) -> tuple[dict[str, list[float]], dict[str, list[list[float]]]]:
    """Train a stack of attention layers with and without the output projection; the task: reverse 8 tokens.

    Every layer adds to its input (x = x + layer(x)). Three kinds: the projection LEARNED, LEFT_OUT, and
    ONLY_SMALLER: left out, but the branch divided by √3, as small as the default start of nn.Linear makes it.

    norm: normalise what each layer reads (pre-norm)
    returns: for each kind the loss at every step, mean over the seeds; and [lowest, highest] over the seeds
    """
    means: dict[str, list[float]] = {}
    ranges: dict[str, list[list[float]]] = {}
    for kind in (LEARNED, LEFT_OUT, ONLY_SMALLER):
        losses = torch.tensor([_reversing_losses(depth, kind, steps, seed, norm) for seed in seeds])  # (seeds, steps)
        means[kind] = losses.mean(dim=0).tolist()
        ranges[kind] = [losses.amin(dim=0).tolist(), losses.amax(dim=0).tolist()]
    return means, ranges


def _reversing_losses(depth: int, kind: str, steps: int, seed: int, norm: bool) -> list[float]:
    """The losses of one training run; see `deep_stack`."""
    length, n_tokens, d = 8, 8, 32
    with _one_thread(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        embedding, positions, head = (
            nn.Embedding(n_tokens, d),
            nn.Embedding(length, d),
            nn.Linear(d, n_tokens),
        )
        layers = nn.ModuleList(LibraryAttention(d, seed=1000 * seed + i) for i in range(depth))
        if kind != LEARNED:
            for layer in layers:
                layer.output_proj = _fixed(d, 1.0 if kind == LEFT_OUT else 3**-0.5)
        parts = nn.ModuleList([embedding, positions, head, layers])
        optimizer = torch.optim.Adam([p for p in parts.parameters() if p.requires_grad], lr=1e-3)
        losses = []
        for _ in range(steps):
            tokens = torch.randint(0, n_tokens, (64, length))
            x = embedding(tokens) + positions.weight  # (64, 8, 32)
            for layer in layers:
                x = x + layer(F.layer_norm(x, (d,)) if norm else x)
            loss = F.cross_entropy(head(x).flatten(0, 1), tokens.flip(1).flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses


def _fixed(d: int, factor: float) -> nn.Linear:
    """An output projection that only multiplies by `factor`, and does not learn."""
    layer = nn.Linear(d, d, bias=False)
    layer.weight.data = factor * torch.eye(d)
    return layer.requires_grad_(False)
