"""The tree is tidy, and the tool finds a planted breach of each kind."""

import ast
from pathlib import Path

import pytest
from support.tools import ROOT, load_tool

pytestmark = pytest.mark.thorough

tidy = load_tool("tidy")

MODULE = "src/heliostat/state/plan.py"
ALIVE = {"src/heliostat/cli/main.py": "from heliostat.state import plan\n"}
ENTRY = {"pyproject.toml": 'heliostat = "heliostat.cli.main:main"\n'}
LATER, NOQA, WORK = "TO" + "DO", "# no" + "qa", "/wo" + "rk"


def attributes(count: int) -> str:
    return "".join(f"        self.a{number} = 1\n" for number in range(count))


def found(root: Path, files: dict[str, str]) -> list[tuple[str, int, str]]:
    for path, text in {**ALIVE, **ENTRY, **files}.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return [(each.path, each.line, each.rule) for each in tidy.findings(root)]


def test_tree_is_tidy() -> None:
    assert [str(each) for each in tidy.findings(ROOT)] == []


def test_each_class_above_the_limits_is_as_large_as_is_said() -> None:
    """Given the list of classes that are too large / then it holds those alone, and shrinks."""
    sizes: dict[str, list[tuple[int, int]]] = {}
    for source in tidy.read_tree(ROOT):
        if source.module:
            for node in source.nodes:
                if isinstance(node, ast.ClassDef):
                    sizes.setdefault(node.name, []).append(tidy.class_size(node))
    for name, size in tidy.CLASSES_ABOVE.items():
        assert [max(sizes.get(name, [(0, 0)]))] == [size], f"tools/tidy.py: CLASSES_ABOVE[{name!r}]"
        assert size[0] > tidy.CLASS_LINES_MAX or size[1] > tidy.CLASS_ATTRIBUTES_MAX, name


def test_clean_tree_has_no_findings(tmp_path: Path) -> None:
    clean = '"""Plan."""\n\n\ndef plan(source: int) -> int:\n    return source\n'
    assert found(tmp_path, {MODULE: clean, "docs/plan.md": "`src/heliostat` and /var/log\n"}) == []


@pytest.mark.parametrize(
    ("rule", "line", "text"),
    [
        ("long-line", 2, "\nx = 1" + " " * 96 + "\n"),
        ("long-file", 1, "x = 1\n" * 501),
        ("long-function", 2, "\ndef f():\n" + "    x = 1\n" * 70),
        ("long-function", 2, "class A:\n    async def f(self):\n" + "        x = 1\n" * 70),
        ("large-class", 2, "\nclass A:\n" + "    x: int\n" * 250),
        ("large-class", 1, "class A:\n    def f(self):\n" + attributes(16)),
        ("banned-name", 1, "src = 1\n"),
        ("banned-name", 1, "def copy(dst_offset): ...\n"),
        ("banned-name", 2, "class A:\n    remote_end: int\n"),
        ("banned-name", 1, "class RemoteLog: ...\n"),
        ("banned-name", 2, "def f(self):\n    self.src = 1\n"),
        ("banned-name", 1, "import os as dst\n"),
        ("empty-name", 2, "def f(names):\n    for each in names:\n        yield each\n"),
        ("empty-name", 1, "def f(at): ...\n"),
        ("leftover", 2, f"x = 1\n# {LATER}: later\n"),
        ("machine-path", 1, f'x = "{WORK}/main"\n'),
        ("machine-path", 1, 'x = "/ho' + 'me/someone"\n'),
        ("registry-host", 1, "# see https://py" + "pi.org/project/x\n"),
        ("registry-host", 1, 'x = "repo1.mav' + 'en.org"\n'),
        ("silent-suppression", 1, f"x = 1  {NOQA}\n"),
        ("silent-suppression", 1, f"x = 1  {NOQA}: E501, S101\n"),
        ("silent-suppression", 1, "x = 1  # type" + ": ignore[assignment]\n"),
        ("endless-loop", 2, "def f():\n    while True:\n        f()\n"),
        ("endless-loop", 1, "while 1:\n    for x in y:\n        break\n"),
        ("endless-loop", 1, "while True:\n    def f():\n        return\n"),
        ("print", 2, "def f():\n    print('x')\n"),
    ],
)
def test_planted_breach_is_found(tmp_path: Path, rule: str, line: int, text: str) -> None:
    assert found(tmp_path, {MODULE: text}) == [(MODULE, line, rule)]


@pytest.mark.parametrize(
    "text",
    [
        "def f():\n" + "    x = 1\n" * 69,
        "x = 1\n" * 500,
        "class A:\n    def f(self):\n" + attributes(15),
        "class A:\n" + "    x: int\n" * 249,
        "connect(dst=1)\nsocket.remote()\n",
        "class A:\n    known: int\n\n\nconnect(known=1)\n",
        f"x = 1  {NOQA}: E501  # the table reads better whole\n",
        "x = 1  # type" + ": ignore[assignment]  # no stubs\n",
        "while True:  # ends with the process\n    f()\n",
        "while True:\n    if stop:\n        break\n",
        "def f():\n    while True:\n        return\n",
        f'x = f"{{folder}}{WORK}"\ny = "frame{WORK}"\n',
        "def main():\n    print('x')\n\n\nif __name__ == '__main__':\n    main()\n",
    ],
)
def test_allowed_code_gives_no_finding(tmp_path: Path, text: str) -> None:
    assert found(tmp_path, {MODULE: text}) == []


def test_docs_name_both_sides_as_the_code_does(tmp_path: Path) -> None:
    text = "first\nthe `dst_offset` of a batch\n"
    assert found(tmp_path, {MODULE: "", "docs/a.md": text}) == [("docs/a.md", 2, "banned-name")]


@pytest.mark.parametrize("name", ["utils", "common", "helpers", "misc"])
def test_vague_module_is_found(tmp_path: Path, name: str) -> None:
    path = f"tests/support/{name}.py"
    assert found(tmp_path, {MODULE: "", path: ""}) == [(path, 1, "vague-module")]


def test_scripts_are_read_too(tmp_path: Path) -> None:
    script = f"#!/usr/bin/env bash\ncd {WORK}/main\n"
    files = {MODULE: "", "scripts/run": script}
    assert found(tmp_path, files) == [("scripts/run", 2, "machine-path")]


def test_module_that_nothing_imports_is_found(tmp_path: Path) -> None:
    dead = "src/heliostat/topics/dead.py"
    assert found(tmp_path, {MODULE: "", dead: ""}) == [(dead, 1, "dead-module")]


@pytest.mark.parametrize(
    ("user", "text", "alive"),
    [
        ("src/heliostat/link/flow.py", "import heliostat.topics.dead\n", True),
        ("src/heliostat/link/flow.py", 'START = "heliostat.topics.dead:command"\n', True),
        ("src/heliostat/link/flow.py", '"""See heliostat.topics.dead."""\n', False),
        ("scripts/start", "python -m heliostat.topics.dead\n", True),
        ("tests/unit/test_dead.py", "import heliostat.topics.dead\n", False),
        ("docs/dead.md", "`heliostat.topics.dead`\n", False),
        ("src/heliostat/topics/dead.py", "import heliostat.topics.dead\n", False),
    ],
)
def test_who_keeps_a_module_alive(tmp_path: Path, user: str, text: str, alive: bool) -> None:
    dead = "src/heliostat/topics/dead.py"
    flow = {"src/heliostat/state/plan.py": "import heliostat.link.flow\n"}
    files = {**flow, "src/heliostat/link/flow.py": "", dead: "", user: text}
    assert ((dead, 1, "dead-module") in found(tmp_path, files)) is not alive


def test_tests_keep_a_module_of_the_sandbox_alive(tmp_path: Path) -> None:
    files = {
        MODULE: "",
        "sandbox/heliostat_sandbox/load.py": "",
        "tests/kafka/test_load.py": "from heliostat_sandbox import load\n",
    }
    assert found(tmp_path, files) == []


BROKERS, RUN = "tests/kafka/test_copy.py", "pytestmark = [pytest.mark.kafka, pytest.mark.core]\n"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("def test_copy(): ...\n", 1),
        ("pytestmark = pytest.mark.kafka\n\ndef test_copy(): ...\n", 3),
        (RUN.replace("]", ", pytest.mark.thorough]") + "def test_copy(): ...\n", 2),
        (RUN + "@pytest.mark.core\n@pytest.mark.thorough\ndef test_copy(): ...\n", 4),
        (RUN + "def test_copy(): ...\n", 0),
        (RUN + "@pytest.mark.thorough\ndef test_copy(): ...\n", 0),
        ("@pytest.mark.core\ndef test_copy(): ...\n", 0),
    ],
)
def test_a_test_with_brokers_must_be_marked_with_its_run(
    tmp_path: Path, text: str, line: int
) -> None:
    wanted = [(BROKERS, line, "unplaced-test")] if line else []
    assert found(tmp_path, {MODULE: "", BROKERS: text}) == wanted


def test_program_prints_each_finding_with_its_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found(tmp_path, {MODULE: "src = 1\n"})
    assert tidy.main([str(tmp_path)]) == 1
    assert capsys.readouterr().out == f"{MODULE}:1: banned-name: 'src': say source\n"
