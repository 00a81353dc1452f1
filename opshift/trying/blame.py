"""What the words of a backend name: the operators of a model, by themselves or by their nodes and values."""

from __future__ import annotations

import re

from opshift.passes.model.messages import ModelProto, normalize_domain
from opshift.passes.model.traversal import bodies

_WORD = re.compile(r"[^\s'\"`,;()\[\]{}=]+")
_QUOTED = re.compile(r"'([^']+)'|\"([^\"]+)\"|`([^`]+)`|\(([^()]+)\)")
_LEAST = 3  # letters of a name that is not quoted: shorter ones are words of any sentence


def find_blamed(words: str, model: ModelProto) -> tuple[str, ...]:
    """The operators that the words name, `domain::Name`, that of the first node that is named before all others."""
    nodes: dict[str, str] = {}
    values: dict[str, str] = {}
    operators: set[str] = set()
    for body in bodies(model):
        for node in body.node:
            domain = normalize_domain(node.domain)
            op = f"{domain}::{node.op_type}" if domain else node.op_type
            operators.add(op)
            if node.name:
                nodes.setdefault(node.name, op)
            for name in filter(None, node.output):
                values.setdefault(name, op)
    held = [_own(next(filter(None, groups))) for groups in _QUOTED.findall(words)]
    plain = [_own(word.strip(".:!?<>")) for word in _WORD.findall(words)]
    found = [nodes[name] for name in held if name in nodes]
    found += [values[name] for name in held if name in values]
    found += [nodes[name] for name in plain if name in nodes and len(name) >= _LEAST]
    bare = {op.rpartition("::")[2]: op for op in operators}
    found += [bare[name.rpartition("::")[2].partition("@")[0]] for name in (*held, *plain) if _operator(name, bare)]
    return tuple(dict.fromkeys(found))


def _own(name: str) -> str:
    """A name without what OpenCV's importer puts before it: `onnx_node!conv`."""
    return name.rpartition("!")[2]


def _operator(word: str, bare: dict[str, str]) -> bool:
    return word.rpartition("::")[2].partition("@")[0] in bare
