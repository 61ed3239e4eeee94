"""How fast torch makes tokens on a GPU with a decoder of the sizes of `generate`'s made-up one: `python tokens_torch.py [COUNT]`."""

import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

LAYERS, WIDTH, HEADS, TOKENS, CAPACITY = 12, 768, 12, 16384, 512


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.heads = nn.ModuleList(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(3))
        self.mixed = nn.Linear(WIDTH, WIDTH, bias=False)
        self.wide = nn.Linear(WIDTH, 4 * WIDTH, bias=False)
        self.narrow = nn.Linear(4 * WIDTH, WIDTH, bias=False)
        for name in "keys", "values":
            self.register_buffer(name, torch.zeros(1, HEADS, CAPACITY, WIDTH // HEADS))

    def forward(self, x, position, visible):
        normed = self.norms[0](x)
        query, key, value = (one(normed).view(1, 1, HEADS, -1).transpose(1, 2) for one in self.heads)
        self.keys.index_copy_(2, position, key)
        self.values.index_copy_(2, position, value)
        seen = F.scaled_dot_product_attention(query, self.keys, self.values, attn_mask=visible)
        x = x + self.mixed(seen.transpose(1, 2).reshape(1, 1, WIDTH))
        return x + self.narrow(F.gelu(self.wide(self.norms[1](x))))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(TOKENS, WIDTH), nn.Embedding(CAPACITY, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm, self.scores = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, TOKENS, bias=False)
        self.register_buffer("numbers", torch.arange(CAPACITY))

    def forward(self, token, position):
        x = (self.words(token) + self.places(position)).view(1, 1, WIDTH)
        visible = (self.numbers <= position).view(1, 1, 1, CAPACITY)
        for layer in self.layers:
            x = layer(x, position, visible)
        return self.scores(self.norm(x)).argmax(-1).view(1)


@torch.inference_mode()
def rate(step, count):
    """Tokens a second behind a prompt of four, each read by the host as a text would be."""
    began = None
    token = None
    for position in range(count + 4):
        if position < 4 or token is None:
            token = torch.tensor([position + 1], device="cuda")
        token = step(token, torch.tensor([position], device="cuda")).clone()
        if position >= 3:
            token.item()
            began = began or time.perf_counter()
    return count / (time.perf_counter() - began)


count = int(sys.argv[1]) if len(sys.argv) > 1 else 64
torch.manual_seed(1)
for kind in torch.float32, torch.float16:
    decoder = Decoder().cuda().to(kind).eval()
    for name, step in ("eager", decoder), ("compiled", torch.compile(decoder, mode="reduce-overhead")):
        rate(step, 16)
        rates = sorted(rate(step, count) for _ in range(5))
        print(f"torch {torch.__version__}, {kind}, {name}: {rates[2]:.1f} tokens a second ({rates[0]:.1f} to {rates[-1]:.1f})")
