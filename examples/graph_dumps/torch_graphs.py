"""Runs a convolution network and a transformer block in PyTorch, whose fusion hands graphs to oneDNN, which dumps them.

README.md has the command; oneDNN writes into the working folder when ONEDNN_GRAPH_DUMP=graph is set.
"""

import warnings

import torch
from torch import nn

warnings.filterwarnings("ignore", category=torch.jit.TracerWarning)


class ConvolutionNetwork(nn.Module):
    """Three convolutions, one with a residual, batch normalisations, a pooling and a classifier."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, padding=1)
        self.norm1 = nn.BatchNorm2d(16)
        self.conv2 = nn.Conv2d(16, 16, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(16)
        self.conv3 = nn.Conv2d(16, 32, 3, stride=2, padding=1)
        self.pool = nn.MaxPool2d(2)
        self.dense = nn.Linear(32 * 4 * 4, 10)

    def forward(self, images):
        x = torch.relu(self.norm1(self.conv1(images)))
        x = torch.relu(self.norm2(self.conv2(x)) + x)
        x = self.pool(torch.relu(self.conv3(x)))
        return torch.softmax(self.dense(x.flatten(1)), -1)


class TransformerBlock(nn.Module):
    """Multi-head attention and a feed-forward part, each after a layer normalisation and with a residual."""

    def __init__(self, width=64, heads=4):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.merge = nn.Linear(width, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        split = (batch, length, self.heads, width // self.heads)
        normed = self.norm1(x)
        query = self.query(normed).reshape(split).permute(0, 2, 1, 3)
        key = self.key(normed).reshape(split).permute(0, 2, 3, 1)
        value = self.value(normed).reshape(split).permute(0, 2, 1, 3)
        weights = torch.softmax(torch.matmul(query, key) / 4.0, -1)
        attended = torch.matmul(weights, value).permute(0, 2, 1, 3).reshape(batch, length, width)
        x = x + self.merge(attended)
        return x + self.narrow(nn.functional.gelu(self.wide(self.norm2(x))))


def main():
    torch.manual_seed(0)
    torch.jit.enable_onednn_fusion(True)
    for model, example in [
        (ConvolutionNetwork(), torch.randn(2, 3, 16, 16)),
        (TransformerBlock(), torch.randn(2, 16, 64)),
    ]:
        model.eval()
        with torch.no_grad():
            traced = torch.jit.freeze(torch.jit.trace(model, example))
            # The first runs observe shapes; then the graph is fused.
            for _ in range(3):
                traced(example)
        print(type(model).__name__, "traced and run with torch", torch.__version__)


if __name__ == "__main__":
    main()
