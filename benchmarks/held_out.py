"""Operations of other dtypes and sizes than kernels were tuned on: rows of their own table.

`python -m benchmarks.operations --held-out` measures them. They are for a check at the end of a
piece of work, not for tuning.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


def doubles(count: int = 1) -> Callable:
    return lambda rng, shape: tuple(rng.standard_normal(shape) for _ in range(count))


def halves(count: int = 1) -> Callable:
    import ml_dtypes

    return lambda rng, shape: tuple(
        rng.standard_normal(shape).astype(ml_dtypes.bfloat16) for _ in range(count)
    )


def bytes_product(rng: np.random.Generator, shape: tuple) -> tuple:
    return (
        rng.integers(-128, 128, shape).astype(np.int8),
        rng.integers(-128, 128, shape[::-1]).astype(np.int8),
    )


def rows(one: Callable, integers: Callable, floats: Callable) -> None:
    """Declares the rows; each has one shape, which stands for all four sizes."""

    def at(name: str, shape: tuple, *rest: str | Callable) -> None:
        one(name, (shape,) * 4, *rest)

    at("sort f64 300k", (300_000,), doubles(), "jnp.sort(x)", "np.sort(x)", "torch.sort(x).values")
    at("sort f64 1000", (1000,), doubles(), "jnp.sort(x)", "np.sort(x)", "torch.sort(x).values")
    at("sort bf16 rows", (600, 800), halves(), "jnp.sort(x, 1)", "", "torch.sort(x, 1).values")
    at("argsort i32 rows", (2000, 300), integers(1 << 30), "jnp.argsort(x, 1)", "np.argsort(x, 1)",
       "torch.argsort(x, 1)")  # fmt: skip
    at("top_k 5 f32", (64, 20_000), floats(), "lax.top_k(x, 5)", "", "torch.topk(x, 5)")
    at("median f64 rows", (300, 2000), doubles(), "jnp.median(x, 1)", "np.median(x, 1)",
       "torch.median(x, 1).values")  # fmt: skip
    at("unique i32 2M", (2_000_000,), integers(5000), "jnp.unique(x, size=5000)", "np.unique(x)",
       "torch.unique(x)")  # fmt: skip
    at("permutation 300k", (300_000,), floats(), "xx.random.permutation(xx.random.key(1), x.size)",
       "np.random.default_rng(0).permutation(x.size)", "torch.randperm(x.numel())")  # fmt: skip
    at("cumsum i32 axis 1", (900, 1100), integers(100), "jnp.cumsum(x, 1)",
       "np.cumsum(x, 1, dtype=np.int32)", "torch.cumsum(x, 1, dtype=torch.int32)")  # fmt: skip
    at("cumsum f64", (2_000_000,), doubles(), "jnp.cumsum(x)", "np.cumsum(x)", "torch.cumsum(x, 0)")
    at("cummax i32 axis 0", (900, 1100), integers(1 << 30), "lax.cummax(x, 0)",
       "np.maximum.accumulate(x, 0)", "torch.cummax(x, 0).values")  # fmt: skip
    at(
        "sum f64 axis 0",
        (2000, 1500),
        doubles(),
        "jnp.sum(x, 0)",
        "np.sum(x, 0)",
        "torch.sum(x, 0)",
    )
    at("sum bf16 axis 1", (2000, 3000), halves(), "jnp.sum(x, 1)", "", "torch.sum(x, 1)")
    at("argmax f64 axis 1", (3000, 700), doubles(), "jnp.argmax(x, 1)", "np.argmax(x, 1)",
       "torch.argmax(x, 1)")  # fmt: skip
    at("argmin i32 1000", (1000,), integers(1 << 30), "jnp.argmin(x)", "np.argmin(x)",
       "torch.argmin(x)")  # fmt: skip
    at("exp f64 2M", (2_000_000,), doubles(), "jnp.exp(x)", "np.exp(x)", "torch.exp(x)")
    at("sin f64 2M", (2_000_000,), doubles(), "jnp.sin(x)", "np.sin(x)", "torch.sin(x)")
    at("exp f32 1000", (1000,), floats(), "jnp.exp(x)", "np.exp(x)", "torch.exp(x)")
    at("softmax bf16", (3000, 500), halves(), "nn.softmax(x)", "", "torch.softmax(x, 1)")
    at("matmul bf16", (500, 700), lambda rng, s: (*halves()(rng, s), *halves()(rng, s[::-1])),
       "x @ y", "", "x @ y")  # fmt: skip
    at("matmul i8 → i32", (500, 700), bytes_product,
       "lax.dot_general(x, y, (((1,), (0,)), ((), ())), preferred_element_type='int32')", "",
       "torch._int_mm(x, y)")  # fmt: skip
    at("batched 16×16", (2000, 16, 16), floats(2), "x @ y", "x @ y", "x @ y")
    at("rfft f32 rows", (700, 1500), floats(), "jnp.fft.rfft(x)", "np.fft.rfft(x)",
       "torch.fft.rfft(x)")  # fmt: skip
    at("fft c64 300k", (300_000, 2), floats(), "jnp.fft.fft(lax.complex(x[:, 0], x[:, 1]))", "",
       "torch.fft.fft(torch.view_as_complex(x))")  # fmt: skip
    at("attention f32", (4, 6, 700, 32), floats(3),
       "nn.softmax(jnp.einsum('abij,abkj->abik', x, y) * x.shape[-1] ** -0.5) @ z", "",
       "F.scaled_dot_product_attention(x, y, z)")  # fmt: skip
    at("conv 3×3 stride 2", (4, 32, 57, 57),
       lambda rng, s: (*floats()(rng, s), *floats()(rng, (48, s[1], 3, 3))),
       "lax.conv_general_dilated(x, y, (2, 2), 'VALID')", "",
       "F.conv2d(x, y, stride=2)")  # fmt: skip
    at("transpose i32 3-D", (120, 130, 140), integers(1 << 30), "x.transpose(2, 1, 0).copy()",
       "x.transpose(2, 1, 0).copy()", "x.permute(2, 1, 0).contiguous()")  # fmt: skip
    at("histogram f64", (800_000,), doubles(), "jnp.histogram(x, 50, (-4, 4))[0]",
       "np.histogram(x, 50, (-4, 4))[0]", "torch.histc(x, 50, -4, 4)")  # fmt: skip
