"""Names of JAX for programs and libraries written for it; see weft.as_jax.

`finder` stands in front of the import path, `modules` builds the modules it hands out, and the
folder `jax` mirrors JAX's tree of modules: aliases of weft's names, where they are not simply
found under the same name in weft. `primitive` lets programs define primitives by JAX's registries.
"""
