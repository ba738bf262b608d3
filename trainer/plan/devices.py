"""Accelerators a plan can be made for: peak dense bf16 rate, memory and memory bandwidth, each with its source."""

import msgspec


class Device(msgspec.Struct, frozen=True, kw_only=True):
    """One accelerator as its vendor rates it; a kernel reaches less, which a plan's efficiencies say."""

    name: str
    """What `--device` takes."""
    title: str
    """Vendor, model and form factor."""
    peak_flops_per_s: float
    """Dense bf16 operations per second; a rate given with 2:4 sparsity is halved."""
    memory_bytes: float
    """Device memory, decimal gigabytes as the vendor counts them."""
    bandwidth_bytes_per_s: float
    """Peak bandwidth of device memory."""
    source: str
    """Document the three figures are from."""
    as_of: str
    """Month of the document, or of the launch it accompanied."""


CHECKED = "2026-11-29"
"""When the table was last compared with its sources."""

DEVICES: dict[str, Device] = {
    device.name: device
    for device in (
        Device(
            name="a100",
            title="NVIDIA A100 SXM 80 GB",
            peak_flops_per_s=312e12,
            memory_bytes=80e9,
            bandwidth_bytes_per_s=2.039e12,
            source="NVIDIA A100 data sheet (1758950 r4): 312 dense bf16 TFLOPS, 2,039 GB/s",
            as_of="2021-06",
        ),
        Device(
            name="l40s",
            title="NVIDIA L40S 48 GB",
            peak_flops_per_s=362.05e12,
            memory_bytes=48e9,
            bandwidth_bytes_per_s=864e9,
            source="NVIDIA L40S data sheet: 362.05 bf16 TFLOPS (733 with sparsity), 864 GB/s",
            as_of="2023-08",
        ),
        Device(
            name="h100",
            title="NVIDIA H100 SXM 80 GB",
            peak_flops_per_s=989e12,
            memory_bytes=80e9,
            bandwidth_bytes_per_s=3.35e12,
            source="NVIDIA H100 data sheet: 1,979 bf16 TFLOPS with sparsity (989 dense), 3.35 TB/s",
            as_of="2022-09",
        ),
        Device(
            name="h200",
            title="NVIDIA H200 SXM 141 GB",
            peak_flops_per_s=989e12,
            memory_bytes=141e9,
            bandwidth_bytes_per_s=4.8e12,
            source="NVIDIA H200 data sheet: bf16 rate of the H100 (1,979 with sparsity), 141 GB, 4.8 TB/s",
            as_of="2023-11",
        ),
        Device(
            name="b200",
            title="NVIDIA B200 SXM 180 GB",
            peak_flops_per_s=2250e12,
            memory_bytes=180e9,
            bandwidth_bytes_per_s=8e12,
            source="NVIDIA Blackwell brief (HGX B200: 4.5 bf16 PFLOPS with sparsity); DGX B200 data sheet (8 x 180 GB)",
            as_of="2024-03",
        ),
        Device(
            name="mi300x",
            title="AMD Instinct MI300X 192 GB",
            peak_flops_per_s=1307.4e12,
            memory_bytes=192e9,
            bandwidth_bytes_per_s=5.3e12,
            source="AMD Instinct MI300X data sheet: 1,307.4 dense bf16 TFLOPS, 192 GB, 5.3 TB/s",
            as_of="2023-12",
        ),
        Device(
            name="mi325x",
            title="AMD Instinct MI325X 256 GB",
            peak_flops_per_s=1307.4e12,
            memory_bytes=256e9,
            bandwidth_bytes_per_s=6e12,
            source="AMD Instinct MI325X data sheet: 1,307.4 dense bf16 TFLOPS, 256 GB, 6 TB/s",
            as_of="2024-10",
        ),
        Device(
            name="mi355x",
            title="AMD Instinct MI355X 288 GB",
            peak_flops_per_s=2.5e15,
            memory_bytes=288e9,
            bandwidth_bytes_per_s=8e12,
            source="AMD CDNA 4: 5 dense fp8 PFLOPS (ISSCC 2026), bf16 at half that rate; 288 GB, 8 TB/s",
            as_of="2026-02",
        ),
    )
}
"""Device by name."""
