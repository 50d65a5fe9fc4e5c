"""Runs commands of one client, one after another: each line of the input is a command's words.

A process of its own, as the client's packages may be older than ours; one, as loading them takes
seconds.
"""

import contextlib
import importlib
import io
import json
import sys
import traceback


def main() -> None:
    """Answer each command with its exit code and all that it printed."""
    module, _, function = sys.argv[1].partition(":")
    command = getattr(importlib.import_module(module), function)
    options = sys.argv[2:]
    for line in sys.stdin:
        said, code = io.StringIO(), 0
        sys.argv = ["client", *options, *json.loads(line)]
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            try:
                command()
            except SystemExit as ended:
                code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
            except BaseException:  # noqa: BLE001  # it is told, as by a shell
                traceback.print_exc()
                code = 1
        print(json.dumps([code, said.getvalue()]), flush=True)


if __name__ == "__main__":
    main()
