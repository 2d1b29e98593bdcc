"""Enough of the Kubernetes API for the commands, over real HTTP: objects in memory, evictions, streams.

It keeps what it is asked in `log`. A test plays KubeRay, kubelet and the like in hooks.
"""

from __future__ import annotations

import copy
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

import websocket_server as websocket
import yaml

Object = dict[str, Any]


class Kind(NamedTuple):
    api_version: str
    plural: str
    namespaced: bool = True

    @property
    def root(self) -> str:
        return f"/api/{self.api_version}" if "/" not in self.api_version else f"/apis/{self.api_version}"


KINDS = {
    "Pod": Kind("v1", "pods"),
    "Node": Kind("v1", "nodes", namespaced=False),
    "Service": Kind("v1", "services"),
    "Secret": Kind("v1", "secrets"),
    "ConfigMap": Kind("v1", "configmaps"),
    "PodDisruptionBudget": Kind("policy/v1", "poddisruptionbudgets"),
    "RayService": Kind("ray.io/v1", "rayservices"),
}


class Refusal(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class FakeKubernetes:
    """`forbidden`: (verb, plural) that are answered 403. `on_apply`, `on_evict`: called with the object,
    under the lock, and may change it or raise Refusal. `on_exec`: pod and command to what it prints and its
    exit status. `forward_to`: where port-forwards lead.
    """

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], Object] = {}  # by kind and name: one namespace is enough
        self.log: list[str] = []
        self.forbidden: set[tuple[str, str]] = set()
        self.on_apply: Callable[[Object], None] = lambda _: None
        self.on_evict: Callable[[Object], None] = self.delete
        self.on_exec: Callable[[str, list[str]], tuple[str, int]] = lambda pod, command: ("", 0)
        self.forward_to: tuple[str, int] | None = None
        self.lock = threading.RLock()

    def put(self, kind: str, name: str, **fields: Any) -> Object:
        metadata = {"name": name, "generation": 1, **fields.pop("metadata", {})}
        if kind == "Pod":
            fields["spec"] = {"containers": [{"name": "ray"}], **fields.get("spec", {})}
        thing = {"apiVersion": KINDS[kind].api_version, "kind": kind, "metadata": metadata, **fields}
        with self.lock:
            self.objects[kind, name] = thing
        return thing

    def get(self, kind: str, name: str) -> Object:
        with self.lock:
            return self.objects[kind, name]

    def delete(self, thing: Object) -> None:
        del self.objects[thing["kind"], thing["metadata"]["name"]]

    @contextmanager
    def serving(self, folder: Path) -> Iterator[Path]:
        """A kubeconfig that leads here."""
        server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(_kubeconfig(f"http://127.0.0.1:{server.server_port}"))
        try:
            yield kubeconfig
        finally:
            server.shutdown()
            server.server_close()

    # What the API does, by verb.

    def list(self, kind: str, query: dict[str, str]) -> Object:
        items = [thing for (k, _), thing in self.objects.items() if k == kind and _selected(thing, query)]
        return {"apiVersion": KINDS[kind].api_version, "kind": f"{kind}List", "metadata": {}, "items": items}

    def read(self, kind: str, name: str) -> Object:
        if (kind, name) not in self.objects:
            raise Refusal(404, f'{KINDS[kind].plural} "{name}" not found')
        return self.objects[kind, name]

    def patch(self, kind: str, name: str, change: Object) -> Object:
        _merge(self.read(kind, name), change)
        return self.read(kind, name)

    def apply(self, kind: str, name: str, manifest: Object, force: bool) -> Object:
        """Of one manager: what it no longer names goes away. Another one's object has the label `owner`."""
        before = self.objects.get((kind, name))
        if before is not None and before["metadata"].get("labels", {}).get("owner") and not force:
            raise Refusal(409, 'Apply failed with 1 conflict: conflict with "helm": .spec')
        now = copy.deepcopy(manifest)
        now["metadata"]["generation"] = before["metadata"]["generation"] + 1 if before else 1
        if before and "status" in before:
            now["status"] = before["status"]
        self.objects[kind, name] = now
        self.on_apply(now)
        return now

    def evict(self, name: str) -> Object:
        self.on_evict(self.read("Pod", name))
        return {"kind": "Status", "apiVersion": "v1", "status": "Success"}


def _handler(cluster: FakeKubernetes) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer("get")

        def do_PATCH(self) -> None:
            self._answer("patch")

        def do_POST(self) -> None:
            self._answer("create")

        def log_message(self, *_: Any) -> None:
            pass

        def _answer(self, verb: str) -> None:
            url = urlsplit(self.path)
            query = {key: values[-1] for key, values in parse_qs(url.query).items()}
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            try:
                if self.headers.get("Upgrade") == "websocket":
                    self._stream(url.path, parse_qs(url.query))
                    return
                with cluster.lock:
                    content = json.dumps(self._result(verb, url.path, query, body)).encode()
                status = 200
            except Refusal as refusal:
                status = refusal.status
                content = json.dumps({"kind": "Status", "code": status, "message": str(refusal)}).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def _result(self, verb: str, path: str, query: dict[str, str], body: bytes) -> Object:
            if (discovered := _discovery(path)) is not None:
                return discovered
            kind, name, sub = _parse(path)
            verb = "list" if verb == "get" and not name else verb
            what = KINDS[kind].plural + (f"/{sub}" if sub else "")
            cluster.log.append(f"{verb} {what} {name}".strip())
            if (verb, what) in cluster.forbidden:
                raise Refusal(403, f'{what} is forbidden: User "somebody" cannot {verb} resource "{what}"')
            match verb, sub:
                case "list", "":
                    return cluster.list(kind, query)
                case "get", "":
                    return cluster.read(kind, name)
                case "patch", "" if "apply-patch" in self.headers["Content-Type"]:
                    force = query.get("force", "").lower() == "true"
                    return cluster.apply(kind, name, yaml.safe_load(body), force)
                case "patch", "":
                    return cluster.patch(kind, name, json.loads(body))
                case "create", "eviction":
                    return cluster.evict(name)
            raise Refusal(405, f"{verb} {what}")

        def _stream(self, path: str, query: dict[str, list[str]]) -> None:
            self.close_connection = True
            _, pod, sub = _parse(path)
            cluster.log.append(f"create pods/{sub} {pod}")
            if ("create", f"pods/{sub}") in cluster.forbidden:
                raise Refusal(403, f'pods/{sub} is forbidden: User "somebody" cannot create it')
            websocket.accept(self)
            if sub == "exec":
                self._exec(pod, query["command"])
            else:
                self._forward(int(query["ports"][0]))

        def _exec(self, pod: str, command: list[str]) -> None:
            printed, code = cluster.on_exec(pod, command)
            status: Object = {"status": "Success"}
            if code:
                causes = [{"reason": "ExitCode", "message": str(code)}]
                status = {"status": "Failure", "reason": "NonZeroExitCode", "details": {"causes": causes}}
            if printed:
                websocket.send(self, b"\x01" + printed.encode())
            websocket.send(self, b"\x03" + json.dumps(status).encode())
            websocket.send(self, b"", websocket.CLOSE)

        def _forward(self, port: int) -> None:
            assert cluster.forward_to is not None
            for channel in (b"\x00", b"\x01"):
                websocket.send(self, channel + port.to_bytes(2, "little"))
            with socket.create_connection(cluster.forward_to) as pod:
                threading.Thread(target=self._from_pod, args=(pod,), daemon=True).start()
                while (frame := websocket.receive(self)).opcode == websocket.BINARY:
                    pod.sendall(frame.payload[1:])

        def _from_pod(self, pod: socket.socket) -> None:
            try:
                while data := pod.recv(8192):
                    websocket.send(self, b"\x00" + data)
            except (OSError, ValueError):  # of a file that is closed
                pass  # the client has gone

    return Handler


def _discovery(path: str) -> Object | None:
    groups = {kind.api_version for kind in KINDS.values() if "/" in kind.api_version}
    if path == "/version":
        return {"major": "1", "minor": "33", "gitVersion": "v1.33.0"}
    if path in ("/api", "/api/"):
        return {"kind": "APIVersions", "versions": ["v1"]}
    if path in ("/apis", "/apis/"):
        versions = [{"groupVersion": g, "version": g.partition("/")[2]} for g in sorted(groups)]
        return {
            "kind": "APIGroupList",
            "groups": [
                {"name": v["groupVersion"].partition("/")[0], "versions": [v], "preferredVersion": v}
                for v in versions
            ],
        }
    found = {name: kind for name, kind in KINDS.items() if kind.root == path.rstrip("/")}
    if not found:
        return None
    resources = [
        {
            "name": kind.plural,
            "singularName": "",
            "namespaced": kind.namespaced,
            "kind": name,
            "verbs": ["get", "patch"],
        }
        for name, kind in found.items()
    ]
    return {"kind": "APIResourceList", "groupVersion": path, "resources": resources}


def _parse(path: str) -> tuple[str, str, str]:
    """Kind, name and subresource; the latter two may be empty."""
    for name, kind in KINDS.items():
        if path.startswith(kind.root + "/"):
            rest = path.removeprefix(kind.root + "/").split("/")
            if kind.namespaced:
                rest = rest[2:] if rest[0] == "namespaces" else rest
            if rest and rest[0] == kind.plural:
                rest += ["", ""]
                return name, rest[1], rest[2]
    raise Refusal(404, f"the server could not find {path}")


def _selected(thing: Object, query: dict[str, str]) -> bool:
    labels = thing["metadata"].get("labels", {})
    for term in filter(None, _terms(query.get("labelSelector", ""))):
        key, among, values = term.partition(" in ")
        if not among:
            key, _, values = term.partition("=")
        if labels.get(key) not in values.strip("()=").split(","):
            return False
    field, _, value = query.get("fieldSelector", "").partition("=")
    return not field or thing.get("spec", {}).get(field.removeprefix("spec.")) == value


def _terms(selector: str) -> list[str]:
    """Split at commas outside brackets."""
    terms, depth = [""], 0
    for character in selector:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "," and not depth:
            terms.append("")
        else:
            terms[-1] += character
    return terms


def _merge(thing: Object, change: Object) -> None:
    for key, value in change.items():
        if isinstance(value, dict):
            _merge(thing.setdefault(key, {}), value)
        else:
            thing[key] = value


def _kubeconfig(server: str) -> str:
    context = {"cluster": "fake", "user": "somebody", "namespace": "canopy"}
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "fake",
            "clusters": [{"name": "fake", "cluster": {"server": server}}],
            "users": [{"name": "somebody", "user": {"token": "secret"}}],
            "contexts": [{"name": "fake", "context": context}],
        }
    )
