"""A small GPT in flax nnx, trained by optax to continue a repeating text."""

import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

TEXT = "the same program runs on both libraries, and nothing in it was changed. " * 20
LENGTH = 32


class Block(nnx.Module):
    """Causal attention and a layer, each around a residual."""

    def __init__(self, width, rngs):
        self.norms = nnx.List([nnx.LayerNorm(width, rngs=rngs) for _ in range(2)])
        self.attention = nnx.MultiHeadAttention(4, width, decode=False, rngs=rngs)
        self.up = nnx.Linear(width, 4 * width, rngs=rngs)
        self.down = nnx.Linear(4 * width, width, rngs=rngs)

    def __call__(self, x, mask):
        x = x + self.attention(self.norms[0](x), mask=mask)
        return x + self.down(nnx.gelu(self.up(self.norms[1](x))))


class GPT(nnx.Module):
    """Embeddings, blocks, and logits of the next character."""

    def __init__(self, characters, width, depth, rngs):
        self.characters = nnx.Embed(characters, width, rngs=rngs)
        self.positions = nnx.Embed(LENGTH, width, rngs=rngs)
        self.blocks = nnx.List([Block(width, rngs) for _ in range(depth)])
        self.head = nnx.Linear(width, characters, rngs=rngs)

    def __call__(self, ids):
        x = self.characters(ids) + self.positions(jnp.arange(ids.shape[1]))
        mask = nnx.make_causal_mask(ids)
        for block in self.blocks:
            x = block(x, mask)
        return self.head(x)


def made():
    """A model, its optimizer, and the characters of the text as numbers."""
    alphabet = sorted(set(TEXT))
    ids = np.array([alphabet.index(c) for c in TEXT])
    model = GPT(len(alphabet), 32, 2, nnx.Rngs(0))
    return model, nnx.Optimizer(model, optax.adamw(3e-3), wrt=nnx.Param), ids


def train(model, optimizer, ids, steps, put=jnp.asarray):
    """The losses before each step; `put` places a batch."""

    @nnx.jit
    def step(model, optimizer, batch):
        def loss(model):
            logits = model(batch[:, :-1])
            return optax.softmax_cross_entropy_with_integer_labels(logits, batch[:, 1:]).mean()

        value, gradient = nnx.value_and_grad(loss)(model)
        optimizer.update(model, gradient)
        return value

    rng = np.random.default_rng(0)
    losses = []
    for _ in range(steps):
        starts = rng.integers(0, len(ids) - LENGTH - 1, 8)
        batch = np.stack([ids[s : s + LENGTH + 1] for s in starts])
        losses.append(float(step(model, optimizer, put(batch))))
    return losses


def main(steps=30):
    """The losses before each step."""
    losses = train(*made(), steps)
    print(f"loss {losses[0]:.4f} -> {losses[-1]:.4f}")
    return losses


if __name__ == "__main__":
    main()
