"""Mistakes in reading a mask, in what is written into hidden positions, and in when it is written."""

import torch

from solutions.mistakes import MASKED, mistake


def _fill(value):
    def hide(self, scores, keep):
        return scores.masked_fill(~keep, value)

    return hide


@mistake("additive-read-as-binary", MASKED)
def hide(self, scores, keep):
    return scores + keep.to(scores.dtype)


mistake("fill-tiny-positive", MASKED)(_fill(1e-20))
mistake("fill-tiny-negative", MASKED)(_fill(-1e-9))
mistake("fill-not-low-enough", MASKED)(_fill(-1.0))
mistake("fill-not-low-enough", MASKED)(_fill(-10.0))
mistake("fill-not-low-enough", MASKED)(_fill(-100.0))
mistake("fill-not-low-enough", MASKED)(_fill(-5.0))
mistake("fill-large-positive", MASKED)(_fill(1e9))


def _penalty(value):
    def hide(self, scores, keep):
        return scores - value * (~keep).to(scores.dtype)

    return hide


for _value in (1.0, 5.0, 10.0, 100.0):
    mistake("fill-not-low-enough", MASKED)(_penalty(_value))


@mistake("mask-multiplied", MASKED)
def hide(self, scores, keep):
    return scores * keep


@mistake("masked-fill-discarded", MASKED)
def hide(self, scores, keep):
    scores.masked_fill(~keep, float("-inf"))
    return scores


@mistake("zero-times-inf", MASKED)
def hide(self, scores, keep):
    return scores + (1 - keep.to(scores.dtype)) * float("-inf")


@mistake("zero-times-inf", MASKED)
def hide(self, scores, keep):
    return scores * keep + (~keep) * float("-inf")


@mistake("minus-inf-after-softmax", MASKED)
class MinusInfinityAfterSoftmax:
    def hide(self, scores, keep):
        return scores

    def after_softmax(self, weights, keep):
        return weights.masked_fill(~keep, float("-inf"))


@mistake("minus-inf-after-softmax", MASKED)
class LargeNegativeAfterSoftmax:
    def hide(self, scores, keep):
        return scores

    def after_softmax(self, weights, keep):
        return weights.masked_fill(~keep, -1e9)


@mistake("mask-after-softmax", MASKED)
class MaskAfterSoftmax:
    def hide(self, scores, keep):
        return scores

    def after_softmax(self, weights, keep):
        return weights * keep


@mistake("softmax-after-mask-again", MASKED)
class SoftmaxAfterMaskAgain:
    """The weights are masked to 0 and sent through a second softmax."""

    def hide(self, scores, keep):
        return scores

    def after_softmax(self, weights, keep):
        return weights.masked_fill(~keep, 0.0).softmax(dim=-1)


@mistake("mask-on-values", MASKED)
class MaskOnOutput:
    """Hides the query's result instead of the keys."""

    def hide(self, scores, keep):
        self.alive = keep.any(dim=-1, keepdim=True)
        return scores

    def gather(self, weights, v):
        context = weights @ v
        return context * self.alive if hasattr(self, "alive") else context


@mistake("mask-inverted", MASKED)
def read_mask(self, mask, scores):
    return mask == 0


@mistake("causal-transposed", MASKED)
def read_mask(self, mask, scores):
    return (mask != 0).expand(scores.shape).transpose(-2, -1)


@mistake("causal-transposed", MASKED)
def read_mask(self, mask, scores):
    return (mask != 0).transpose(-2, -1)


@mistake("mask-on-query-axis", MASKED)
def read_mask(self, mask, scores):
    keep = (mask != 0).expand(scores.shape)
    return keep[..., :1, :].transpose(-2, -1) if keep.shape[-2] == keep.shape[-1] else keep


@mistake("mask-on-both-axes", MASKED)
def read_mask(self, mask, scores):
    keep = (mask != 0).expand(scores.shape)
    return keep & keep.transpose(-2, -1) if keep.shape[-2] == keep.shape[-1] else keep


@mistake("mask-ignored", MASKED)
def read_mask(self, mask, scores):
    return None


@mistake("mask-replaced-by-causal", MASKED)
def read_mask(self, mask, scores):
    return torch.ones(scores.shape[-2:], dtype=torch.bool).tril()


@mistake("causal-always", MASKED)
class CausalAlways:
    """A causal mask is built inside, whether it was asked for or not."""

    def scale(self, scores):
        scores = scores / self.d_k**0.5
        return scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), float("-inf"))


@mistake("mask-first-sample-only", MASKED)
def read_mask(self, mask, scores):
    return (mask != 0).expand(scores.shape)[:1]


@mistake("mask-first-head-only", ("MultiHeadAttention",))
def read_mask(self, mask, scores):
    return (mask != 0).expand(scores.shape)[:, :1]


@mistake("mask-last-row-only", MASKED)
def read_mask(self, mask, scores):
    return (mask != 0).expand(scores.shape)[..., -1:, :]


@mistake("causal-strict", MASKED)
def read_mask(self, mask, scores):
    keep = (mask != 0).expand(scores.shape)
    return keep & ~torch.eye(*keep.shape[-2:], dtype=torch.bool)


@mistake("diagonal-always-visible", MASKED)
def read_mask(self, mask, scores):
    keep = (mask != 0).expand(scores.shape)
    return keep | torch.eye(*keep.shape[-2:], dtype=torch.bool)


@mistake("causal-peeks-one", MASKED)
def read_mask(self, mask, scores):
    keep = (mask != 0).expand(scores.shape)
    return keep | keep.roll(1, dims=-1)


@mistake("tilde-on-int", MASKED)
def read_mask(self, mask, scores):
    return ~((~mask).bool())


@mistake("tilde-on-int", MASKED)
class TildeInMaskedFill:
    def read_mask(self, mask, scores):
        return mask

    def hide(self, scores, keep):
        return scores.masked_fill(~keep, float("-inf"))


@mistake("one-minus-bool", MASKED)
class OneMinusBool:
    def read_mask(self, mask, scores):
        return mask

    def hide(self, scores, keep):
        return scores + (1 - keep) * -1e9


@mistake("if-mask", MASKED)
def read_mask(self, mask, scores):
    return (mask != 0) if mask else None


@mistake("additive-read-as-binary", MASKED)
class AddsTheMask:
    """Code for a mask of 0 and -inf, given one of 0 and 1."""

    def read_mask(self, mask, scores):
        return mask

    def hide(self, scores, keep):
        return scores + keep


@mistake("integer-mask-ignored", MASKED)
def read_mask(self, mask, scores):
    return mask if mask.dtype == torch.bool else None


@mistake("mask-not-unsqueezed", ("MultiHeadAttention",))
def read_mask(self, mask, scores):
    return (mask != 0).squeeze(1) if mask.dim() == 4 else mask != 0


@mistake("mask-not-unsqueezed", ("MultiHeadAttention",))
def read_mask(self, mask, scores):
    return (mask != 0).unsqueeze(1)


@mistake("mask-not-unsqueezed", ("SelfAttentionV3",))
def read_mask(self, mask, scores):
    return (mask != 0).unsqueeze(1)


@mistake("square-mask-assumed", ("MultiHeadAttention",))
def read_mask(self, mask, scores):
    return (mask != 0).expand(*scores.shape[:2], scores.shape[-2], scores.shape[-2])


@mistake("nan-fixed-too-late", MASKED)
class NanHidden:
    """Hidden rows come out as NaN and are cleaned after the product: wrong only where NaN reached a real row."""

    def hide(self, scores, keep):
        return scores + (1 - keep.to(scores.dtype)) * float("-inf")

    def gather(self, weights, v):
        return (weights @ v).nan_to_num()


@mistake("naive-exp", MASKED)
class NaiveExponentialsTimesMask:
    def hide(self, scores, keep):
        self.keep = keep
        return scores

    def normalise(self, scores):
        exponentials = scores.exp()
        if hasattr(self, "keep"):
            exponentials = exponentials * self.keep
            del self.keep
        return exponentials / exponentials.sum(dim=-1, keepdim=True)


@mistake("additive-read-as-binary", MASKED)
class AddsFloatMasks:
    """Bool and integer masks are read well; a float mask is added."""

    def read_mask(self, mask, scores):
        return mask

    def hide(self, scores, keep):
        return scores + keep if keep.is_floating_point() else scores.masked_fill(keep == 0, float("-inf"))


@mistake("mask-inverted", MASKED)
def read_mask(self, mask, scores):
    return ~mask if mask.dtype == torch.bool else mask != 0


@mistake("mask-inverted", MASKED)
def read_mask(self, mask, scores):
    return mask if mask.dtype == torch.bool else mask == 0
