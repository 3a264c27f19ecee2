"""The one home of each formula: functions of tensors, no models, no disk, no hidden randomness."""
