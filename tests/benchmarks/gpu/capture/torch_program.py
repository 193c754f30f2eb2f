"""A PyTorch program: prints what it computed; with ``--profile`` instead the kernels that ran."""

import sys

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile


def work() -> float:
    """A few kernels of different libraries."""
    torch.manual_seed(0)
    left = torch.randn(256, 512, device="cuda", dtype=torch.bfloat16)
    right = torch.randn(512, 128, device="cuda", dtype=torch.bfloat16)
    weights = torch.softmax((left @ right).float(), dim=1)
    ordered, _ = torch.sort(weights, dim=1)
    return float(torch.nn.functional.layer_norm(ordered, (128,)).cumsum(0).double().sum())


if "--profile" in sys.argv:
    with profile(activities=[ProfilerActivity.CUDA]) as profiled:
        work()
        torch.cuda.synchronize()
    for event in profiled.events():
        moves = event.name.startswith(("Memcpy", "Memset"))
        if event.device_type == DeviceType.CUDA and not moves:
            print(event.name)
else:
    print("sum", work())
