"""A SuperLink and SuperNodes as processes on loopback: each known by its pid, waited for, and none left behind."""

import csv
import json
import os
import re
import secrets
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from functools import partial
from pathlib import Path

ROOT = Path(__file__).parents[2]
MARK = "TURNOUT_DEPLOYMENT"  # in the environment of all that a deployment starts, and of what that starts
QUIET = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1", "RAY_USAGE_STATS_ENABLED": "0"}
SPARING = {"OMP_NUM_THREADS": "1", "JAX_PLATFORMS": "cpu", "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.5"}
# The kernel ends a process with the tests, even if those are killed (PR_SET_PDEATHSIG), which a program in between asks
# for: a fork that runs code of ours is not safe beside jax's threads.
END_WITH_PARENT = "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 9); os.execvp(sys.argv[1], sys.argv[1:])"
NGINX_KINDS = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")


def until(what, seconds, found):
    """The first true answer of `found`; fails with what was waited for."""
    end = time.monotonic() + seconds
    while not (answer := found()):
        if time.monotonic() > end:
            raise TimeoutError(f"waited {seconds:.0f} s in vain: {what}")
        time.sleep(0.2)
    return answer


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def participation(folder):
    """Rows of the participation log of a run."""
    with (folder / "participation.csv").open(newline="") as file:
        return list(csv.DictReader(file))


class Deployment:
    """Starts, kills and stops Flower's processes; used as a context, at whose end every one of them is gone.

    `certificates` is a folder with ca.crt, server.crt and server.key; with it the link speaks TLS and lets in only
    SuperNodes whose key is registered. With `simulated` nodes they are not processes, but played by Ray.
    """

    def __init__(self, folder, certificates=None, simulated=0):
        self.folder, self.certificates, self.simulated = Path(folder), certificates, simulated
        self.folder.mkdir(parents=True, exist_ok=True)
        self.mark, self.port = secrets.token_hex(8), free_port()
        self.started, self.runs = {}, []
        bins = str(Path(sys.executable).parent)
        paths = [str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
        self.environment = os.environ | QUIET | SPARING | {MARK: self.mark, "FLWR_HOME": str(self.folder / "flwr")}
        self.environment |= {"PATH": f"{bins}:{os.environ['PATH']}", "PYTHONPATH": ":".join(filter(None, paths))}

    def __enter__(self):
        home = self.folder / "flwr"
        home.mkdir(exist_ok=True)
        trust = f'root-certificates = "{self.certificates}/ca.crt"' if self.certificates else "insecure = true"
        link = f'[superlink]\ndefault = "here"\n\n[superlink.here]\naddress = "127.0.0.1:{self.port}"\n{trust}\n'
        played = f"options.num-supernodes = {self.simulated}\noptions.backend.client-resources.num-cpus = 1\n"
        (home / "config.toml").write_text(link + played * bool(self.simulated))
        return self

    def __exit__(self, kind, error, trace):
        try:
            if kind is not None:
                print(self.tails(), *map(self.server_log, self.runs), sep="\n")
        finally:
            self.stop()

    def start_link(self, *options):
        command = ["flower-superlink", "--host", "127.0.0.1", "--port", str(self.port), *options]
        command += ["--disable-runtime-dependency-installation", *["--simulation"] * bool(self.simulated)]
        if self.certificates:
            for flag, name in (("ca-certfile", "ca.crt"), ("certfile", "server.crt"), ("keyfile", "server.key")):
                command += [f"--ssl-{flag}", str(self.certificates / name)]
            command += ["--enable-supernode-auth"]
        else:
            command += ["--insecure"]
        self._start("link", command)
        until("the SuperLink's health", 120, lambda: self.alive("link") and self._healthy())

    def start_proxy(self, nginx, config):
        """The proxy of a config for nginx, whose ports and paths become those of this deployment; its port."""
        door = free_port()
        places = {"listen 9443": f"listen 127.0.0.1:{door}", "127.0.0.1:8000": f"127.0.0.1:{self.port}"}
        places["/etc/flower"] = str(self.certificates)
        for usual, here in places.items():
            config = config.replace(usual, here)
        temporary = [f"{kind}_temp_path {self.folder}/{kind};" for kind in NGINX_KINDS]
        whole = f"daemon off; pid {self.folder}/nginx.pid; events {{}} http {{ access_log off; {' '.join(temporary)}\n"
        (self.folder / "nginx.conf").write_text(f"{whole}{config}}}\n")
        self._start("proxy", [nginx, "-e", "stderr", "-c", str(self.folder / "nginx.conf")])
        until("the proxy", 20, lambda: self.alive("proxy") and _accepts(door))
        return door

    def start_nodes(self, nodes):
        """Nodes by name, with their configs; waits until the link has taken them in."""
        before = {name: self.log(name).count("SuperNode ID:") for name in nodes}
        for name, config in nodes.items():
            self.start_node(name, **config)
        for name in nodes:
            until(f"node {name} to join", 240, partial(self._joined, name, before[name]))

    def ended(self, name):
        return self.started[name].poll() is not None

    def _joined(self, name, before):
        return self.alive(name) and self.log(name).count("SuperNode ID:") > before

    def start_node(self, name, key=None, door=None, **config):
        """A node with this `client-id`, unless it has a key that tells who it is; does not wait for anything.

        `door` is the port at which it finds the link, if not the link's own.
        """
        told = config if key else {"client-id": name} | config
        command = ["flower-supernode", "--superlink", f"127.0.0.1:{door or self.port}", "--port", str(free_port())]
        command += ["--node-config", " ".join(f'{field}="{value}"' for field, value in told.items())]
        command += ["--root-certificates", str(self.certificates / "ca.crt")] if self.certificates else ["--insecure"]
        command += ["--auth-supernode-private-key", str(key)] if key else []
        self._start(name, command)

    def await_work(self, name, t, seconds=300):
        """Wait until a node has been given its work of a round, and has not yet done it."""
        given = re.compile(rf"ROUND {t}\].*\n.*Receiving: train")
        until(f"node {name} to be asked in round {t}", seconds, lambda: given.search(self.log(name)))

    def restart_until_joined(self, name, seconds=300, **config):
        """Start a node again and again, as a service manager does, until the link takes it in; the number of starts."""
        end, starts, before = time.monotonic() + seconds, 0, self.log(name).count("SuperNode ID:")
        while time.monotonic() < end:
            self.start_node(name, **config)
            starts += 1
            until("a start to come to something", seconds, lambda: self.ended(name) or self._joined(name, before))
            if not self.ended(name):
                return starts
            time.sleep(3)
        raise TimeoutError(f"node {name} did not join in {seconds} s and {starts} starts")

    def kill(self, name, number=signal.SIGKILL):
        """Send a signal to one process alone, as an operator would; its children are Flower's own affair."""
        process = self.started[name]
        process.send_signal(number)
        process.wait(timeout=20)

    def kill_server_app(self):
        """End the ServerApp of the run that is going on."""
        until("a ServerApp", 30, lambda: self.processes("flwr-serverapp"))
        for pid in self.processes("flwr-serverapp"):
            os.kill(pid, signal.SIGKILL)

    def alive(self, name):
        if self.ended(name):
            raise RuntimeError(f"{name} has ended with code {self.started[name].returncode}\n{self.tails()}")
        return True

    def flwr(self, *words, **config):
        """What the command `flwr` prints as JSON."""
        command = ["flwr", *words, "--format", "json", *_run_config(config)]
        found = subprocess.run(command, env=self.environment, cwd=self.folder, capture_output=True, timeout=90)
        said = found.stdout.decode()
        if found.returncode or "{" not in said:
            raise RuntimeError(f"{' '.join(command)} failed: {said}{found.stderr.decode()}")
        return json.loads(said[said.index("{") :])

    def run(self, app, **config):
        """Start a run of the app at this path; its id."""
        self.runs.append(str(self.flwr("run", str(app), "here", **config)["run-id"]))
        return self.runs[-1]

    def start_training(self, app, **config):
        """The same as a service has it, by the script of the quickstart, which ends with the run; the run's id."""
        command = [sys.executable, str(app / "deploy" / "train.py"), str(app), "here", *_run_config(config)]
        self._start("training", command)
        told = re.compile(r"run (\d+) has started")
        said = until("the run to start", 120, lambda: told.search(self.log("training")) or not self.alive("training"))
        self.runs.append(said[1])
        return said[1]

    def status(self, run):
        return self.flwr("list", "here", "--run-id", run)["runs"][0]["status"]

    def server_log(self, run):
        """What the ServerApp of a run has said."""
        command = ["flwr", "log", run, "here", "--show"]
        said = subprocess.run(command, env=self.environment, cwd=self.folder, capture_output=True, timeout=90)
        return f"--- ServerApp of run {run}\n{(said.stdout + said.stderr).decode()[-8000:]}"

    def log(self, name):
        path = self.folder / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def tails(self):
        """The ends of all logs, for whoever has to find out what failed."""
        logs = sorted(self.folder.glob("*.log"))
        return "\n".join(f"--- {path.name}\n{path.read_text(errors='replace')[-4000:]}" for path in logs)

    def processes(self, containing=""):
        """Pids of all that this deployment has started, directly or not, by the mark in their environment."""
        mine, wanted = f"{MARK}={self.mark}".encode(), containing.encode()
        return [pid for pid in _pids() if mine in _read(pid, "environ") and wanted in _read(pid, "cmdline")]

    def stop(self):
        """End everything: politely first, so that nodes take leave, then for good."""
        for process in self.started.values():
            process.poll() is None and process.terminate()
        for process in self.started.values():
            try:
                process.wait(timeout=8)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        until("all processes to end", 20, lambda: not self._end_strays())

    def _end_strays(self):
        pids = self.processes()
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        return pids

    def _start(self, name, command):
        with (self.folder / f"{name}.log").open("ab") as log:
            self.started[name] = subprocess.Popen(
                [sys.executable, "-IS", "-c", END_WITH_PARENT, *command],
                env=self.environment,
                cwd=self.folder,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _healthy(self):
        scheme, context = "http", None
        if self.certificates:
            scheme, context = "https", ssl.create_default_context(cafile=str(self.certificates / "ca.crt"))
        try:
            with urllib.request.urlopen(f"{scheme}://127.0.0.1:{self.port}/health", timeout=2, context=context):
                return True
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return False


def _run_config(config):
    """Settings as options of `flwr run`, which writes them as TOML does."""
    pairs = [f"{field.replace('_', '-')}={json.dumps(value)}" for field, value in config.items()]
    return [word for pair in pairs for word in ("--run-config", pair)]


def _accepts(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _pids():
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _read(pid, what):
    """A file of /proc, empty for a process that has ended or is none of ours."""
    try:
        return Path(f"/proc/{pid}/{what}").read_bytes()
    except OSError:
        return b""
