"""What the tests of native calls share: the compiled handlers."""

from pathlib import Path

import pytest

import weft

FOLDER = Path(__file__).parent


@pytest.fixture(scope="session", autouse=True)
def handlers():
    """The handlers of handlers.cc, compiled once (the build is cached) and registered."""
    library = weft.ffi.build(FOLDER / "handlers.cc", flags=["-O1"])
    for name in ("LegacyDouble", "LegacyConfigured"):
        capsule = weft.ffi.pycapsule(getattr(library, name))
        weft.ffi.register_ffi_target(name, capsule, api_version=0)
    return library


@pytest.fixture(scope="session")
def stateful():
    """The handler of state.cc, which has four stages and state of its own type."""
    return weft.ffi.build(
        FOLDER / "state.cc",
        types={"Factor": ("FactorTypeId", "FactorTypeInfo")},
        targets={
            "Factor": {
                "instantiate": "FactorInstantiate",
                "prepare": "FactorPrepare",
                "initialize": "FactorInitialize",
                "execute": "FactorExecute",
            }
        },
        flags=["-O1"],
    )
