"""weft.debug.breakpoint: stops where a program runs and looks at the values that were traced."""

from __future__ import annotations

import bdb
import cmd
import linecache
import pprint
import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import IO, TYPE_CHECKING, Any

from weft.api.callback import debug_callback, pure_callback
from weft.api.custom import custom_jvp
from weft.core.source import is_internal_file
from weft.core.trace import Tracer
from weft.core.tree import flatten
from weft.driver.staging import eval_shape

if TYPE_CHECKING:
    from weft.runtime.array import Array

BACKENDS = ("cli",)
_one_at_a_time = threading.RLock()


@dataclass(frozen=True, slots=True)
class Frame:
    """One line of the traced stack, with its variables as the program computes them."""

    code: CodeType
    line: int
    variables: dict[str, Any]
    globals: dict[str, Any]

    def __str__(self) -> str:
        text = linecache.getline(self.code.co_filename, self.line).strip()
        location = f"{self.code.co_filename}({self.line}){self.code.co_name}()"
        return f"{location}\n-> {text}" if text else location


def _is_traced(leaf: object) -> bool:
    return isinstance(leaf, Tracer) and not leaf._trace.finished


def _is_iterator(node: object) -> bool:
    return hasattr(node, "__next__")  # the flattening would warn of it


def _frames(innermost: FrameType | None, filter_frames: bool, most: int | None) -> list[Frame]:
    """Return the stack from the innermost frame outwards."""
    frames: list[Frame] = []
    frame = innermost
    while frame is not None and (most is None or len(frames) < most):
        if not (filter_frames and is_internal_file(frame.f_code.co_filename)):
            # Those of a module are its globals.
            variables = {} if frame.f_locals is frame.f_globals else dict(frame.f_locals)
            frames.append(Frame(frame.f_code, frame.f_lineno, variables, frame.f_globals))
        frame = frame.f_back
    return frames


def _opened(frames: list[Frame]) -> tuple[list[Tracer], Callable[[tuple], list[Frame]]]:
    """Return the traced values among the variables, and what puts computed ones in their places."""
    tracers: list[Tracer] = []
    position: dict[int, int] = {}
    plan: list[tuple[Frame, list]] = []
    for frame in frames:
        places = []
        for name, value in frame.variables.items():
            try:
                leaves, tree = flatten(value, _is_iterator)
            except Exception:  # a node of the user's that cannot be flattened stays as it is
                continue
            if not any(map(_is_traced, leaves)):
                continue
            for leaf in filter(_is_traced, leaves):
                if id(leaf) not in position:
                    position[id(leaf)] = len(tracers)
                    tracers.append(leaf)
            slots = [position[id(x)] if _is_traced(x) else None for x in leaves]
            kept = [None if _is_traced(x) else x for x in leaves]
            places.append((name, tree, slots, kept))
        traced = {name for name, *_ in places}
        rest = {name: v for name, v in frame.variables.items() if name not in traced}
        plan.append((Frame(frame.code, frame.line, rest, frame.globals), places))

    def closed(values: tuple) -> list[Frame]:
        result = []
        for frame, places in plan:
            variables = dict(frame.variables)
            for name, tree, slots, kept in places:
                leaves = [k if i is None else values[i] for i, k in zip(slots, kept, strict=True)]
                variables[name] = tree.unflatten(leaves)
            result.append(Frame(frame.code, frame.line, variables, frame.globals))
        return result

    return tracers, closed


class Prompt(cmd.Cmd):
    """Commands over a stack of frames, with the names that pdb gives them."""

    prompt = "(weft) "

    def __init__(
        self, frames: list[Frame], stdin: IO[str] | None = None, stdout: IO[str] | None = None
    ) -> None:
        super().__init__(stdin=stdin, stdout=stdout)
        self.use_rawinput = stdin is None
        self.frames = frames
        self.current = 0
        self.quitting = False

    def say(self, text: str) -> None:
        print(text, file=self.stdout, flush=True)

    @property
    def frame(self) -> Frame:
        return self.frames[self.current]

    def run(self) -> None:
        """Take commands until one says to go on; raise bdb.BdbQuit if it says to quit."""
        self.cmdloop(f"> {self.frame}" if self.frames else "> no frame outside weft")
        if self.quitting:
            raise bdb.BdbQuit("quit at weft.debug.breakpoint")

    def _evaluate(self, expression: str | CodeType) -> Any:
        return eval(expression, self.frame.globals, self.frame.variables)

    def _show(self, expression: str | CodeType, show: Callable[[Any], str]) -> None:
        try:
            self.say(show(self._evaluate(expression)))
        except Exception as e:
            self.say("*** " + traceback.format_exception_only(e)[-1].strip())

    def default(self, line: str) -> None:
        """Anything else is Python, which may change variables, but not those of the program."""
        try:
            code = compile(line.removeprefix("!"), "<stdin>", "eval")
        except SyntaxError:
            try:
                exec(line.removeprefix("!"), self.frame.globals, self.frame.variables)
            except Exception as e:
                self.say("*** " + traceback.format_exception_only(e)[-1].strip())
            return
        self._show(code, repr)

    def emptyline(self) -> bool:
        return False

    def do_p(self, expression: str) -> None:
        """p expression: its value."""
        self._show(expression, repr)

    def do_pp(self, expression: str) -> None:
        """pp expression: its value, pretty-printed."""
        self._show(expression, pprint.pformat)

    def do_args(self, _: str) -> None:
        """a(rgs): the arguments of the function."""
        code = self.frame.code
        for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]:
            if name in self.frame.variables:
                self.say(f"{name} = {self.frame.variables[name]!r}")

    def do_list(self, _: str) -> None:
        """l(ist): the lines around."""
        lines = linecache.getlines(self.frame.code.co_filename)
        first = max(self.frame.line - 5, 1)
        for number, text in enumerate(lines[first - 1 : first + 10], first):
            arrow = "->" if number == self.frame.line else "  "
            self.say(f"{number:3} {arrow} {text.rstrip()}")

    def do_where(self, _: str) -> None:
        """w(here): the stack, outermost frame first."""
        for i in reversed(range(len(self.frames))):
            self.say(f"{'>' if i == self.current else ' '} {self.frames[i]}")

    def _move(self, by: int, end: str) -> None:
        if not 0 <= self.current + by < len(self.frames):
            self.say(f"*** {end} frame")
            return
        self.current += by
        self.say(f"> {self.frame}")

    def do_up(self, _: str) -> None:
        """u(p): the caller's frame."""
        self._move(1, "Oldest")

    def do_down(self, _: str) -> None:
        """d(own): the frame that was called."""
        self._move(-1, "Newest")

    def do_continue(self, _: str) -> bool:
        """c(ontinue): lets the program go on."""
        return True

    def do_quit(self, _: str) -> bool:
        """q(uit): ends the program with an error."""
        self.quitting = True
        return True

    do_a, do_l, do_w, do_bt, do_u, do_d = do_args, do_list, do_where, do_where, do_up, do_down
    do_c = do_cont = do_continue
    do_q = do_exit = do_EOF = do_quit


def breakpoint(
    *,
    backend: str | None = None,
    filter_frames: bool = True,
    num_frames: int | None = None,
    ordered: bool = False,
    token: object = None,
    **kwargs: Any,
) -> Any:
    """Stop when a program comes to this point, and take commands as pdb does.

    The variables of this function and its callers are there with the values that the program
    computes: `p x`, or any Python expression. Commands: p, pp, a(rgs), l(ist), w(here), u(p),
    d(own), c(ontinue), q(uit), h(elp). Works under every transformation: derivatives pass it by,
    vmap stops for each example and scan in each iteration.

    Args:
      backend: "cli", which is also used for None.
      filter_frames: leave out frames of weft's own files.
      num_frames: how many frames to keep, from the innermost; all for None. Their variables live
        as long as the compiled program.
      ordered: keep the program's order among such stops, prints and callbacks.
      token: an array, or a pytree of arrays, which is returned as it is: the stop comes once it
        is computed, and not at all if the result is not used.
      kwargs: `stdin` and `stdout`, files that commands are read from and answers written to.

    Raises:
      TypeError or ValueError: an argument does not exist, or not with this one.
      bdb.BdbQuit, or an error of the compiled program that names it: the command was quit.

    >>> import io, weft
    >>> @weft.jit
    ... def f(x):
    ...     y = 2 * x
    ...     weft.debug.breakpoint(stdin=io.StringIO("p x, y + 1\\nc\\n"), stdout=out)
    ...     return y
    >>> out = io.StringIO()
    >>> _ = f(3).block_until_ready(); weft.effects_barrier()
    >>> "(Array(3, dtype=int32" in out.getvalue()
    True
    """
    if backend is not None and backend not in BACKENDS:
        raise ValueError(
            f"debug.breakpoint: there is no backend {backend!r}; there is {', '.join(BACKENDS)}"
        )
    if unknown := set(kwargs) - {"stdin", "stdout"}:
        raise TypeError(
            f"debug.breakpoint: got an unexpected keyword argument {min(unknown)!r}; the backend "
            "takes stdin and stdout"
        )
    if ordered and token is not None:
        raise ValueError("debug.breakpoint: ordered and token exclude each other; leave out one")
    tracers, closed = _opened(_frames(sys._getframe(1), filter_frames, num_frames))

    def stop(*values: Array) -> None:
        with _one_at_a_time:
            Prompt(closed(values), **kwargs).run()

    if token is None:
        debug_callback(stop, *tracers, ordered=ordered)
        return None
    return _after(token, stop, tracers)


def _after(token: Array, stop: Callable, tracers: list) -> Any:
    """Return the token as Python hands it back after the stop; its derivative passes by."""

    def call(token: Array, values: list) -> Any:
        stop(*values)
        return token

    @custom_jvp
    def after(token: Array, values: list) -> Any:
        shapes = eval_shape(lambda x: x, token)
        return pure_callback(call, shapes, token, values, vmap_method="sequential")

    @after.defjvp
    def _rule(primals: tuple, tangents: tuple) -> tuple:
        return after(*primals), tangents[0]

    return after(token, tracers)
