"""Checks the house rules: reads the tree and prints every breach as `file:line: rule: what`.

Run it as `python tools/tidy.py [folder]`. It checks what ruff and import-linter can't. Each rule is
one function from a source file to its findings.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from typing_extensions import override

FUNCTION_LINES_MAX = 70  # what fits on a screen
CLASS_LINES_MAX, CLASS_ATTRIBUTES_MAX = 250, 15  # what one has in mind at once
FILE_LINES_MAX = 500  # what is read in one sitting
LINE_COLUMNS_MAX = 100  # two files beside each other
REASON_CHARS_MIN = 4  # shorter is no reason
FILE_BYTES_MAX = 2 << 20  # larger files are data, not text that someone wrote

SCANNED_FOLDERS = (".ci", "bench", "docs", "sandbox", "scripts", "src", "tests", "tools")
SCANNED_SUFFIXES = ("", ".py", ".md", ".toml", ".yaml", ".yml", ".lock", ".txt", ".json", ".sh")
BANNED_MODULES = frozenset({"utils", "util", "common", "helpers", "helper", "misc"})
BANNED_WORDS = {"src": "say source", "dst": "say target", "remote": "say source or target"}
EMPTY_NAMES = frozenset({"found", "told", "heard", "known", "seen", "each", "one", "at"})
"""Variables and parameters must say what they are; these are participles and pronouns."""
EMPTY_NAMES_LEFT = frozenset(
    f"src/heliostat/{folder}"
    for folder in (
        *("gaps", "groups", "link", "merge", "operate", "rebuild", "rescue", "verify"),
        *("records/copier", "records/spark", "records/transport"),
    )
)
"""Folders that still have such names: none may be added."""


def _one_of(*words: tuple[str, ...]) -> str:
    """Join words written in pieces, so that this file has no finding itself."""
    return "(?:" + "|".join(re.escape("".join(word)) for word in words) + ")"


LEFTOVER = re.compile(
    r"\b" + _one_of(("TO", "DO"), ("FIX", "ME"), ("X", "XX"), ("HA", "CK")) + r"\b"
)
MACHINE_PATH = re.compile(
    r"(?<![\w.}\])*$~-])/(?:" + _one_of(("wo", "rk"), ("ro", "ot")) + r"\b(?!-)|ho" + r"me/\w)"
)
REGISTRY_HOST = re.compile(
    _one_of(
        ("pypi", ".org"),
        ("pythonhosted", ".org"),
        ("repo1.", "maven.org"),
        ("repo.", "maven.apache.org"),
        ("registry.", "npmjs.org"),
        ("crates", ".io"),
        ("proxy.", "golang.org"),
    )
)
SUPPRESSION = re.compile(
    r"#\s*(?:noqa\b(?::\s*[A-Z]+[0-9]+(?:[,\s]+[A-Z]+[0-9]+)*)?|type:\s*ignore(?:\[[^\]]*\])?)"
)
IDENTIFIER_IN_DOCS = re.compile(r"\b(?:(?:src|dst)_\w+|\w+_(?:src|dst)|dst)\b")
DOTTED_MODULE = re.compile(r"\bheliostat(?:_sandbox)?(?:\.\w+)+")
WORD_IN_NAME = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+")

CLASSES_ABOVE: dict[str, tuple[int, int]] = {
    "PartitionCopy": (412, 17),
}
"""Classes above the limits, with their lines and attributes: they may only become smaller."""

Breach = tuple[int, str]
"""Line and message."""


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """One breach of one rule."""

    path: str
    line: int
    rule: str
    what: str

    @override
    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule}: {self.what}"


@dataclass(frozen=True)
class Source:
    """One file: its path from the root, its text, and for Python its tree and comments."""

    path: str
    text: str

    @cached_property
    def lines(self) -> list[str]:
        """The text by lines, without their ends."""
        return self.text.splitlines()

    @cached_property
    def is_python(self) -> bool:
        """Whether it is Python, by its suffix or its first line."""
        return self.path.endswith(".py") or (
            self.text.startswith("#!") and "python" in self.lines[0]
        )

    @property
    def is_code(self) -> bool:
        """Whether it is Python or shell, where lines and files have limits."""
        return self.is_python or self.text.startswith("#!")

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree; empty where the file is no Python."""
        return ast.parse(self.text if self.is_python else "", self.path)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """All nodes but contexts such as `ast.Load`; takes half of the time of `ast.walk`."""
        found: list[ast.AST] = [self.tree]
        for node in found:
            for name in node._fields:
                value = getattr(node, name, None)
                if isinstance(value, list):
                    found += [each for each in value if isinstance(each, ast.AST)]
                elif isinstance(value, ast.AST) and not isinstance(value, ast.expr_context):
                    found.append(value)
        return found

    @cached_property
    def comments(self) -> dict[int, str]:
        """Comment by line."""
        if not self.is_python:
            return {}
        tokens = tokenize.generate_tokens(io.StringIO(self.text).readline)
        return {token.start[0]: token.string for token in tokens if token.type == tokenize.COMMENT}

    @cached_property
    def module(self) -> str:
        """Dotted name of a module of the product or the sandbox, else the empty string."""
        if not (self.within("src", "sandbox") and self.path.endswith(".py")):
            return ""
        return self.path.partition("/")[2].removesuffix(".py").replace("/", ".")

    def within(self, *folders: str) -> bool:
        """Return whether the file is in one of these folders."""
        return self.path.startswith(tuple(f"{folder}/" for folder in folders))


def long_lines(source: Source) -> Iterator[Breach]:
    """Code lines of more than 100 columns."""
    if source.is_code:
        for number, line in enumerate(source.lines, 1):
            if len(line) > LINE_COLUMNS_MAX:
                yield number, f"{len(line)} columns, at most {LINE_COLUMNS_MAX}"


def long_files(source: Source) -> Iterator[Breach]:
    """Code files of more than 500 lines."""
    if source.is_code and len(source.lines) > FILE_LINES_MAX:
        yield 1, f"{len(source.lines)} lines, at most {FILE_LINES_MAX}"


def long_functions(source: Source) -> Iterator[Breach]:
    """Functions of more than 70 lines, their docstring included."""
    for node in source.nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > FUNCTION_LINES_MAX:
                yield node.lineno, f"{node.name} has {length} lines, at most {FUNCTION_LINES_MAX}"


def large_classes(source: Source) -> Iterator[Breach]:
    """Classes of the product with more than 250 lines, or more than 15 attributes set on `self`."""
    if not source.module:
        return
    for node in source.nodes:
        if isinstance(node, ast.ClassDef):
            lines, attributes = class_size(node)
            lines_max, attributes_max = CLASSES_ABOVE.get(node.name, (0, 0))
            lines_max = max(lines_max, CLASS_LINES_MAX)
            attributes_max = max(attributes_max, CLASS_ATTRIBUTES_MAX)
            if lines > lines_max or attributes > attributes_max:
                size = f"{lines} lines and {attributes} attributes"
                yield node.lineno, f"{node.name} has {size}, at most {lines_max}, {attributes_max}"


def class_size(node: ast.ClassDef) -> tuple[int, int]:
    """Lines of a class, and how many attributes its methods set on `self`."""
    attributes = {
        each.attr
        for each in ast.walk(node)
        if isinstance(each, ast.Attribute)
        and isinstance(each.ctx, ast.Store)
        and isinstance(each.value, ast.Name)
        and each.value.id == "self"
    }
    return (node.end_lineno or node.lineno) - node.lineno + 1, len(attributes)


def vague_modules(source: Source) -> Iterator[Breach]:
    """Files and folders whose name says nothing about their contents."""
    for part in Path(source.path).with_suffix("").parts:
        if part in BANNED_MODULES:
            yield 1, f"{part!r} says nothing; name it for what is inside"


def banned_names(source: Source) -> Iterator[Breach]:
    """Names with src, dst or remote that we define; names of other libraries are allowed."""
    if source.path.endswith(".md"):
        for number, line in enumerate(source.lines, 1):
            for match in IDENTIFIER_IN_DOCS.finditer(line):
                yield number, f"{match[0]!r}: say source, target"
    for node in source.nodes:
        for name, line_number in _names_defined(node):
            for word in WORD_IN_NAME.findall(name):
                if word.lower() in BANNED_WORDS:
                    yield line_number, f"{name!r}: {BANNED_WORDS[word.lower()]}"


def _names_defined(node: ast.AST) -> Iterator[tuple[str, int]]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            yield node.name, node.lineno
        case ast.arg():
            yield node.arg, node.lineno
        case ast.Name(ctx=ast.Store()):
            yield node.id, node.lineno
        case ast.Attribute(ctx=ast.Store()):
            yield node.attr, node.lineno
        case ast.alias(asname=str()):
            yield node.asname or "", node.lineno
        case _:
            pass


def empty_names(source: Source) -> Iterator[Breach]:
    """Variables and parameters of the product that say nothing; fields of classes may."""
    if not source.within("src/heliostat") or source.within(*EMPTY_NAMES_LEFT):
        return
    fields = {
        id(line.target)
        for node in source.nodes
        if isinstance(node, ast.ClassDef)
        for line in node.body
        if isinstance(line, ast.AnnAssign)
    }
    for node in source.nodes:
        if isinstance(node, ast.arg | ast.Name) and id(node) not in fields:
            for name, line_number in _names_defined(node):
                if name in EMPTY_NAMES:
                    yield line_number, f"{name!r}: say what it is"


def leftovers(source: Source) -> Iterator[Breach]:
    """Notes to self."""
    yield from _matches(source, LEFTOVER, "do it, or open an issue")


def machine_paths(source: Source) -> Iterator[Breach]:
    """Paths that exist on one machine only."""
    yield from _matches(source, MACHINE_PATH, "a path of one machine")


def registry_hosts(source: Source) -> Iterator[Breach]:
    """Hosts of package registries: each user's tools have their own."""
    yield from _matches(source, REGISTRY_HOST, "a package registry's host; leave it to the tools")


def _matches(source: Source, pattern: re.Pattern[str], why: str) -> Iterator[Breach]:
    for number, line in enumerate(source.lines, 1):
        for match in pattern.finditer(line):
            yield number, f"{match[0]!r}: {why}"


def silent_suppressions(source: Source) -> Iterator[Breach]:
    """A switched-off check without its reason on the line."""
    if SUPPRESSION.search(source.text) is None:
        return  # tokenizing a file takes as long as all other rules
    for number, comment in source.comments.items():
        match = SUPPRESSION.search(comment)
        if match is None:
            continue
        rest = SUPPRESSION.sub("", comment).strip(" #:,-")
        if len(rest) < REASON_CHARS_MIN:
            yield number, f"{match[0]!r} gives no reason"


def endless_loops(source: Source) -> Iterator[Breach]:
    """`while True` in the product with neither an exit nor a comment why."""
    if not source.within("src", "sandbox"):
        return
    for node in source.nodes:
        if isinstance(node, ast.While) and isinstance(node.test, ast.Constant) and node.test.value:
            near = range(node.lineno - 1, node.body[0].lineno + 1)
            if any(_leaves_loop(child) for child in node.body):
                continue
            if not any(line in source.comments for line in near):
                yield node.lineno, "no way out and no comment: what ends this loop?"


def _leaves_loop(node: ast.AST, *, inner: bool = False) -> bool:
    if isinstance(node, ast.Return | ast.Raise):
        return True
    if isinstance(node, ast.Break):
        return not inner
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
        return False
    inner = inner or isinstance(node, ast.For | ast.AsyncFor | ast.While)
    return any(_leaves_loop(child, inner=inner) for child in ast.iter_child_nodes(node))


def prints(source: Source) -> Iterator[Breach]:
    """`print` in the product; only the command line and `python -m` programs talk to people."""
    if not source.within("src") or source.within("src/heliostat/cli") or _is_program(source):
        return
    for node in source.nodes:
        callee = node.func if isinstance(node, ast.Call) else None
        if isinstance(callee, ast.Name) and callee.id == "print":
            yield callee.lineno, "only cli/ and programs print; raise, return or report it"


def _is_program(source: Source) -> bool:
    tests = (node.test for node in source.tree.body if isinstance(node, ast.If))
    return any(ast.unparse(test) == "__name__ == '__main__'" for test in tests)


TIERS = frozenset({"core", "thorough", "long"})
"""Marks that say in which tier a test is, see `tests/support/runs.py`."""


def unplaced_tests(source: Source) -> Iterator[Breach]:
    """Tests with real brokers, peers or Spark without exactly one mark of their run."""
    if not source.within("tests/kafka", "tests/peer", "tests/spark"):
        return
    of_module = [
        mark
        for node in source.tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"
        for mark in _tiers_named(node.value)
    ]
    for node in source.tree.body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            own = [mark for each in node.decorator_list for mark in _tiers_named(each)]
            if len(own or of_module) != 1:
                yield (
                    node.lineno,
                    f"{node.name} is in {own or of_module}: mark it core, thorough or long",
                )


def _tiers_named(node: ast.AST) -> list[str]:
    return [
        each.attr
        for each in ast.walk(node)
        if isinstance(each, ast.Attribute)
        and each.attr in TIERS
        and ast.unparse(each.value) == "pytest.mark"
    ]


RULES: dict[str, Callable[[Source], Iterator[Breach]]] = {
    "long-line": long_lines,
    "long-file": long_files,
    "long-function": long_functions,
    "large-class": large_classes,
    "vague-module": vague_modules,
    "banned-name": banned_names,
    "empty-name": empty_names,
    "leftover": leftovers,
    "machine-path": machine_paths,
    "registry-host": registry_hosts,
    "silent-suppression": silent_suppressions,
    "endless-loop": endless_loops,
    "print": prints,
    "unplaced-test": unplaced_tests,
}


def dead_modules(sources: Sequence[Source]) -> Iterator[Finding]:
    """Modules that nothing of the product, the benchmark, the tools or the scripts imports.

    A test alone keeps no module alive, except in the sandbox, which exists for tests.
    """
    used_anywhere, used_by_product = set[str](), set[str]()
    for source in sources:
        names = _modules_named(source)
        used_anywhere |= names
        if not source.within("tests", "docs"):
            used_by_product |= names
    for source in sources:
        if not source.module or source.module.endswith(".__init__"):
            continue
        used = used_anywhere if source.within("sandbox/heliostat_sandbox") else used_by_product
        if source.module not in used:
            yield Finding(source.path, 1, "dead-module", "imported by nothing, no entry point")


def _modules_named(source: Source) -> set[str]:
    if not source.is_python:
        prose = source.path.endswith((".md", ".txt"))
        return set() if prose else set(DOTTED_MODULE.findall(source.text))
    named = set[str]()
    docstrings = {id(node.value) for node in source.nodes if isinstance(node, ast.Expr)}
    for node in source.nodes:
        match node:
            case ast.ImportFrom(module=str()):
                named.add(node.module or "")
                named.update(f"{node.module}.{alias.name}" for alias in node.names)
            case ast.Import():
                named.update(alias.name for alias in node.names)
            case ast.Constant(value=str()) if id(node) not in docstrings:
                named.update(DOTTED_MODULE.findall(str(node.value)))
            case _:
                pass
    return named - {source.module}


def read_tree(root: Path) -> list[Source]:
    """Return every text file of ours, by its path from the root."""
    files = [file for file in root.iterdir() if file.suffix in SCANNED_SUFFIXES[1:]]
    for folder in SCANNED_FOLDERS:
        files += (root / folder).rglob("*")
    sources = []
    for file in sorted(files):
        path = file.relative_to(root)
        hidden = any(part.startswith((".", "__pycache__")) for part in path.parts[1:])
        wanted = file.suffix in SCANNED_SUFFIXES and file.is_file() and not hidden
        if wanted and file.stat().st_size <= FILE_BYTES_MAX:
            sources.append(Source(path.as_posix(), file.read_text(encoding="utf-8")))
    return sources


def findings(root: Path) -> list[Finding]:
    """Return all breaches below `root`, in the order of files and lines."""
    sources = read_tree(root)
    found = [
        Finding(source.path, line, rule, what)
        for source in sources
        for rule, breaches in RULES.items()
        for line, what in breaches(source)
    ]
    return sorted([*found, *dead_modules(sources)])


def main(arguments: Sequence[str]) -> int:
    """Print the findings; 1 if there are any."""
    root = Path(arguments[0]) if arguments else Path(__file__).resolve().parent.parent
    found = findings(root)
    for finding in found:
        print(finding)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
