"""Work on a CUDA device recorded once as a graph, to be replayed without the host's part in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch

Result = TypeVar("Result")
WARM_UPS = 3


def captured(
    work: Callable[[], Result], prepare: Callable[[], object] = lambda: None
) -> tuple[torch.cuda.CUDAGraph, Result]:
    """The graph of `work` and what it returns, which every replay overwrites; `prepare` comes before each time."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(WARM_UPS):
            prepare()
            work()
    torch.cuda.current_stream().wait_stream(side)
    prepare()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = work()
    return graph, result
