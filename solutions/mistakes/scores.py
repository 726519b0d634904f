"""Mistakes in the scores and their scale."""

import math

import torch

from solutions.mistakes import ALL, HEADS, mistake


@mistake("scale-missing")
def scale(self, scores):
    return scores


@mistake("scale-d-model", HEADS)
def scale(self, scores):
    return scores / math.sqrt(self.d)


@mistake("scale-by-heads", HEADS)
def scale(self, scores):
    return scores / math.sqrt(self.h)


@mistake("scale-inverted")
def scale(self, scores):
    return scores * math.sqrt(self.d_k)


@mistake("scale-no-sqrt")
def scale(self, scores):
    return scores / self.d_k


@mistake("scale-no-sqrt", HEADS)
def scale(self, scores):
    return scores / self.d


@mistake("scale-seq-len")
def scale(self, scores):
    return scores / math.sqrt(scores.shape[-1])


@mistake("scale-seq-len", HEADS)
def scale(self, scores):
    return scores / math.sqrt(scores.shape[-2])


@mistake("scale-wrong-power")
def scale(self, scores):
    return scores / self.d_k**0.25


def _divided_by(number):
    def scale(self, scores):
        return scores / number

    return scale


for _width in (512, 768, 64, 8, 128, 1024):
    mistake("fixed-head-size")(_divided_by(_width**0.5))


@mistake("scale-after-softmax")
class ScaleAfterSoftmax:
    def scale(self, scores):
        return scores

    def gather(self, weights, v):
        return (weights / math.sqrt(self.d_k)) @ v


@mistake("scale-twice")
class ScaleTwice:
    """Scaled before the softmax, and the weights again after it."""

    def gather(self, weights, v):
        return (weights / math.sqrt(self.d_k)) @ v


@mistake("sqrt-of-int")
def scale(self, scores):
    return scores / torch.sqrt(self.d_k)


@mistake("k-not-transposed")
def scores(self, q, k):
    return q @ k


@mistake("k-wrong-transpose")
def scores(self, q, k):
    return q @ k.permute(*reversed(range(k.dim())))


@mistake("k-wrong-transpose")
def scores(self, q, k):
    return q @ k.transpose(0, 1) if k.dim() == 3 else q @ k.transpose(1, 2)


@mistake("k-wrong-transpose")
def scores(self, q, k):
    return q @ k.reshape(*k.shape[:-2], k.shape[-1], k.shape[-2])


@mistake("scores-transposed")
def scores(self, q, k):
    return k @ q.transpose(-2, -1)


@mistake("features-not-tokens")
class FeaturesNotTokens:
    """Compares features with each other, QᵀK, instead of tokens."""

    def scores(self, q, k):
        return q.transpose(-2, -1) @ k

    def gather(self, weights, v):
        return v @ weights


@mistake("scores-elementwise", ALL)
class ElementWise:
    def scores(self, q, k):
        return q * k

    def gather(self, weights, v):
        return weights * v


@mistake("graph-cut")
def scores(self, q, k):
    return q.detach() @ k.detach().transpose(-2, -1)


@mistake("graph-cut")
def scores(self, q, k):
    return q.detach() @ k.transpose(-2, -1)


@mistake("weights-times-keys")
class WeightsTimesKeys:
    def scores(self, q, k):
        self.kept = k
        return q @ k.transpose(-2, -1)

    def gather(self, weights, v):
        return weights @ self.kept


@mistake("weights-times-queries")
class WeightsTimesQueries:
    def scores(self, q, k):
        self.kept = q
        return q @ k.transpose(-2, -1)

    def gather(self, weights, v):
        return weights @ self.kept


@mistake("weights-transposed")
def gather(self, weights, v):
    return weights.transpose(-2, -1) @ v
