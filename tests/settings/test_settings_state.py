"""The state directory: private, outside of every watched root, and of one process at a time (spec §2)."""

from __future__ import annotations

import os
import select
import shutil
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from sidecar.domain.errors import StateError
from sidecar.settings.state import (
    ENDPOINT_NAME,
    LOCK_NAME,
    Endpoint,
    StateDirectory,
    default_state_dir,
    lock_holder,
    read_endpoint,
    write_private,
)

REPOSITORY = Path(__file__).parents[2]
OTHER_USER = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
as_root = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("setpriv") is None, reason="needs to be root to become another user"
)

HOLD = """
import sys
from pathlib import Path
from sidecar.settings.state import StateDirectory
lock = StateDirectory.open(Path(sys.argv[1]), roots=[], agents=[]).lock()
print("locked", flush=True)
sys.stdin.read()
"""


def opened(path: Path, *roots: Path) -> StateDirectory:
    return StateDirectory.open(path, roots=roots, agents=["main"])


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


@pytest.mark.parametrize("mask", [0o000, 0o077, 0o277])
def test_everything_in_it_is_private_whatever_the_umask(mask: int, tmp_path: Path) -> None:
    if mask == 0o277 and os.geteuid() != 0:
        pytest.skip("only root can write folders that such a mask makes")
    with umask(mask):
        state = opened(tmp_path / "state")
        with state.lock():
            state.write_endpoint(Endpoint(host="127.0.0.1", port=1, pid=2))
            state.agent_directory("main")
    assert mode(state.path) == 0o700
    assert {path.name: mode(path) for path in state.path.iterdir()} == {
        LOCK_NAME: 0o600,
        ENDPOINT_NAME: 0o600,
        "main": 0o700,
    }


def test_an_older_directory_that_is_open_to_others_is_closed(tmp_path: Path) -> None:
    state = opened(tmp_path / "state")
    folder = state.agent_directory("main")
    state.path.chmod(0o755)
    folder.chmod(0o777)
    assert mode(opened(state.path).agent_directory("main")) == 0o700
    assert mode(state.path) == 0o700


@pytest.mark.parametrize("spelling", ["plain", "dots", "linked state", "linked root", "deep"])
def test_a_directory_inside_a_watched_root_is_refused_however_it_is_spelt(
    spelling: str, tmp_path: Path
) -> None:
    root = tmp_path / "ws"
    (root / "memory").mkdir(parents=True)
    (tmp_path / "link").symlink_to(root)
    state, watched = {
        "plain": (root / "state", root),
        "dots": (tmp_path / "elsewhere" / ".." / "ws" / "state", root),
        "linked state": (tmp_path / "link" / "state", root),
        "linked root": (root / "memory" / "state", tmp_path / "link"),
        "deep": (root / "a" / "b" / "c", root),
    }[spelling]
    with pytest.raises(StateError, match=r"is inside .*which is memory"):
        opened(state, watched)
    assert [path.name for path in root.iterdir()] == ["memory"]


def test_a_directory_around_a_watched_root_is_refused_and_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "home" / "ws").mkdir(parents=True)
    (tmp_path / "home").chmod(0o755)
    with pytest.raises(StateError, match="contains"):
        opened(tmp_path / "home", tmp_path / "home" / "ws")
    assert mode(tmp_path / "home") == 0o755


def test_a_name_that_only_starts_like_a_root_is_no_root(tmp_path: Path) -> None:
    (tmp_path / "ws").mkdir()
    assert opened(tmp_path / "ws-state", tmp_path / "ws").path.is_dir()


def test_a_folder_with_files_of_something_else_is_refused_and_untouched(tmp_path: Path) -> None:
    place = tmp_path / "documents"
    place.mkdir(mode=0o755)
    (place / "letter.txt").write_text("x")
    with pytest.raises(StateError, match="holds files of something else"):
        opened(place)
    assert mode(place) == 0o755
    assert [path.name for path in place.iterdir()] == ["letter.txt"]


@pytest.mark.parametrize("left", [LOCK_NAME, "operator.token", "main"])
def test_what_is_left_of_a_deleted_state_is_taken_over(left: str, tmp_path: Path) -> None:
    (tmp_path / "state" / left).mkdir(parents=True)
    (tmp_path / "state" / "lost+found").mkdir()
    assert opened(tmp_path / "state").path == tmp_path / "state"


def test_a_file_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("x")
    with pytest.raises(StateError, match="File exists"):
        opened(tmp_path / "state")


def test_an_agents_folder_that_is_a_link_is_refused(tmp_path: Path) -> None:
    state = opened(tmp_path / "state")
    (tmp_path / "ws").mkdir(mode=0o755)
    (state.path / "main").symlink_to(tmp_path / "ws")
    with pytest.raises(StateError, match="main"):
        state.agent_directory("main")
    assert mode(tmp_path / "ws") == 0o755


def test_a_second_process_is_refused_with_the_first_ones_number_and_let_in_after_kill_9(
    tmp_path: Path,
) -> None:
    state = opened(tmp_path / "state")
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(state.path)],
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as first:
        try:
            assert first.stdout is not None
            assert select.select([first.stdout], [], [], 20)[0]
            assert first.stdout.readline() == "locked\n"
            assert lock_holder(state.path) == first.pid
            with pytest.raises(StateError, match=rf"already in use by process {first.pid}: stop it"):
                state.lock()
        finally:
            first.send_signal(signal.SIGKILL)
    assert lock_holder(state.path) is None
    with state.lock():
        assert lock_holder(state.path) == os.getpid()


def test_looking_at_the_lock_leaves_no_trace(tmp_path: Path) -> None:
    state = opened(tmp_path / "state")
    assert lock_holder(state.path) is None
    assert list(state.path.iterdir()) == []


@pytest.mark.parametrize("depth", [1, 12])
def test_a_socket_can_be_bound_and_reached_under_a_path_of_any_length(depth: int, tmp_path: Path) -> None:
    state = opened(tmp_path.joinpath(*["a-long-name-of-a-folder"] * depth))
    with closing(state.socket_address()) as server_side, closing(state.socket_address()) as client_side:
        assert len(os.fsencode(server_side.path)) <= 107
        with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
            server.bind(str(server_side.path))
            server.listen()
            client.connect(str(client_side.path))
    assert stat.S_ISSOCK((state.path / "sidecar.sock").lstat().st_mode)


def test_the_record_of_the_endpoint_is_whole_or_absent(tmp_path: Path) -> None:
    state = opened(tmp_path / "state")
    assert read_endpoint(state.path) is None
    endpoint = Endpoint(host="127.0.0.1", port=8737, pid=7)
    state.write_endpoint(endpoint)
    assert read_endpoint(state.path) == endpoint
    (state.path / ENDPOINT_NAME).write_bytes(b'{"host": "127')
    assert read_endpoint(state.path) is None
    state.clear_endpoint()
    state.clear_endpoint()
    assert list(state.path.iterdir()) == []


def test_a_private_file_is_replaced_whole_and_an_existing_one_can_win(tmp_path: Path) -> None:
    path = tmp_path / "x"
    assert write_private(path, b"one", replace=False)
    assert not write_private(path, b"two", replace=False)
    assert path.read_bytes() == b"one"
    assert write_private(path, b"three")
    assert path.read_bytes() == b"three"
    assert [entry.name for entry in tmp_path.iterdir()] == ["x"]


def test_the_default_place_is_readable_stable_and_the_same_for_every_spelling(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    (tmp_path / "My Notes").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "My Notes")
    (tmp_path / "other" / "My Notes").mkdir(parents=True)
    place = default_state_dir(tmp_path / "My Notes")
    assert place.parent == tmp_path / "xdg" / "memory-sidecar"
    assert place.name.startswith("My-Notes-")
    assert default_state_dir(tmp_path / "link") == place
    assert default_state_dir(tmp_path / "other" / "My Notes") != place
    assert default_state_dir(tmp_path / "team.toml").name.startswith("team-")


@as_root
def test_a_directory_of_another_user_is_refused(tmp_path: Path) -> None:
    state = opened(tmp_path / "state")
    shutil.chown(state.path, 65534, 65534)
    with pytest.raises(StateError, match="belongs to another user"):
        opened(state.path)


@as_root
def test_a_place_that_may_not_be_written_is_refused_in_words(tmp_path: Path) -> None:
    for folder in (tmp_path, *tmp_path.parents):
        if folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o011)
    code = (
        "import sys\nfrom pathlib import Path\nfrom sidecar.domain.errors import StateError\n"
        "from sidecar.settings.state import StateDirectory\n"
        "try:\n    Path(sys.argv[1], 'probe').mkdir()\nexcept PermissionError:\n    print('refused')\n"
        "try:\n    StateDirectory.open(Path(sys.argv[1], 'state'), roots=[], agents=[])\n"
        "except StateError as error:\n    print(error.message)\n"
    )
    done = subprocess.run(
        [*OTHER_USER, sys.executable, "-c", code, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        cwd=REPOSITORY,
    )
    if done.returncode == 127:
        pytest.skip("another user cannot load this interpreter here")
    assert done.stdout.splitlines() == [
        "refused", f"state directory {tmp_path / 'state'}: Permission denied",
    ], done.stderr  # fmt: skip


def test_the_record_of_another_process_is_not_taken_back(tmp_path: Path) -> None:
    """The folder may have been deleted under a service, and another one have made it anew."""
    state = opened(tmp_path / "state")
    other = Endpoint(host="127.0.0.1", port=1, pid=os.getpid() + 1)
    state.write_endpoint(other)
    state.clear_endpoint()
    assert read_endpoint(state.path) == other
