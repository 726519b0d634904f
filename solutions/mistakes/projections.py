"""Mistakes in the projections: who makes q, k and v, and from what."""

import torch
from torch.nn import functional as F

from solutions.mistakes import ALL, FUSED, HEADS, SEPARATE, mistake


@mistake("k-uses-wq", SEPARATE)
def project(self, x_q, x_k, x_v):
    to_q, _, to_v = self.layers()
    return to_q(x_q), to_q(x_k), to_v(x_v)


@mistake("q-uses-wk", SEPARATE)
def project(self, x_q, x_k, x_v):
    _, to_k, to_v = self.layers()
    return to_k(x_q), to_k(x_k), to_v(x_v)


@mistake("v-uses-wk", SEPARATE)
def project(self, x_q, x_k, x_v):
    to_q, to_k, _ = self.layers()
    return to_q(x_q), to_k(x_k), to_k(x_v)


@mistake("v-uses-wq", SEPARATE)
def project(self, x_q, x_k, x_v):
    to_q, to_k, _ = self.layers()
    return to_q(x_q), to_k(x_k), to_q(x_v)


@mistake("q-uses-wv", SEPARATE)
def project(self, x_q, x_k, x_v):
    _, to_k, to_v = self.layers()
    return to_v(x_q), to_k(x_k), to_v(x_v)


@mistake("k-uses-wv", SEPARATE)
def project(self, x_q, x_k, x_v):
    to_q, _, to_v = self.layers()
    return to_q(x_q), to_v(x_k), to_v(x_v)


@mistake("one-projection-for-all", SEPARATE)
def project(self, x_q, x_k, x_v):
    to_q, _, _ = self.layers()
    return to_q(x_q), to_q(x_k), to_q(x_v)


@mistake("roles-swapped", SEPARATE)
def project(self, x_q, x_k, x_v):
    to_q, to_k, to_v = self.layers()
    return to_k(x_q), to_q(x_k), to_v(x_v)


@mistake("roles-swapped", SEPARATE)
def project(self, x_q, x_k, x_v):
    to_q, to_k, to_v = self.layers()
    return to_q(x_q), to_v(x_k), to_k(x_v)


@mistake("roles-swapped", SEPARATE)
def project(self, x_q, x_k, x_v):
    to_q, to_k, to_v = self.layers()
    return to_v(x_q), to_k(x_k), to_q(x_v)


@mistake("stream-not-projected", ALL)
class ValuesRaw:
    def forward_from(self, x_q, x_k, x_v, mask):
        return _with_raw(self, x_q, x_k, x_v, mask, "v")


@mistake("stream-not-projected", ALL)
class QueriesRaw:
    def forward_from(self, x_q, x_k, x_v, mask):
        return _with_raw(self, x_q, x_k, x_v, mask, "q")


@mistake("stream-not-projected", ALL)
class KeysRaw:
    def forward_from(self, x_q, x_k, x_v, mask):
        return _with_raw(self, x_q, x_k, x_v, mask, "k")


@mistake("stream-not-projected", ALL)
class QueriesAndKeysRaw:
    def forward_from(self, x_q, x_k, x_v, mask):
        return _with_raw(self, x_q, x_k, x_v, mask, "qk")


@mistake("stream-not-projected", ALL)
class NothingProjected:
    def forward_from(self, x_q, x_k, x_v, mask):
        return _with_raw(self, x_q, x_k, x_v, mask, "qkv")


def _with_raw(self, x_q, x_k, x_v, mask, raw):
    """Run with some streams left as they came."""
    right = type(self).__mro__[1]
    project = right.project

    def some_raw(a, b, c):
        streams = zip("qkv", project(self, a, b, c), (a, b, c), strict=True)
        return tuple(given if role in raw else projected for role, projected, given in streams)

    self.project = some_raw
    try:
        return right.forward_from(self, x_q, x_k, x_v, mask)
    finally:
        del self.project


@mistake("weight-transposed", SEPARATE)
def project(self, x_q, x_k, x_v):
    return tuple(x @ layer.weight for x, layer in zip((x_q, x_k, x_v), self.layers(), strict=True))


@mistake("bias-ignored", SEPARATE)
def project(self, x_q, x_k, x_v):
    return tuple(F.linear(x, layer.weight) for x, layer in zip((x_q, x_k, x_v), self.layers(), strict=True))


@mistake("keys-from-queries-input", HEADS)
def project(self, x_q, x_k, x_v):
    return self.wq(x_q), self.wk(x_q), self.wv(x_v)


@mistake("values-from-keys-input", HEADS)
def project(self, x_q, x_k, x_v):
    return self.wq(x_q), self.wk(x_k), self.wv(x_k)


@mistake("keys-from-values-input", HEADS)
def project(self, x_q, x_k, x_v):
    return self.wq(x_q), self.wk(x_v), self.wv(x_v)


@mistake("keys-from-queries-input", HEADS)
def project(self, x_q, x_k, x_v):
    return self.wq(x_q), self.wk(x_q), self.wv(x_q)


@mistake("loop-overwrites-input", HEADS)
def project(self, x_q, x_k, x_v):
    q = self.wq(x_q)
    k = self.wk(q) if x_k.shape == q.shape else self.wk(x_k)
    return q, k, self.wv(k)


@mistake("loop-overwrites-input", HEADS)
class LoopOverwritesInput:
    """Every head projects what the head before it has projected."""

    def project(self, x_q, x_k, x_v):
        streams, parts = [x_q, x_k, x_v], []
        for head in range(self.h):
            streams = [layer(x) for layer, x in zip(self.layers(), streams, strict=True)]
            width = slice(head * self.d_k, (head + 1) * self.d_k)
            parts.append([x[..., width] for x in streams])
        return tuple(torch.cat(columns, dim=-1) for columns in zip(*parts, strict=True))


@mistake("weight-transposed", HEADS)
class AllWeightsTransposed:
    def project(self, x_q, x_k, x_v):
        return tuple(x @ layer.weight for x, layer in zip((x_q, x_k, x_v), self.layers(), strict=True))

    def output(self, x):
        return x @ self.wo.weight


@mistake("weight-transposed", ("SelfAttentionV3",))
def output(self, x):
    return x @ self.output_proj.weight


def _fused_transposed(self, x_q, x_k, x_v):
    return tuple(x_q @ part for part in self.proj.weight.chunk(3))


mistake("weight-transposed", FUSED)(type("FusedTransposed", (), {"project": _fused_transposed}))


@mistake("weight-transposed", ("SelfAttentionV3",))
class AllFusedWeightsTransposed:
    def project(self, x_q, x_k, x_v):
        return _fused_transposed(self, x_q, x_k, x_v)

    def output(self, x):
        return x @ self.output_proj.weight


# ------------------------------------------------------------------------------------- one fused projection


def _fused_in_order(order):
    def project(self, x_q, x_k, x_v):
        parts = self.proj(x_q).chunk(3, dim=-1)
        return tuple(parts[i] for i in order)

    return project


for _order in ((1, 0, 2), (0, 2, 1), (2, 1, 0), (1, 2, 0), (2, 0, 1)):
    mistake("fused-order", FUSED)(_fused_in_order(_order))


@mistake("fused-order", FUSED)
def project(self, x_q, x_k, x_v):
    return self.proj(x_q).unflatten(-1, (-1, 3)).unbind(-1)


@mistake("k-uses-wq", FUSED)
def project(self, x_q, x_k, x_v):
    q, _, v = self.proj(x_q).chunk(3, dim=-1)
    return q, q, v


@mistake("v-uses-wk", FUSED)
def project(self, x_q, x_k, x_v):
    q, k, _ = self.proj(x_q).chunk(3, dim=-1)
    return q, k, k


@mistake("q-uses-wk", FUSED)
def project(self, x_q, x_k, x_v):
    _, k, v = self.proj(x_q).chunk(3, dim=-1)
    return k, k, v


@mistake("v-uses-wq", FUSED)
def project(self, x_q, x_k, x_v):
    q, k, _ = self.proj(x_q).chunk(3, dim=-1)
    return q, k, q


for _name, _order in (("q-uses-wv", (2, 1, 2)), ("k-uses-wv", (0, 2, 2)), ("one-projection-for-all", (0, 0, 0))):
    mistake(_name, FUSED)(_fused_in_order(_order))


@mistake("split-wrong-axis", FUSED)
def project(self, x_q, x_k, x_v):
    q, k, v = self.proj(x_q).chunk(3)
    return q, k, v


@mistake("split-wrong-axis", FUSED)
def project(self, x_q, x_k, x_v):
    q, k, v = self.proj(x_q).chunk(3, dim=1)
    return q, k, v


@mistake("split-wrong-axis", FUSED)
def project(self, x_q, x_k, x_v):
    q, k, v = self.proj(x_q).reshape(3, *x_q.shape)
    return q, k, v


@mistake("split-by-count", FUSED)
def project(self, x_q, x_k, x_v):
    q, k, v = self.proj(x_q).split(3, dim=-1)
    return q, k, v


@mistake("split-by-count", FUSED)
def project(self, x_q, x_k, x_v):
    q, k, v = self.proj(x_q).chunk(self.d, dim=-1)
    return q, k, v


@mistake("inplace-on-chunk", FUSED)
def project(self, x_q, x_k, x_v):
    q, k, v = self.proj(x_q).chunk(3, dim=-1)
    q /= 1.0
    return q, k, v


@mistake("split-before-projection", HEADS)
class SplitBeforeProjection:
    """Every head sees its own slice of the input, through one small matrix shared by all heads."""

    def project(self, x_q, x_k, x_v):
        n = self.d_k
        return tuple(
            torch.cat([F.linear(part, layer.weight[:n, :n]) for part in x.split(n, dim=-1)], dim=-1)
            for x, layer in zip((x_q, x_k, x_v), self.layers(), strict=True)
        )
