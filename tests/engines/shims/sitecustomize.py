"""Start-up shims that let SGLang 0.5.23 run where there is no accelerator. Python imports this module by its name.

torchvision's wheel carries CUDA operators that do not load here, and importing it fails unless `nms` and `qnms`
are declared. SGLang's LoRA code asks for pinned memory, which torch refuses without an accelerator.
"""

import functools

import torch

_OPERATOR = "{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
_FACTORIES = ["arange", "empty", "empty_like", "empty_strided", "full", "ones", "tensor", "zeros", "zeros_like"]
_kept = []  # torch drops a declaration with its Library object


def _declare_missing_operators():
    for name in ("nms", "qnms"):
        if not hasattr(torch.ops.torchvision, name):
            library = torch.library.Library("torchvision", "FRAGMENT")
            library.define(_OPERATOR.format(name=name))
            _kept.append(library)


def _unpinned(factory):
    @functools.wraps(factory)
    def call(*args, pin_memory=False, **kwargs):
        return factory(*args, **kwargs)

    return call


def _ignore_pinning():
    for name in _FACTORIES:
        setattr(torch, name, _unpinned(getattr(torch, name)))
    torch.Tensor.pin_memory = lambda tensor, *args, **kwargs: tensor


_declare_missing_operators()
if not torch.cuda.is_available():
    _ignore_pinning()
