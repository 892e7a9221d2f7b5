"""GPUs, and what keys, values and weights may be stored in on which of them: `facts/gpus.toml` in nouns. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agentaccel.checks import is_amount
from agentaccel.errors import ConfigError
from agentaccel.facts import table
from agentaccel.selfhost.model_shape import ModelShape

GIB = 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """A GPU, as far as sizes are concerned."""

    name: str
    memory: int
    """Bytes."""
    generation: str | None = None
    """As the facts have it; None for a GPU of which only the memory is known."""
    rates: tuple[float, float] | None = None
    """Operations a second on 16-bit matrices, and bytes a second from its memory; None where not known."""

    def described(self) -> str:
        """Its name, and its generation where that is known."""
        known: Mapping[str, str] = table("gpus")["generations"]
        return self.name if self.generation is None else f"{self.name} ({known[self.generation]})"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredAs:
    """A type that numbers are stored in."""

    name: str
    values: int
    """So many numbers …"""
    bytes: int
    """… take so many bytes."""
    scale: int = 0
    """Bytes beside the keys of one head and token, and as many beside its values."""
    note: str | None = None
    quantised: bool = False
    covers: tuple[str, ...] = ("matrices", "experts")
    """Of weights: the parts that are stored so."""
    rest: int = 2
    """Of weights: bytes of each number in the other parts."""

    def of(self, count: int) -> int:
        """Bytes that `count` numbers take, without scales of heads."""
        return -(-count * self.bytes // self.values)


def gpu_of(name: str) -> Gpu:
    """The GPU of that name, however it is spelt. Raises `ConfigError` for one that no row is of, or several are.

    >>> gpu_of("NVIDIA H100").memory, gpu_of("a100 80gb").described()
    (80000000000, 'A100 80GB (Ampere)')
    """
    rows: Mapping[str, Mapping[str, Any]] = table("gpus")["gpus"]
    plain = re.sub(r"[\s_-]+", "-", name.strip().lower()).removeprefix("nvidia-").removeprefix("amd-")
    found = [plain] if plain in rows else [key for key in rows if plain and key.startswith(f"{plain}-")]
    if len(found) > 1:
        raise ConfigError(f"{name} is sold in several sizes: give --gpu {' or --gpu '.join(found)}")
    if not found:
        raise ConfigError(
            f"--gpu {name!r} is not known; known are {', '.join(rows)}. Give its GiB with --gpu-memory instead"
        )
    return _gpu(rows[found[0]])


def gpus() -> tuple[Gpu, ...]:
    """All that are known."""
    return tuple(map(_gpu, table("gpus")["gpus"].values()))


def _gpu(row: Mapping[str, Any]) -> Gpu:
    rates = (row["tflops"] * 1e12, row["bandwidth"] * 1e9)
    return Gpu(name=row["name"], memory=row["gb"] * 10**9, generation=row["generation"], rates=rates)


def unnamed_gpu(gib: float) -> Gpu:
    """A GPU of which only the memory is known, in GiB."""
    if not is_amount(gib) or not gib or gib > 10**6:
        raise ConfigError(f"--gpu-memory is {gib!r}; give the GiB of one GPU, such as 79.6")
    return Gpu(name=f"GPU of {gib:g} GiB", memory=int(gib * GIB))


def kv_dtypes() -> tuple[str, ...]:
    """What keys and values may be stored in."""
    return tuple(table("gpus")["kv_dtypes"])


def weights_dtypes() -> tuple[str, ...]:
    """What weights may be stored in."""
    return tuple(table("gpus")["weights_dtypes"])


def kv_stored_as(name: str | None, shape: ModelShape, gpu: Gpu) -> StoredAs:
    """How keys and values are stored: as `name` says, else in the type of the model. Raises `ConfigError` where that
    GPU, or that kind of attention, does not have it."""
    if (name := name or shape.dtype) is None:
        raise ConfigError('this config does not say its dtype: give --kv-dtype, or add "dtype": "bfloat16" to a copy')
    row = _row("kv_dtypes", "--kv-dtype", name)
    if gpu.generation is not None and gpu.generation not in row["on"]:
        raise ConfigError(f"{gpu.described()} has no keys and values in {name}: {row['why']}")
    if not row.get("latent", True) and any(layer.latent for layer in shape.layers):
        raise ConfigError(
            f"MLA has no keys and values in {name}: no engine that is known here stores its latent vector so"
        )
    return _stored(name, row)


def weights_stored_as(name: str | None, shape: ModelShape) -> StoredAs:
    """How weights are stored: as `name` says, else as the config does. Raises `ConfigError` where neither is known."""
    facts = table("gpus")
    if name is None and shape.quantised is not None:
        name = facts["quant_methods"].get(shape.quantised)
        if name is None:
            raise ConfigError(
                f"this config is of weights that are quantised by {shape.quantised[:40]!r}: say with --weights-dtype "
                f"what they are stored in, one of {', '.join(weights_dtypes())}"
            )
    if (name := name or shape.dtype) is None:
        raise ConfigError(
            'this config does not say its dtype: add "dtype": "bfloat16" to a copy of it, or give --weights-dtype'
        )
    row = _row("weights_dtypes", "--weights-dtype", name)
    if row["covers"] == ["experts"] and not shape.parameters.experts and not shape.head:
        raise ConfigError(f"{name} is of experts alone, and this model ({shape.model_type}) has none; give another one")
    return _stored(name, row)


def bytes_of_weights(shape: ModelShape, stored: StoredAs) -> int:
    """Bytes of all weights."""
    parts: dict[str, int] = shape.parameters._asdict()
    covered = sum(parts[name] for name in stored.covers)
    return stored.of(covered) + (sum(parts.values()) - covered) * stored.rest


def _row(kind: str, option: str, name: str) -> Mapping[str, Any]:
    rows: Mapping[str, Mapping[str, Any]] = table("gpus")[kind]
    if name not in rows:
        raise ConfigError(f"{option} is {name!r}; give one of {', '.join(rows)}")
    return rows[name]


def _stored(name: str, row: Mapping[str, Any]) -> StoredAs:
    own = {key: row[key] for key in ("values", "bytes", "scale", "note", "quantised", "rest") if key in row}
    return StoredAs(name=name, covers=tuple(row.get("covers", ())), **own)
