"""The best rate at which a device multiplies matrices: the peak that MFU is measured against where none is given."""

import time

import torch

ROUNDS = 5
"""The best of so many counts: what else runs on a machine only ever slows a round."""
_SIZES = {"cuda": 8192, "mps": 2048, "cpu": 1024}
_PRODUCTS = 4


def peak_rate(device: torch.device, dtype: torch.dtype) -> float:
    """FLOP/s of square matrix products: 2 n³ of each."""
    size = _SIZES.get(device.type, 1024)
    left, right = (torch.randn(size, size).to(device, dtype) for _ in range(2))
    best = float("inf")
    torch.mm(left, right)
    for _ in range(ROUNDS):
        _wait(device)
        begun = time.perf_counter()
        for _ in range(_PRODUCTS):
            torch.mm(left, right)
        _wait(device)
        best = min(best, time.perf_counter() - begun)
    return _PRODUCTS * 2.0 * size**3 / best


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()
