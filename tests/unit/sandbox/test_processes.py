"""A process of ours ends with its owner, is released on demand, and never confused."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from support.clusters import until

from heliostat_sandbox import ports as ports_module
from heliostat_sandbox.ports import free_ports, is_free
from heliostat_sandbox.process import OwnProcess, ProcessId

OWNER = """
import sys, threading
from pathlib import Path
from heliostat_sandbox.process import OwnProcess
made = []
def start():
    output, folder = Path(sys.argv[1]), Path(sys.argv[3])
    made.append(
        OwnProcess.start(["sleep", "300"], output=output, folder=folder, dies_with_owner=True)
    )
thread = threading.Thread(target=start)  # one that ends before its process
thread.start()
thread.join()
if sys.argv[2] == "let go":
    made[0].let_go()
print(made[0].pid, made[0].identity.started_at_s, flush=True)
sys.stdin.read()
"""


def started(tmp_path: Path, *, dies_with_owner: bool = True) -> OwnProcess:
    return OwnProcess.start(
        ["sleep", "300"],
        output=tmp_path / "out",
        folder=tmp_path,
        dies_with_owner=dies_with_owner,
    )


@pytest.mark.parametrize("word", ["keep", "let go"])
def test_it_dies_with_its_owner_unless_released(tmp_path, word):
    folder = tmp_path / "cluster" / "broker"
    folder.mkdir(parents=True)
    (folder / "data").write_text("x")
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path / "out"), word, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    pid, started_at_s = owner.stdout.readline().split()
    process = ProcessId(int(pid), float(started_at_s))
    try:
        assert process.find() is not None
        owner.kill()
        owner.wait()
        if word == "keep":
            until(lambda: process.find() is None, "the process to end with its owner", 10)
            until(lambda: not folder.parent.exists(), "its folder to be deleted", 10)
        else:
            with pytest.raises(psutil.TimeoutExpired):
                psutil.Process(process.pid).wait(0.3)
            assert (folder / "data").exists()
    finally:
        owner.stdin.close()
        owner.stdout.close()
        if process.find() is not None:
            os.kill(process.pid, signal.SIGKILL)


def test_another_process_with_the_same_pid_is_not_ours(tmp_path):
    process = started(tmp_path)
    try:
        identity = process.identity
        assert identity.find() is not None
        stranger = OwnProcess(ProcessId(identity.pid, identity.started_at_s - 100))
        assert not stranger.is_alive()
        stranger.signal(signal.SIGKILL)
        assert process.is_alive()
    finally:
        process.signal(signal.SIGKILL)
        assert process.wait(10)
    assert identity.find() is None


def test_a_guard_ends_with_its_process(tmp_path):
    before = set(psutil.Process().children())
    process = started(tmp_path)
    assert len(set(psutil.Process().children()) - before) == 2
    process.signal(signal.SIGKILL)
    assert process.wait(10)
    assert set(psutil.Process().children()) == before


def test_a_paused_process_is_alive_and_can_be_killed(tmp_path):
    process = started(tmp_path)
    process.signal(signal.SIGSTOP)
    assert process.is_alive()
    assert not process.wait(0)
    process.signal(signal.SIGKILL)
    assert process.wait(10)


def test_free_ports_are_free_different_and_not_ephemeral():
    ports = free_ports(20)
    assert len(set(ports)) == 20
    assert all(is_free(port) for port in ports)
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert max(ports) < first


HOLDER = """
import sys
from heliostat_sandbox import ports
ports._first_ephemeral = lambda: int(sys.argv[1])
print(*ports.free_ports(20), flush=True)
sys.stdin.read()
"""


def test_a_port_is_handed_out_once(monkeypatch):
    last = ports_module.FIRST_PORT + 80  # few enough that two draws would meet
    monkeypatch.setattr(ports_module, "_first_ephemeral", lambda: last)
    first = free_ports(20)
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(last)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with holder:
        assert holder.stdout is not None
        others = [int(word) for word in holder.stdout.readline().split()]
        again = free_ports(20)
        holder.kill()
    given = [*first, *others, *again]
    assert len(given) == len(set(given)) == 60
