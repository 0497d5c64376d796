"""Loads a page in headless Chromium, where the machine has one, and returns the DOM it made."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome", "headless_shell")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",  # containers have little of it
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--virtual-time-budget=2000",
)


def find() -> str | None:
    """The browser named by CHROME, or the first one on the path."""
    return os.environ.get("CHROME") or next(filter(None, map(shutil.which, NAMES)), None)


def dom(page: Path, profile: Path) -> str | None:
    """The page's document after Chromium laid it out, or None without a browser."""
    browser = find()
    if browser is None:
        return None
    command = [browser, *FLAGS, f"--user-data-dir={profile}", "--dump-dom", page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout
