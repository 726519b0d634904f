"""Mistakes of the module around the formula: state, gradients, hidden inputs."""

import torch

from solutions.mistakes import ALL, mistake


@mistake("state-kept")
class StateKept:
    """Something of the last call is added to this one."""

    def gather(self, weights, v):
        context = weights @ v
        before = getattr(self, "last", None)
        self.last = context.detach()
        return context if before is None or before.shape != context.shape else (context + before) / 2


@mistake("input-edited")
class InputEdited:
    def forward_from(self, x_q, x_k, x_v, mask):
        right = type(self).__mro__[1]
        with torch.no_grad():
            x_q *= 1.5
        return right.forward_from(self, x_q, x_k, x_v, mask)


@mistake("graph-cut")
class GraphCutAtInput:
    def forward_from(self, x_q, x_k, x_v, mask):
        right = type(self).__mro__[1]
        with torch.no_grad():
            return right.forward_from(self, x_q, x_k, x_v, mask)


@mistake("graph-cut", ALL)
class GraphCutAtOutput:
    def gather(self, weights, v):
        return weights @ v.detach()
