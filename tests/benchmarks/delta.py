"""Speed and size of the bf16 delta codec on 100 million parameters, 1 % changed, beside zstd of the XOR. One JSON line.

Target: encode and decode at 1 GB/s of full tensor bytes each on one core; bytes within 5 % of the varint estimate.
"""

import argparse
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import zstandard

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from trainer.delta import decode, encode
from trainer.plan.weight_sync import delta_bytes, entropy_bound_bytes

ZSTD_LEVEL = 3


def main() -> None:
    """Prints the line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parameters", type=int, default=100_000_000)
    parser.add_argument("--changed-share", type=float, default=0.01)
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    base, target = make_pair(args.parameters, args.changed_share)
    message = encode(base, target)
    assert np.array_equal(decode(message, base), target)
    packer = zstandard.ZstdCompressor(level=ZSTD_LEVEL)
    packed = packer.compress((base ^ target).tobytes())
    unpacker = zstandard.ZstdDecompressor()

    def unpack() -> None:
        difference = np.frombuffer(unpacker.decompress(packed), np.uint16)
        assert (base ^ difference).size == base.size

    full = 2 * args.parameters
    estimate = delta_bytes(parameters=args.parameters, changed_share=args.changed_share)
    line = {
        "benchmark": "delta",
        "parameters": args.parameters,
        "changed_share": args.changed_share,
        "encode_gb_s": rate(full, args.repeats, lambda: encode(base, target)),
        "decode_gb_s": rate(full, args.repeats, lambda: decode(message, base)),
        "bytes": len(message),
        "bytes_full": full,
        "bytes_over_varint_estimate": len(message) / estimate,
        "bytes_over_entropy_bound": len(message)
        / entropy_bound_bytes(parameters=args.parameters, changed_share=args.changed_share),
        f"zstd{ZSTD_LEVEL}_xor_encode_gb_s": rate(
            full, args.repeats, lambda: packer.compress((base ^ target).tobytes())
        ),
        f"zstd{ZSTD_LEVEL}_xor_decode_gb_s": rate(full, args.repeats, unpack),
        f"zstd{ZSTD_LEVEL}_xor_bytes": len(packed),
        "cores": 1,
        "machine": platform.processor() or platform.machine(),
    }
    print(json.dumps(line))


def make_pair(parameters: int, changed_share: float) -> tuple[np.ndarray, np.ndarray]:
    """bf16 bits of normal weights, and the same with independently drawn ones moved to a neighbouring value."""
    draw = np.random.default_rng(0)
    base = (draw.standard_normal(parameters, np.float32) * np.float32(0.02)).view(np.uint32)
    bits = (base >> np.uint32(16)).astype(np.uint16)
    changed = np.flatnonzero(draw.random(parameters, np.float32) < changed_share)
    target = bits.copy()
    target[changed] += draw.choice(np.array([1, 2**16 - 1], np.uint16), changed.size)
    return bits, target


def rate(size_bytes: int, repeats: int, work: Callable[[], object]) -> dict[str, float]:
    """GB/s of full tensor bytes after one to warm up: of wall time, and of CPU time, which other work does not slow."""
    work()
    wall: list[float] = []
    cpu: list[float] = []
    for _ in range(repeats):
        started, used = time.perf_counter(), time.process_time()
        work()
        wall.append(size_bytes / 1e9 / (time.perf_counter() - started))
        cpu.append(size_bytes / 1e9 / (time.process_time() - used))
    return {
        "median": round(statistics.median(wall), 3),
        "best": round(max(wall), 3),
        "worst": round(min(wall), 3),
        "cpu_median": round(statistics.median(cpu), 3),
    }


if __name__ == "__main__":
    main()
