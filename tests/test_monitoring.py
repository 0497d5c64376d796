"""weft.monitoring: listeners hear what weft does and what programs tell them."""

import itertools
import time

import numpy as np
import pytest

import weft
from weft import monitoring


@pytest.fixture(autouse=True)
def no_listeners_left():
    yield
    monitoring.clear_event_listeners()


KINDS = {
    "event": (
        monitoring.register_event_listener,
        monitoring.unregister_event_listener,
        monitoring.record_event,
        (),
    ),
    "duration": (
        monitoring.register_event_duration_secs_listener,
        monitoring.unregister_event_duration_listener,
        monitoring.record_event_duration_secs,
        (0.5,),
    ),
    "span": (
        monitoring.register_event_time_span_listener,
        monitoring.unregister_event_time_span_listener,
        monitoring.record_event_time_span,
        (1.0, 2.0),
    ),
    "scalar": (
        monitoring.register_scalar_listener,
        monitoring.unregister_scalar_listener,
        monitoring.record_scalar,
        (7,),
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_listeners_of_a_kind_hear_it_with_its_tags_until_they_are_taken_back(kind):
    register, unregister, record, values = KINDS[kind]
    seen = []

    def listener(*args, **tags):
        seen.append((args, tags))

    register(listener)
    for other, (_, _, record_other, other_values) in KINDS.items():
        record_other(f"/{other}", *other_values, host=3)
    assert seen == [((f"/{kind}", *values), {"host": 3})]
    unregister(listener)
    record("/later", *values)
    assert len(seen) == 1
    with pytest.raises(ValueError, match="no listener of this kind"):
        unregister(listener)


def test_tracing_lowering_and_compiling_tell_how_long_they_took(monkeypatch):
    ticks = itertools.count(0, 10**6)  # the host may set its clock back
    monkeypatch.setattr(time, "time", lambda: next(ticks))
    durations, spans = {}, {}
    monitoring.register_event_duration_secs_listener(
        lambda event, seconds, *, fun_name, **_: durations.setdefault(fun_name, []).append(event)
    )
    monitoring.register_event_time_span_listener(
        lambda event, start, end, *, fun_name, **_: spans.setdefault(fun_name, []).append(
            (start, end)
        )
    )

    @weft.jit
    def measured_function(x):
        return x * 3

    begin = time.time()
    measured_function(np.ones(3, np.float32))
    measured_function(np.ones(3, np.float32))
    end = time.time()
    assert [e.rsplit("/", 1)[1] for e in durations["measured_function"]] == [
        "jaxpr_trace_duration",
        "jaxpr_to_mlir_module_duration",
        "backend_compile_duration",
    ]
    for a, b in spans["measured_function"]:
        assert begin <= a <= b <= end


def test_programs_kept_on_disk_are_hits_and_misses(tmp_path):
    seen = []
    monitoring.register_event_listener(lambda event, **_: seen.append(event.rsplit("/", 1)[1]))
    before = weft.config.compilation_cache_dir
    try:
        weft.config.update("compilation_cache_dir", str(tmp_path))
        for _ in range(2):
            weft.jit(lambda x: x * 5 - 2)(np.ones(7, np.float32))
    finally:
        weft.config.update("compilation_cache_dir", before)
    asked = "compile_requests_use_cache"
    assert seen[:2] == [asked, "cache_misses"] and seen[-2:] == [asked, "cache_hits"]


def test_a_table_has_the_time_of_each_stage_of_each_program():
    mesh = weft.make_mesh((2,), ("x",), axis_types=(weft.AxisType.Auto,))
    rows = weft.NamedSharding(mesh, weft.P("x"))
    x = weft.device_put(np.ones((4, 4), np.float32), rows)

    def split(x):
        return x @ x

    def whole(x):
        return x + 3

    with monitoring.CompileTimes() as times:
        weft.jit(split)(x), weft.jit(whole)(np.ones(3)), weft.jit(whole)(np.ones(3))
    weft.jit(lambda x: x - 1)(3)  # outside
    assert set(times.seconds) == {"split", "whole"}
    assert list(times.seconds["split"]) == ["trace", "lower", "propagate", "partition", "XLA"]
    assert list(times.seconds["whole"]) == ["trace", "lower", "XLA"]
    assert all(s > 0 for row in times.seconds.values() for s in row.values())
    head, *lines = str(times).splitlines()
    assert head.split() == [
        "milliseconds",
        "trace",
        "lower",
        "propagate",
        "partition",
        "XLA",
        "sum",
    ]
    assert sorted(line.split()[0] for line in lines) == ["split", "whole"]
    for line in lines:
        *cells, total = map(float, line.split()[1:])
        assert abs(sum(cells) - total) < 0.5
