"""A trained model as a module of tensors, to be used in code that knows nothing of this library."""

from __future__ import annotations

import copy

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vaescope.data.conditions import LABEL, ConditionKind
from vaescope.data.pixel_scale import WHITE_8_BITS
from vaescope.data.pixels import scale_pixels, unit_pixels
from vaescope.errors import DataError
from vaescope.models import TrainableModel
from vaescope.models.latent_model import Items
from vaescope.numerics.distributions import Distribution


class Reconstructor(nn.Module):
    """Items -> the means of p(x|z) at their mean codes: a copy of a model, on the CPU, in evaluation mode.

    Gradients flow. The codes are in `encode(x).mean`, and `decode(z).mean` decodes any others.

    Attributes:
        model: The copy; what is done to it changes no other.
        item_shape: The shape of an item: (channels, height, width), (channels, length) or (dimensions,).
        pixel_scale: The scale of the images that it was trained on, in which it takes and gives them.
        condition: What the model is conditioned on: 'label', 'factors', or None.
    """

    def __init__(self, model: TrainableModel) -> None:
        super().__init__()
        self.model = copy.deepcopy(model).cpu()
        self.item_shape, self.pixel_scale = model.item_shape, model.pixel_scale
        self.condition: ConditionKind | None = model.condition
        self.condition_width = model.condition_width
        self.eval()

    def forward(self, x: Items, condition: Tensor | None = None) -> Items:
        """The reconstruction of each item.

        Args:
            x: Items x the shape of an item, with pixels in the `range` of the data that the model was trained
                on if they have one, else floats in [0, 1] or integers as they had.
            condition: Of a conditional model: the class number of each item, or its one-hot rows; of an identifiable
                model: the factors of each item, scaled to [0, 1].
        """
        return self.decode(self.encode(x, condition).mean, condition).mean

    def encode(self, x: Items, condition: Tensor | None = None) -> Distribution:
        """q(z|x); the arguments are those of `forward`."""
        if not isinstance(x, Tensor):
            raise DataError(f"x must be a tensor, got {type(x).__name__}. Convert it by torch.as_tensor.")
        if tuple(x.shape[1:]) != self.item_shape:
            raise DataError(
                f"x must be items of shape {self.item_shape}, got a tensor of shape {tuple(x.shape)}. Resize it, or "
                "write x[None] for one item."
            )
        return self.model.encode(self._as_seen(x).to(self.latent_mask.dtype), self._rows(condition))

    def decode(self, z: Tensor, condition: Tensor | None = None) -> Distribution:
        """p(x|z) for codes, items x latents, with pixels in the scale of the data."""
        return self.pixel_scale.of(self.model.decode(z * self.latent_mask, self._rows(condition)))

    def _as_seen(self, x: Tensor) -> Tensor:
        """Items as the model sees them."""
        is_image = len(self.item_shape) == 3
        if is_image and x.dtype == torch.bool:
            return x
        if not self.pixel_scale.is_unit:
            return self.pixel_scale.to_model(x if x.is_floating_point() else x.to(self.latent_mask.dtype))
        if not is_image or x.is_floating_point():
            return x
        white = self.pixel_scale.white_of(x.dtype == torch.uint8)
        return scale_pixels(x) if white == WHITE_8_BITS else unit_pixels(x, (0, white))

    @property
    def latent_mask(self) -> Tensor:
        """1 for each latent in use."""
        return self.model.latent_mask

    def _rows(self, condition: Tensor | None) -> Tensor | None:
        """The condition as rows of numbers; class numbers become one-hot."""
        if self.condition != LABEL or condition is None or condition.ndim != 1:
            return condition
        if condition.is_floating_point() or not bool(((condition >= 0) & (condition < self.condition_width)).all()):
            raise DataError(f"class numbers must be integers from 0 to {self.condition_width - 1}.")
        return F.one_hot(condition.long(), self.condition_width)
