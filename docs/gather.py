"""Gather the site's pages: what stands in docs/, and a reference page of each public namespace.

python docs/gather.py build/docs      # `make docs` then lets MkDocs make the site of them
"""

import importlib
import inspect
import re
import shutil
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parent.parent
NAMESPACES = [
    "weft",
    "weft.numpy",
    "weft.numpy.fft",
    "weft.numpy.linalg",
    "weft.lax",
    "weft.nn",
    "weft.nn.initializers",
    "weft.random",
    "weft.scipy.linalg",
    "weft.scipy.optimize",
    "weft.scipy.signal",
    "weft.scipy.sparse.linalg",
    "weft.scipy.special",
    "weft.scipy.stats",
    "weft.image",
    "weft.ode",
    "weft.jet",
    "weft.rnn",
    "weft.memory",
    "weft.sparse",
    "weft.sparse.linalg",
    "weft.sharding",
    "weft.layout",
    "weft.collectives",
    "weft.communication",
    "weft.partition",
    "weft.pallas",
    "weft.ffi",
    "weft.tree",
    "weft.tree_util",
    "weft.checkpoints",
    "weft.export",
    "weft.checkify",
    "weft.debug",
    "weft.profiler",
    "weft.monitoring",
    "weft.distributed",
    "weft.multihost_utils",
    "weft.mesh_utils",
    "weft.topologies",
    "weft.stages",
    "weft.testing",
    "weft.errors",
    "weft.dtypes",
    "weft.custom_derivatives",
    "weft.custom_batching",
    "weft.custom_partitioning",
    "weft.shard_alike",
    "weft.flatten_util",
    "weft.dlpack",
    "weft.ref",
    "weft.typing",
]
# Pages of the root, as pages of the site.
ROOT_PAGES = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}


def public_names(module: ModuleType) -> list[str]:
    """Names of a namespace that are its own to show: neither private nor namespaces themselves."""
    names = getattr(module, "__all__", None) or [n for n in dir(module) if not n.startswith("_")]
    return sorted(
        (n for n in names if hasattr(module, n) and not inspect.ismodule(getattr(module, n))),
        key=lambda n: (n.lower(), n),
    )


def signature(name: str, value: object) -> str:
    """Write how a value is called, without annotations, or just its name."""
    try:
        parameters = inspect.signature(value).parameters.values()  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return name
    bare = [p.replace(annotation=inspect.Parameter.empty) for p in parameters]
    text = str(inspect.Signature(bare))
    # The defaults of objects show addresses, which differ between builds.
    return name + re.sub(
        r"<(?:\w+\.)*(\w+) object at 0x\w+>|<function (\w+) at 0x\w+>", r"\1\2", text
    )


def as_markdown(doc: str) -> str:
    """Turn a docstring into Markdown: examples fenced, the rest with its characters as they are."""
    parts, example = [], False
    for paragraph in doc.split("\n\n"):
        if paragraph.lstrip().startswith(">>>"):
            code = inspect.cleandoc(paragraph.replace("<BLANKLINE>", ""))
            if example:
                parts[-1] = parts[-1].removesuffix("\n```") + f"\n\n{code}\n```"
            else:
                parts.append(f"```pycon\n{code}\n```")
            example = True
            continue
        example = False
        if paragraph.startswith("    "):
            parts.append(paragraph)
        else:
            parts.append(re.sub(r"(?<!`)([*_<\[\]])(?![^`\n]*`)", r"\\\1", paragraph))
    return "\n\n".join(parts)


def reference_page(name: str) -> str:
    """Document a namespace: each public name with its signature, docstring and example."""
    module = importlib.import_module(name)
    lines = [f"# {name}", "", as_markdown(inspect.getdoc(module) or ""), ""]
    for public in public_names(module):
        value = getattr(module, public)
        # Two underscores are emphasis in Markdown, in a heading's name as in its text.
        heading = public.replace("__", r"\_\_")
        lines += [f"## {heading} {{ #{name}.{public.replace('__', '')} }}", ""]
        if callable(value):
            lines += ["```python", signature(f"{name}.{public}", value), "```", ""]
            # What NumPy wrote of its own functions has headings and is not ours to copy.
            foreign = (getattr(value, "__module__", None) or "").startswith("numpy")
            documented = f"NumPy's own `{public}`." if foreign else inspect.getdoc(value)
        else:
            text = repr(value)
            documented = f"`{text}`" if len(text) < 80 and "0x" not in text else ""
        lines += [as_markdown(documented or ""), ""]
    return "\n".join(lines)


def relink(text: str) -> str:
    """Let links of a page that leave docs/ lead to the site's pages, or be plain names."""

    def replace(match: re.Match[str]) -> str:
        label, target = match.groups()
        path = target.removeprefix("../").removeprefix("docs/")
        file, _, anchor = path.partition("#")
        if file in ROOT_PAGES or (ROOT / "docs" / file).exists():
            return f"[{label}]({ROOT_PAGES.get(file, file)}{anchor and '#' + anchor})"
        return label

    return re.sub(r"\[([^\]]+)\]\(((?:\.\./|docs/)[^)]+)\)", replace, text)


def gather(out: Path) -> None:
    """Write all pages of the site into a fresh folder."""
    shutil.rmtree(out, ignore_errors=True)
    (out / "reference").mkdir(parents=True)
    for page in (ROOT / "docs").glob("*.md"):
        (out / page.name).write_text(relink(page.read_text("utf-8")), "utf-8")
    for file in [*(ROOT / "docs").glob("*.svg"), ROOT / "docs" / "iframe-worker.js"]:
        shutil.copy(file, out / file.name)
    for source, page in ROOT_PAGES.items():
        (out / page).write_text(relink((ROOT / source).read_text("utf-8")), "utf-8")
    for name in NAMESPACES:
        (out / "reference" / f"{name}.md").write_text(reference_page(name), "utf-8")
    rows = [f"- [{n}]({n}.md)" for n in NAMESPACES]
    index = "# Reference\n\nEvery public name; its examples are run as tests.\n\n" + "\n".join(rows)
    (out / "reference" / "README.md").write_text(index + "\n", "utf-8")


if __name__ == "__main__":
    gather(Path(sys.argv[1]))
