"""Mistakes in splitting into heads, joining them again, and the output projection."""

import torch

from solutions.mistakes import HEADS, MASKED, mistake


@mistake("split-by-view", HEADS)
def split(self, x):
    return x.reshape(x.shape[0], self.h, x.shape[1], self.d_k)


@mistake("merge-without-transpose", HEADS)
def merge(self, x):
    return x.reshape(x.shape[0], x.shape[2], self.d)


@mistake("split-and-merge-by-view", HEADS)
class SplitAndMergeByView:
    def split(self, x):
        return x.reshape(x.shape[0], self.h, x.shape[1], self.d_k)

    def merge(self, x):
        return x.reshape(x.shape[0], x.shape[2], self.d)


@mistake("head-layout-mixed", HEADS)
def split(self, x):
    return x.unflatten(-1, (self.d_k, self.h)).permute(0, 3, 1, 2)


@mistake("head-layout-mixed", HEADS)
def merge(self, x):
    return x.permute(0, 2, 3, 1).flatten(-2)


@mistake("view-not-contiguous", HEADS)
def merge(self, x):
    return x.transpose(1, 2).view(x.shape[0], x.shape[2], self.d)


@mistake("heads-never-split", HEADS)
class OneBigHead:
    def split(self, x):
        return x.unsqueeze(1)

    def merge(self, x):
        return x.squeeze(1)


@mistake("heads-never-split", HEADS)
class OneBigHeadScaled:
    def split(self, x):
        return x.unsqueeze(1)

    def scale(self, scores):
        return scores / self.d**0.5

    def merge(self, x):
        return x.squeeze(1)


@mistake("attention-across-heads", HEADS)
class NoTranspose:
    """The head axis stays behind the tokens: heads attend to each other inside one token."""

    def split(self, x):
        return x.unflatten(-1, (self.h, self.d_k))

    def merge(self, x):
        return x.flatten(-2)


@mistake("heads-averaged", HEADS)
def merge(self, x):
    return x.mean(dim=1).repeat(1, 1, self.h)


@mistake("heads-summed", HEADS)
def merge(self, x):
    return x.sum(dim=1).repeat(1, 1, self.h)


@mistake("first-head-only", HEADS)
def merge(self, x):
    return x[:, :1].expand_as(x).transpose(1, 2).flatten(-2)


@mistake("heads-reversed", HEADS)
def merge(self, x):
    return x.flip(1).transpose(1, 2).flatten(-2)


@mistake("heads-share-weights", HEADS)
def normalise(self, scores):
    return scores.softmax(dim=-1).mean(dim=1, keepdim=True).expand_as(scores)


@mistake("out-proj-unused", MASKED)
def output(self, x):
    return x


@mistake("out-proj-twice", MASKED)
def output(self, x):
    layer = self.wo if hasattr(self, "wo") else self.output_proj
    return layer(layer(x))


@mistake("residual-added", MASKED)
class ResidualAdded:
    def forward_from(self, x_q, x_k, x_v, mask):
        right = type(self).__mro__[1]
        return x_q + right.forward_from(self, x_q, x_k, x_v, mask)


@mistake("residual-added", ("SelfAttentionV1", "SelfAttentionV2"))
class ResidualAddedEarly:
    def forward_from(self, x_q, x_k, x_v, mask):
        right = type(self).__mro__[1]
        return x_q + right.forward_from(self, x_q, x_k, x_v, mask)


@mistake("no-divisibility-check", HEADS)
def check_widths(self, d_model, h):
    return None


@mistake("float-head-dim", HEADS)
class FloatHeadDim:
    def split(self, x):
        return x.view(x.shape[0], x.shape[1], self.h, self.d / self.h).transpose(1, 2)


@mistake("q-length-for-kv", HEADS)
class QueryLengthForKeys:
    def project(self, x_q, x_k, x_v):
        self.length = x_q.shape[1]
        return self.wq(x_q), self.wk(x_k), self.wv(x_v)

    def split(self, x):
        return x.view(x.shape[0], self.length, self.h, self.d_k).transpose(1, 2)


@mistake("q-length-for-kv", HEADS)
class QueryLengthForKeysAnyBatch:
    def project(self, x_q, x_k, x_v):
        self.length = x_q.shape[1]
        return self.wq(x_q), self.wk(x_k), self.wv(x_v)

    def split(self, x):
        return x.reshape(-1, self.length, self.h, self.d_k).transpose(1, 2)


@mistake("batch-hard-coded", HEADS)
def split(self, x):
    return x.reshape(2, -1, self.h, self.d_k).transpose(1, 2)


@mistake("batch-hard-coded", HEADS)
def split(self, x):
    return x.reshape(1, -1, self.h, self.d_k).transpose(1, 2)


@mistake("fixed-head-size", HEADS)
class FixedNumberOfHeads:
    def split(self, x):
        return x.unflatten(-1, (8, x.shape[-1] // 8)).transpose(1, 2)


@mistake("seq-first-confusion", MASKED)
class SequenceFirst:
    """Tokens and samples change places before the attention and after it."""

    def forward_from(self, x_q, x_k, x_v, mask):
        right = type(self).__mro__[1]
        swapped = [x.transpose(0, 1) for x in (x_q, x_k, x_v)]
        return right.forward_from(self, *swapped, mask).transpose(0, 1)


@mistake("seq-first-confusion", ("SelfAttentionV1", "SelfAttentionV2"))
class SequenceFirstEarly:
    def forward_from(self, x_q, x_k, x_v, mask):
        right = type(self).__mro__[1]
        swapped = [x.transpose(0, 1) for x in (x_q, x_k, x_v)]
        return right.forward_from(self, *swapped, mask).transpose(0, 1)


@mistake("gqa-repeat-order", HEADS)
class TiledHeads:
    """Half of the key and value heads, tiled over all heads."""

    def gather(self, weights, v):
        return weights @ torch.cat([v[:, : self.h // 2]] * 2, dim=1) if self.h > 1 else weights @ v
