# Tests: tests/test_checkify.py
"""The kinds of failures, and the error that tells of the first one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import weft.numpy as wnp
from weft import random
from weft._xla import pytree
from weft.core.errors import has_page


@has_page("weft.checkify", "checkifyjaxruntimeerror")
class JaxRuntimeError(ValueError):
    """The error that a failed check raises."""


@has_page("weft.checkify")
class JaxException(Exception):
    """The base class of the failures that checks find."""


@has_page("weft.checkify")
class FailedCheckError(JaxException):
    """A `check` of the function's own."""


@has_page("weft.checkify")
class NaNError(JaxException):
    """A NaN in the result of an op."""


@has_page("weft.checkify")
class DivisionByZeroError(JaxException):
    """A division by zero."""


@has_page("weft.checkify")
class OOBError(JaxException):
    """An index out of bounds."""


ErrorCategory = type[JaxException]
user_checks = frozenset((FailedCheckError,))
nan_checks = frozenset((NaNError,))
div_checks = frozenset((DivisionByZeroError,))
index_checks = frozenset((OOBError,))
float_checks = nan_checks | div_checks
automatic_checks = float_checks | index_checks
all_checks = automatic_checks | user_checks

for _kind in (JaxRuntimeError, JaxException, *all_checks):
    _kind.__module__ = "weft.checkify"  # as tracebacks name them


@dataclass(frozen=True)
class Site:
    """One check of a program: what it finds, and how its message is made of its payload."""

    kind: ErrorCategory
    text: str
    source: str
    tree: Any = None  # of (args, kwargs) that the text is formatted with
    num_payload: int = 0
    axes: tuple[int, ...] = ()  # of the array, that the components of an index point into
    shape: tuple[int, ...] = ()
    keys: tuple[tuple[int, Any], ...] = ()  # positions of keys in the payload, and their kinds

    def message(self, payload: Sequence[Any]) -> str:
        text = self.text
        if self.kind is OOBError:
            index, component = map(int, payload)
            axis = self.axes[component]
            text = (
                f"out-of-bounds indexing for array of shape {self.shape}: index {index} is out of "
                f"bounds for axis {axis} with size {self.shape[axis]}"
            )
        elif self.tree is not None:
            told = list(payload)
            for position, kind in self.keys:
                told[position] = random.wrap_key_data(told[position], impl=kind)
            args, kwargs = self.tree.unflatten(told)
            text = f"{text.format(*args, **kwargs)} (`check` failed)"
        return f"{text}, at {self.source}"


class Error:
    """Which check failed first, if any; what a function gives that `checkify` changed.

    A pytree: it passes through jit, and vmap gives the errors of all examples in one.

    >>> import weft
    >>> from weft import checkify
    >>> def f(x):
    ...     checkify.check(x > 0, "{} must be positive", x)
    ...     return weft.numpy.log(x)
    >>> error, _ = weft.jit(checkify.checkify(f))(-1.0)
    >>> error.get()
    '-1.0 must be positive (`check` failed), at ...'
    """

    __slots__ = ("_code", "_payloads", "_sites")

    def __init__(self, code: Any = 0, payloads: Sequence[Any] = (), sites: tuple = ()) -> None:
        self._code = code  # 0, or one more than the position of the check among the sites
        self._payloads = tuple(payloads)  # of all sites, one after the other
        self._sites = sites

    def _payload(self, site: int) -> tuple:
        start = sum(s.num_payload for s in self._sites[:site])
        return self._payloads[start : start + self._sites[site].num_payload]

    def _failures(self) -> list[tuple[tuple[int, ...], Site, str]]:
        """Return the examples that failed, each with its check and the message."""
        codes = np.asarray(self._code)
        failures = []
        for example in map(tuple, np.argwhere(codes).tolist()):
            k = int(codes[example]) - 1
            site = self._sites[k]
            payload = [wnp.asarray(x)[example] for x in self._payload(k)]
            failures.append((example, site, site.message(payload)))
        return failures

    def get(self) -> str | None:
        """Return the failed check's message, a line for each failing example; None if none did.

        >>> from weft import checkify
        >>> error, _ = checkify.checkify(lambda x: x)(1.0)
        >>> error.get() is None
        True
        """
        failures = self._failures()
        if not failures:
            return None
        return "\n".join(
            f"at mapped index {', '.join(map(str, example))}: {text}" if example else text
            for example, _, text in failures
        )

    def get_exception(self) -> JaxException | None:
        """Return the first failure as an exception of its kind; None if no check failed."""
        failures = self._failures()
        return failures[0][1].kind(failures[0][2]) if failures else None

    def throw(self) -> None:
        """Raise JaxRuntimeError if a check failed.

        >>> from weft import checkify
        >>> error, _ = checkify.checkify(lambda x: 1 / x, errors=checkify.div_checks)(0.0)
        >>> error.throw()
        Traceback (most recent call last):
        weft.checkify.JaxRuntimeError: division by zero, at ...
        """
        from weft.checkify.check_op import check_error

        check_error(self)

    def __repr__(self) -> str:
        try:
            return f"Error({self.get()})"
        except TypeError:  # traced
            return f"Error({self._code})"


pytree.register_node(
    Error,
    lambda e: ((e._code, *e._payloads), e._sites),
    lambda sites, children: Error(children[0], tuple(children[1:]), sites),
)

init_error = Error()
"""The error of a function in which no check has failed, with which programs begin."""
