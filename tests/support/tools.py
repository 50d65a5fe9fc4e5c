"""The scripts of `tools/` as modules, for the tests of them and of their output."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ROOT / "tools"


def load_tool(name: str) -> ModuleType:
    """Load the module `tools/<name>.py`; tools are scripts, in no package."""
    if str(TOOLS) not in sys.path:
        sys.path.append(str(TOOLS))  # as for a script: one tool may import another
    known = sys.modules.get(f"tools_{name}")
    if known is not None:
        return known
    spec = importlib.util.spec_from_file_location(f"tools_{name}", TOOLS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look up their own module
    spec.loader.exec_module(module)
    return module
