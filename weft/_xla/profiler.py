# Tests: tests/test_profiler.py
"""XLA's profiler: sessions, a server, annotations and profiles as data."""

from __future__ import annotations

from jaxlib import _profile_data, _profiler

ProfileOptions = _profiler.ProfileOptions
ProfilerSession = _profiler.ProfilerSession
TraceMe = _profiler.TraceMe
start_server = _profiler.start_server
register_subprocess = _profiler.register_subprocess
set_metadata = _profiler.set_metadata
clear_metadata = _profiler.clear_metadata

ProfileData = _profile_data.ProfileData
ProfileEvent = _profile_data.ProfileEvent
ProfilePlane = _profile_data.ProfilePlane
