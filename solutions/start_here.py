"""The answer to the warm-up in `00_start_here.ipynb`."""

import torch


def weighted_average(weights: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Average the rows of `values`, once for each row of `weights`.

    weights: (L_q, L_k), every row sums to 1
    values:  (L_k, d)
    returns: (L_q, d)
    """
    return weights @ values  # (L_q, L_k) @ (L_k, d) → (L_q, d)
