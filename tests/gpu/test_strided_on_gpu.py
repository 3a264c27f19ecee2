"""On a GPU: kernels of convolutions of stride 2 agree with float64 to the tolerance of each precision."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from vaescope.nets import strided, strided_kernels

# The height of the small image, channels of the large and of the small one, and the kernel: layers of the thesis' net.
LAYERS = [(32, 1, 32, 4), (16, 32, 32, 4), (8, 32, 64, 2), (4, 64, 64, 2), (8, 64, 64, 4), (16, 32, 64, 4)]
TOLERANCES = {torch.bfloat16: 5e-3, torch.float32: 1e-3}  # of the norm; float32 with TF32


@pytest.mark.parametrize("members", [1, 8])
@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("sizes", LAYERS)
def test_kernels_agree_with_convolutions_in_float64(
    sizes: tuple[int, int, int, int], dtype: torch.dtype, members: int
) -> None:
    height, large, small, kernel = sizes
    generator = torch.Generator("cuda").manual_seed(0)
    x, weight, y = (
        torch.randn(shape, generator=generator, device="cuda").to(dtype)
        for shape in (
            (members, 64, 2 * height, 2 * height, large),
            (members, kernel, kernel, large, small),
            (members, 64, height, height, small),
        )
    )
    found = (
        strided_kernels.down(x, weight, True),
        strided_kernels.up(y, weight, True),
        strided_kernels.weight_sums(x, y, kernel, strided.parts_of_sum(x, y, kernel), True).sum(0),
    )
    for member in range(members):
        first, own, second = x[member].double(), weight[member].double().requires_grad_(), y[member].double()
        first = first.permute(0, 3, 1, 2).requires_grad_()
        image = F.conv2d(first, own.permute(3, 2, 0, 1), stride=2, padding=kernel // 2 - 1).permute(0, 2, 3, 1)
        by_x, by_weight = torch.autograd.grad((image * second).sum(), (first, own))
        for ours, wanted in zip(found, (image, by_x.permute(0, 2, 3, 1), by_weight), strict=True):
            assert float((ours[member].double() - wanted).norm() / wanted.norm()) <= TOLERANCES[dtype]
