"""The onset of a rise that is known to be there: the likeliest start of a jump or ramp in autocorrelated noise."""

from typing import Any, NamedTuple

import numpy as np

# Any: NumPy's own generic parameter for an element type.
Array = np.ndarray[Any, np.dtype[Any]]

RISES = (1, 2, 4, 8, 16, 32)
"""Samples that a ramp may take to its full height; 1 is a jump."""
BEFORE = 80
"""Samples before the alarm that the fit sees."""
NEARLY = 6.0
"""Twice the log-likelihood that another onset may lose and still be possible; 98.6 % of a chi-squared of 1."""


class RiseFit(NamedTuple):
    """Where a rise began."""

    first: int
    """Earliest possible index; the best one where sampling is dense."""
    last: int
    """Latest possible index; the best one where sampling is dense."""
    best: int
    """The best fit's first index that is not healthy."""


def fit_rise(values: Array, smooth: Array, alarm: int, samples: int, slope: float, *, sparse: bool) -> RiseFit:
    """Generalised least squares over onset and length of the ramp, with AR(1) noise estimated before the alarm."""
    start = max(0, alarm - BEFORE)
    end = min(len(values), alarm + samples + max(6, samples // 2))
    at = np.arange(end - start)
    healthy = max(alarm - samples - start, min(4, len(at)))
    rest = smooth[start : start + healthy] - slope * at[:healthy]
    spread = 1.4826 * float(np.median(np.abs(rest - np.median(rest))))
    reach = np.inf if sparse else max(2 * spread, 1e-12)
    level = smooth[start:end] + np.clip(values[start:end] - smooth[start:end], -reach, reach) - slope * at
    noise = level[:healthy] - np.median(level[:healthy])
    phi = 0.0 if sparse else _autocorrelation(noise)
    onsets = np.arange(max(start + 2, alarm - 2 * samples - 12), min(end - 1, alarm + samples + 1))
    ramps = np.clip((at + start - onsets[:, None, None] + 1) / np.array(RISES)[:, None], 0, 1)
    constant = _whitened(np.ones(len(at)), phi)
    constant = constant / np.linalg.norm(constant)
    shapes = _whitened(ramps, phi)
    shapes = shapes - (shapes @ constant)[..., None] * constant
    data = _whitened(level, phi)
    data = data - (data @ constant) * constant
    fits = shapes @ data
    gains = np.where(fits > 0, fits**2 / np.maximum((shapes**2).sum(axis=-1), 1e-300), 0.0).max(axis=1)
    best = int(np.argmax(gains))
    index = int(onsets[best])
    if not sparse:
        return RiseFit(index, index, index)
    variance = max(float(np.median(noise**2)) * 1.4826**2, 1e-300)
    possible = onsets[gains >= gains[best] - NEARLY * variance]
    return RiseFit(int(possible[0]), int(possible[-1]), index)


def _autocorrelation(noise: Array) -> float:
    """Of neighbouring samples, held between 0 and 0.95."""
    power = float((noise[:-1] ** 2).sum())
    return 0.0 if power == 0 else float(np.clip((noise[1:] * noise[:-1]).sum() / power, 0.0, 0.95))


def _whitened(values: Array, phi: float) -> Array:
    """What AR(1) noise leaves unpredicted, along the last axis."""
    first = values[..., :1] * np.sqrt(1 - phi**2)
    return np.concatenate([first, values[..., 1:] - phi * values[..., :-1]], axis=-1)
