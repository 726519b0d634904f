"""Mistakes with dropout."""

import torch
from torch import nn
from torch.nn import functional as F

from solutions.mistakes import mistake

V3 = ("SelfAttentionV3",)


@mistake("dropout-always-on", V3)
def drop(self, weights):
    return F.dropout(weights, self.rate)


@mistake("dropout-built-in-forward", V3)
def drop(self, weights):
    return nn.Dropout(self.rate)(weights)


@mistake("dropout-on-context", V3)
class DropoutOnContext:
    def drop(self, weights):
        return weights

    def gather(self, weights, v):
        return self.attention_dropout(weights @ v)


@mistake("dropout-on-context", V3)
class DropoutAfterProjection:
    def drop(self, weights):
        return weights

    def output(self, x):
        return self.attention_dropout(self.output_proj(x))


@mistake("dropout-on-context", V3)
class DropoutOnValues:
    def drop(self, weights):
        return weights

    def gather(self, weights, v):
        return weights @ self.attention_dropout(v)


@mistake("dropout-before-softmax", V3)
class DropoutBeforeSoftmax:
    def drop(self, weights):
        return weights

    def normalise(self, scores):
        return self.attention_dropout(scores).softmax(dim=-1)


@mistake("dropout-renormalised", V3)
def drop(self, weights):
    dropped = self.attention_dropout(weights)
    return dropped / dropped.sum(dim=-1, keepdim=True).clamp_min(1e-9)


@mistake("dropout-no-rescale", V3)
def drop(self, weights):
    return weights * (torch.rand_like(weights) >= self.rate) if self.training else weights


@mistake("dropout-unused", V3)
def drop(self, weights):
    return weights


@mistake("dropout-rate-ignored", V3)
def drop(self, weights):
    return F.dropout(weights, 0.1, self.training)


@mistake("dropout-keeps-rate", V3)
def drop(self, weights):
    return F.dropout(weights, 1 - self.rate, self.training)


@mistake("dropout-whole-rows", V3)
def drop(self, weights):
    return weights * self.attention_dropout(torch.ones(weights.shape[0], weights.shape[1], 1))


@mistake("dropout-shared-by-batch", V3)
def drop(self, weights):
    return weights * self.attention_dropout(torch.ones(1, *weights.shape[1:]))


@mistake("dropout-shared-by-queries", V3)
def drop(self, weights):
    return weights * self.attention_dropout(torch.ones(weights.shape[0], 1, weights.shape[2]))


@mistake("dropout-mode-inverted", V3)
def drop(self, weights):
    return F.dropout(weights, self.rate, not self.training)


@mistake("dropout-lost-after-eval", V3)
class LostAfterEval:
    def eval(self):
        self.attention_dropout.p = 0.0
        return nn.Module.train(self, False)


@mistake("dropout-lost-after-eval", V3)
class StaysInEval:
    def train(self, mode=True):
        if not mode:
            self.attention_dropout.p = 0.0
        return nn.Module.train(self, mode)
