"""A quantity by step as curves for the plots, one for each adapter."""

import polars as pl

from checks.finding import Series


def step_curves(points: pl.DataFrame, name: str, y_label: str) -> tuple[Series, ...]:
    """Curves of a frame `adapter, step, value`, whose name says the adapter where there is one; one point is none."""
    curves = points.sort("adapter", "step", maintain_order=True).partition_by(
        "adapter", as_dict=True, maintain_order=True
    )
    return tuple(
        Series(
            name=name if key[0] is None else f"{name} of {key[0]}",
            x_label="step",
            y_label=y_label,
            x=tuple(map(float, curve["step"])),
            y=tuple(curve["value"].cast(pl.Float64)),
        )
        for key, curve in curves.items()
        if curve.height > 1
    )
