"""The programs of examples/jax, with their losses step by step."""

from benchmarks.library_programs import case
from examples.jax import (
    flax_cnn,
    haiku_resnet,
    mlp,
    neural_ode,
    nnx_gpt,
    nnx_gpt_mesh,
    optax_mlp,
)

case("mlp")(lambda: mlp.main(60))
case("optax_mlp")(lambda: optax_mlp.main(60))
case("neural_ode")(lambda: neural_ode.main(20))
case("nnx_gpt")(lambda: nnx_gpt.main(20))
case("flax_cnn")(lambda: flax_cnn.main(60))
case("haiku_resnet")(lambda: haiku_resnet.main(20))
case("nnx_gpt_mesh")(lambda: nnx_gpt_mesh.main(10))
