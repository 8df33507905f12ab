"""The quickstart with TLS and registered keys, as its page on many machines has it."""

import os
import shutil
import ssl
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

pytest.importorskip("flwr")

from cryptography.hazmat.primitives.serialization import load_ssh_public_key
from deployment import ROOT, Deployment, participation, until
from flwr.supercore.primitives.asymmetric import public_key_to_bytes

from turnout.flower.fleet.directory import name_by_key

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(sys.platform != "linux", reason="finds its processes in /proc"),
    pytest.mark.skipif(not shutil.which("openssl") or not shutil.which("ssh-keygen"), reason="makes keys"),
]

APP = ROOT / "examples" / "flower_quickstart"
ROUNDS = 6
NGINX = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")


def new_key(folder, name):
    """Path of a private key; its public half is beside it."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ecdsa", "-b", "384", "-N", "", "-f", str(folder / name)], check=True)
    return folder / name


def name_of(key):
    """Name of the client that holds a key, as the server must find it."""
    return name_by_key(public_key_to_bytes(load_ssh_public_key(key.with_suffix(".pub").read_bytes())))


def arrivals(folder, key):
    """Rounds in which the update of a key's holder arrived."""
    mine = (name_of(key), "arrived")
    return [int(row["round"]) for row in participation(folder) if (row["client"], row["event"]) == mine]


def test_registered_keys_are_let_in_and_known_again(tmp_path):
    """Node b is killed and comes back with its key; a stranger has a key that nobody has registered."""
    certificates, out = tmp_path / "certificates", tmp_path / "out"
    subprocess.run([str(APP / "deploy" / "certificates.sh"), str(certificates)], check=True)
    keys = {name: new_key(tmp_path, name) for name in ("a", "b", "stranger")}
    configs = {name: {"key": key, "client-id": name} for name, key in keys.items()}
    with Deployment(tmp_path / "fleet", certificates) as fleet:
        fleet.start_link()
        for name in ("a", "b"):
            fleet.flwr("supernode", "register", str(keys[name].with_suffix(".pub")), "here", "--name", name)
        fleet.start_nodes({name: configs[name] for name in ("a", "b")})
        fleet.start_node("stranger", **configs["stranger"])
        run = fleet.run(APP, identity="key", num_rounds=ROUNDS, timeout=60.0, evaluate_every=0, folder=str(out))
        fleet.await_work("b", 2)
        fleet.kill("b")
        assert fleet.restart_until_joined("b", **configs["b"]) >= 1
        until("the model", 240, (out / "model.npz").exists)
        until("the run to be over", 30, lambda: fleet.status(run) == "finished:completed")
        assert fleet.ended("stranger")
        assert "SuperNode ID:" not in fleet.log("stranger")
        with pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
            urllib.request.urlopen(f"https://127.0.0.1:{fleet.port}/health", context=ssl.create_default_context())
    assert {row["client"] for row in participation(out)} - {""} == {name_of(keys["a"]), name_of(keys["b"])}
    assert arrivals(out, keys["a"]) == list(range(ROUNDS))
    there = arrivals(out, keys["b"])
    assert there[0] == 0
    assert 1 not in there
    assert there[-1] > 1


@pytest.mark.skipif(not NGINX, reason="no nginx")
def test_the_proxy_lets_nodes_through_and_nobody_else(tmp_path):
    certificates, out, key = tmp_path / "certificates", tmp_path / "out", new_key(tmp_path, "a")
    subprocess.run([str(APP / "deploy" / "certificates.sh"), str(certificates)], check=True)
    trust = ssl.create_default_context(cafile=str(certificates / "ca.crt"))
    with Deployment(tmp_path / "fleet", certificates) as fleet:
        fleet.start_link()
        door = fleet.start_proxy(NGINX, (APP / "deploy" / "nginx.conf").read_text())
        for path in ("v1/control/list-nodes", "v1/control/start-run", "v1/runtime/acquire-task", "health"):
            with pytest.raises(urllib.error.HTTPError, match="404"):
                urllib.request.urlopen(f"https://127.0.0.1:{door}/{path}", data=b"", context=trust)
        fleet.flwr("supernode", "register", str(key.with_suffix(".pub")), "here", "--name", "a")
        fleet.start_nodes({"a": {"key": key, "client-id": "a", "door": door}})
        fleet.run(APP, identity="key", num_rounds=2, evaluate_every=0, folder=str(out))
        until("the model", 120, (out / "model.npz").exists)
    assert arrivals(out, key) == [0, 1]
