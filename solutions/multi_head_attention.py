"""Multi-head attention with four linears: heads without a loop."""

import math

import torch
from torch import nn


def split_heads(x: torch.Tensor, h: int) -> torch.Tensor:
    """Give every head its own slice of the features: head i takes features i * d_k up to (i + 1) * d_k.

    x: (B, L, d_model)
    returns: (B, h, L, d_k) with d_k = d_model // h
    """
    B, L, d_model = x.shape
    return x.view(B, L, h, d_model // h).transpose(1, 2)  # (B, L, h, d_k) → (B, h, L, d_k)


def merge_heads(x: torch.Tensor) -> torch.Tensor:
    """Put the heads side by side again: the inverse of `split_heads`.

    x: (B, h, L, d_k)
    returns: (B, L, d_model) with d_model = h * d_k
    """
    B, h, L, d_k = x.shape
    return x.transpose(1, 2).reshape(B, L, h * d_k)  # (B, L, h, d_k) → (B, L, d_model)


class MultiHeadAttention(nn.Module):
    """Multi-head attention: three linears project, a fourth joins the heads.

    forward(q, k, v, mask=None): (B, L_q, d_model), 2 × (B, L_k, d_model) → (B, L_q, d_model)
    mask: broadcasts to (B, h, L_q, L_k); bool, 0/1 integers or 0/1 floats; True or non-zero = may look
    raises: ValueError when h does not divide d_model
    """

    def __init__(self, d_model: int, h: int):
        super().__init__()
        if d_model % h != 0:
            raise ValueError(f"d_model ({d_model}) must be divisible by h ({h})")
        self.h = h
        self.d_k = d_model // h
        self.wq = nn.Linear(d_model, d_model)
        self.wk = nn.Linear(d_model, d_model)
        self.wv = nn.Linear(d_model, d_model)
        self.wo = nn.Linear(d_model, d_model)

    def forward(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None = None
    ) -> torch.Tensor:
        B, L_q, d_model = q.shape
        L_k = k.shape[1]
        q = self.wq(q).view(B, L_q, self.h, self.d_k).transpose(1, 2)  # (B, h, L_q, d_k)
        k = self.wk(k).view(B, L_k, self.h, self.d_k).transpose(1, 2)  # (B, h, L_k, d_k)
        v = self.wv(v).view(B, L_k, self.h, self.d_k).transpose(1, 2)  # (B, h, L_k, d_k)
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.d_k)  # (B, h, L_q, L_k)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))  # (B, h, L_q, L_k)
        weights = scores.softmax(dim=-1)  # (B, h, L_q, L_k)
        context = weights @ v  # (B, h, L_q, d_k)
        context = context.transpose(1, 2).reshape(B, L_q, d_model)  # (B, L_q, d_model)
        return self.wo(context)  # (B, L_q, d_model)


def init_attention_weights(mha: nn.Module) -> None:
    """Give wq, wk, wv and wo Xavier-uniform weights and zero biases, in place.

    mha: a module with the nn.Linear layers wq, wk, wv and wo, with or without biases
    """
    for layer in (mha.wq, mha.wk, mha.wv, mha.wo):
        nn.init.xavier_uniform_(layer.weight)
        if layer.bias is not None:
            nn.init.zeros_(layer.bias)


def stack_heads(
    heads: list[tuple[nn.Linear, nn.Linear, nn.Linear]],
) -> tuple[nn.Linear, nn.Linear, nn.Linear]:
    """Turn one small (wq, wk, wv) per head into the three wide layers that do all heads at once.

    heads: h triples of nn.Linear, each (..., d_model) → (..., d_k)
    returns: wide wq, wk, wv, each (..., d_model) → (..., h * d_k), with their own copy of the weights
    """
    wide_layers = []
    for small_layers in zip(*heads, strict=True):  # all wq, then all wk, then all wv
        weight = torch.cat([layer.weight for layer in small_layers])  # h × (d_k, d_model) → (h * d_k, d_model)
        wide = nn.Linear(weight.shape[1], weight.shape[0], bias=small_layers[0].bias is not None)
        with torch.no_grad():
            wide.weight.copy_(weight)
            if wide.bias is not None:
                wide.bias.copy_(torch.cat([layer.bias for layer in small_layers]))  # h × (d_k,) → (h * d_k,)
        wide_layers.append(wide)
    return tuple(wide_layers)


def torch_attention(
    mha: nn.Module, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None = None
) -> torch.Tensor:
    """Run PyTorch's own nn.MultiheadAttention with the weights of `mha`.

    mha: a module with h and the nn.Linear layers wq, wk, wv and wo, all with biases
    q: (B, L_q, d_model); k, v: (B, L_k, d_model)
    mask: (L_q, L_k), bool, True = may look; nn.MultiheadAttention wants the opposite
    returns: (B, L_q, d_model)
    """
    d_model = mha.wq.in_features
    twin = nn.MultiheadAttention(d_model, mha.h, batch_first=True)
    with torch.no_grad():
        twin.in_proj_weight.copy_(torch.cat([mha.wq.weight, mha.wk.weight, mha.wv.weight]))  # (3 * d_model, d_model)
        twin.in_proj_bias.copy_(torch.cat([mha.wq.bias, mha.wk.bias, mha.wv.bias]))  # (3 * d_model,)
        twin.out_proj.weight.copy_(mha.wo.weight)  # (d_model, d_model)
        twin.out_proj.bias.copy_(mha.wo.bias)  # (d_model,)
    blocked = None if mask is None else ~mask  # True = blocked
    output, _ = twin(q, k, v, attn_mask=blocked)  # (B, L_q, d_model)
    return output
