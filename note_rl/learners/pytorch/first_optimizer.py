"""Makes an optimizer of PyTorch when it is imported: the first one has PyTorch import modules, which takes 1.4 s.

The fork server imports this, so that no trial has to wait for it.
"""

import torch

torch.optim.SGD([torch.zeros(1)])
