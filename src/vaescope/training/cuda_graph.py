"""Work on a CUDA device recorded once as a graph, which is replayed without work on the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch

Result = TypeVar("Result")
WARM_UP_CALLS = 3


def captured(
    work: Callable[[], Result], prepare: Callable[[], object] = lambda: None
) -> tuple[torch.cuda.CUDAGraph, Result]:
    """The graph of `work` and its result, which every replay overwrites; `prepare` is called before each recording."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(WARM_UP_CALLS):
            prepare()
            work()
    torch.cuda.current_stream().wait_stream(side)
    prepare()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = work()
    return graph, result
