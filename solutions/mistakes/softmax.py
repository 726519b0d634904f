"""Mistakes in the softmax."""

import torch

from solutions.mistakes import ALL, HEADS, mistake


@mistake("softmax-over-queries")
def normalise(self, scores):
    return scores.softmax(dim=-2)


@mistake("softmax-over-batch")
def normalise(self, scores):
    return scores.softmax(dim=0)


@mistake("softmax-implicit-axis", HEADS)
def normalise(self, scores):
    return scores.softmax(dim=1)


@mistake("softmax-over-everything")
def normalise(self, scores):
    return scores.flatten(-2).softmax(dim=-1).reshape(scores.shape)


@mistake("softmax-missing")
def normalise(self, scores):
    return scores


@mistake("softmax-twice")
def normalise(self, scores):
    return scores.softmax(dim=-1).softmax(dim=-1)


@mistake("softmax-log")
def normalise(self, scores):
    return scores.log_softmax(dim=-1)


@mistake("softmax-negated")
def normalise(self, scores):
    return (-scores).softmax(dim=-1)


@mistake("sigmoid-for-softmax")
def normalise(self, scores):
    return scores.sigmoid()


@mistake("naive-exp")
def normalise(self, scores):
    exponentials = scores.exp()
    return exponentials / exponentials.sum(dim=-1, keepdim=True)


@mistake("exp-not-normalised")
def normalise(self, scores):
    return (scores - scores.max(dim=-1, keepdim=True).values).exp()


@mistake("exp-not-normalised")
def normalise(self, scores):
    return scores.exp()


@mistake("exp-missing")
def normalise(self, scores):
    return scores / scores.sum(dim=-1, keepdim=True)


@mistake("softmax-sum-over-queries")
def normalise(self, scores):
    exponentials = (scores - scores.max(dim=-1, keepdim=True).values).exp()
    return exponentials / exponentials.sum(dim=-2, keepdim=True)


@mistake("one-hot-for-softmax", ALL)
def normalise(self, scores):
    return torch.zeros_like(scores).scatter(-1, scores.argmax(dim=-1, keepdim=True), 1.0)


@mistake("graph-cut")
def normalise(self, scores):
    return scores.softmax(dim=-1).detach()


@mistake("inplace-after-softmax")
def normalise(self, scores):
    weights = scores.softmax(dim=-1)
    weights += 0.0
    return weights * 1.0
