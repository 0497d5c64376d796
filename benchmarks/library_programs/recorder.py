"""A pytest plugin: one line of JSON per test, so that a run that ends early leaves its results.

The file is named by the variable LIBRARY_RESULTS; a line is [test, null] or [test, why it failed].
"""

import json
import os
import re


def _record(test, reason):
    test = re.sub(r"0x[0-9a-f]+", "0x", test)
    with open(os.environ["LIBRARY_RESULTS"], "a") as f:
        f.write(json.dumps([test, reason]) + "\n")


def _reason(report):
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash else str(report.longrepr).strip().rpartition("\n")[2]
    return " ".join(text.split())[:200] or "failed"


def pytest_runtest_logreport(report):
    if report.failed:
        _record(report.nodeid, _reason(report))
    elif report.passed and report.when == "call":
        _record(report.nodeid, None)


def pytest_collectreport(report):
    if report.failed:
        _record(report.nodeid, f"not collected: {_reason(report)}")
