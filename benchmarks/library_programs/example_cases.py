"""The programs of examples/jax, with their losses step by step."""

from benchmarks.library_programs import case
from examples.jax import mlp, neural_ode, nnx_gpt, optax_mlp

case("mlp")(lambda: mlp.main(60))
case("optax_mlp")(lambda: optax_mlp.main(60))
case("neural_ode")(lambda: neural_ode.main(20))
case("nnx_gpt")(lambda: nnx_gpt.main(20))
