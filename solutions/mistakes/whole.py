"""Mistakes that no single step shows: where layers live, what is stored, what is borrowed from the notebook."""

import torch
from torch import nn

from solutions.mistakes import wrong
from solutions.mistakes.steps import StagesMultiHead, StagesV1, StagesV2, StagesV3

notebook_x = torch.zeros(2, 5, 12)  # stands for a variable that a notebook happens to have


@wrong("heads-in-python-list", "MultiHeadAttention")
@wrong("heads-in-python-list", "SelfAttentionV1")
class LayersInAList(StagesV1):
    def __init__(self, *sizes):
        nn.Module.__init__(self)
        self.d = self.d_k = sizes[0]
        self.kept = [nn.Linear(sizes[0], sizes[0]) for _ in range(3)]

    def layers(self):
        return tuple(self.kept)

    def project(self, x_q, x_k, x_v):
        return tuple(layer(x) for layer, x in zip(self.kept, (x_q, x_k, x_v), strict=True))

    def forward(self, q, k=None, v=None, mask=None):
        return self.forward_from(q, q if k is None else k, q if v is None else v, mask)


@wrong("layers-built-in-forward", "SelfAttentionV1")
class LayersBuiltInForward(StagesV1):
    def project(self, x_q, x_k, x_v):
        self.query_proj, self.key_proj, self.value_proj = (nn.Linear(self.d, self.d) for _ in range(3))
        return super().project(x_q, x_k, x_v)


@wrong("not-a-parameter", "SelfAttentionV1")
class PlainTensors(StagesV1):
    def __init__(self, hidden_dim=768):
        nn.Module.__init__(self)
        self.d = self.d_k = hidden_dim
        self.to_q, self.to_k, self.to_v = (torch.randn(hidden_dim, hidden_dim) / hidden_dim**0.5 for _ in range(3))

    def project(self, x_q, x_k, x_v):
        return x_q @ self.to_q, x_k @ self.to_k, x_v @ self.to_v


@wrong("not-fused", "SelfAttentionV2")
class StillThreeLayers(StagesV1):
    pass


@wrong("no-out-proj", "SelfAttentionV3")
class NoOutputLayer(StagesV3):
    def __init__(self, hidden_dim, dropout_rate=0.1):
        super().__init__(hidden_dim, dropout_rate)
        del self.output_proj

    def output(self, x):
        return x


@wrong("parameters-edited", "SelfAttentionV2")
class NormalisesItsWeights(StagesV2):
    def forward(self, x):
        output = super().forward(x)
        with torch.no_grad():
            self.proj.weight.mul_(0.99)
        return output


@wrong("notebook-global", "SelfAttentionV1")
class ReadsTheNotebook(StagesV1):
    def forward(self, x):
        return self.forward_from(notebook_x, notebook_x, notebook_x, None)


@wrong("softmax-in-half", "SelfAttentionV1")
class SoftmaxInHalf(StagesV1):
    def normalise(self, scores):
        return scores.bfloat16().softmax(dim=-1).to(scores.dtype)


@wrong("fixed-length-mask", "SelfAttentionV3")
class StoredMask(StagesV3):
    def forward(self, x, attention_mask=None):
        return super().forward(x, torch.ones(16, 16) if attention_mask is None else attention_mask)


@wrong("fixed-head-size", "MultiHeadAttention")
class HeadsOfSixtyFour(StagesMultiHead):
    def split(self, x):
        return x.view(x.shape[0], -1, self.h, 64).transpose(1, 2)
