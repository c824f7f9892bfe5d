# SPDX-License-Identifier: GPL-3.0-or-later
"""The model file: one format for the weights of every wing, read without unpickling and written whole or not at all.

A model file holds a JSON text (kind, version, and what the wing says about the model: rig, data, configuration, figures) and
named tensors. A file named ``.npz`` is an archive with one array per tensor, any other (``best.npy``) a single NumPy record
with one field per tensor; both are read by their content, whatever they are called.
"""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..core.files import parse_json, read_record, whole_file, write_whole
from ..core.messages import short

FORMAT = "neural_ik model"
VERSION = 2
OLDER_FORMAT = "neural_ik weights"
"""Format of best.npy before kinds existed: version 1, kind ``ik``, all parameters in one vector."""
LARGEST = 1e9  # a number beyond this was damaged, not learned; it would leave float32 within a few products
LONGEST_TEXT = 64 << 20  # [bytes] of the JSON text
_PIECE = 1 << 16  # [bytes] written at once by write_in_pieces
_SYNCED = 1 << 20  # [bytes] after which it waits for the disk: six times 8 ms at most for the largest trainee, measured


@dataclass(frozen=True)
class Model:
    """What a model file holds."""

    kind: str
    """Which wing it belongs to: ``ik``, ``live``, ``gait``, ..."""
    about: dict[str, Any]
    """Plain JSON values: names, configuration, data, figures. No wall times, so that one training gives one file."""
    tensors: Mapping[str, np.ndarray] = field(default_factory=dict)
    """Arrays by name."""
    version: int = VERSION
    """Of the format; 1 for files written before kinds existed."""


def write(path: str | os.PathLike[str], model: Model) -> None:
    """Write a model file, whole or not at all; the same model gives the same bytes.

    Arrays of floats and integers are stored little-endian as they are. Raises ValueError for tensors of other types.
    """
    text = _text(model)
    arrays = {name: _storable(name, array) for name, array in model.tensors.items()}
    buffer = io.BytesIO()
    if Path(path).suffix == ".npz":
        np.savez(buffer, about=np.frombuffer(text, np.uint8), **arrays)  # type: ignore[arg-type]
    else:
        kinds: list[Any] = [("about", f"S{len(text)}"), *((name, a.dtype.str, a.shape) for name, a in arrays.items())]
        record = np.zeros((), dtype=kinds)
        record["about"] = text
        for name, array in arrays.items():
            record[name] = array
        np.save(buffer, record, allow_pickle=False)
    write_whole(path, buffer.getvalue())


@dataclass(frozen=True)
class Rows:
    """An array that is written without a copy of all of it: ``read(begin, end)`` gives its rows when they are needed."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    read: Callable[[int, int], np.ndarray]


def write_in_pieces(
    path: str | os.PathLike[str],
    model: Model,
    rows: Mapping[str, Rows],
    *,
    put: Callable[[Path, Path], object] = os.replace,
) -> Iterator[str]:
    """Write a model file named .npz, a piece each time the next value is asked for; yields the array it is at.

    ``rows`` are further tensors. As with :func:`write`, the file appears whole at the end or not at all, closing the
    generator early included, and ``put`` may choose another name. Nor is the disk waited for long: each ``_SYNCED`` bytes.
    """
    text = np.frombuffer(_text(model), np.uint8)
    arrays = {"about": text, **{name: _storable(name, array) for name, array in model.tensors.items()}}
    whole = {n: Rows(a.shape, a.dtype, lambda b, e, a=a: a[b:e]) for n, a in arrays.items()}  # type: ignore[misc]
    synced = 0
    with whole_file(path, put=put) as file, zipfile.ZipFile(file, "w") as archive:
        for name, array in {**whole, **rows}.items():
            dtype = array.dtype.newbyteorder("<")
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                head = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": array.shape}
                np.lib.format.write_array_header_1_0(member, head)
                size = dtype.itemsize * int(np.prod(array.shape[1:]))
                step = max(1, _PIECE // max(1, size))
                count = array.shape[0]
                for begin in range(0, count, step):
                    piece = array.read(begin, min(count, begin + step))
                    member.write(np.ascontiguousarray(piece, dtype).tobytes())
                    if file.tell() - synced >= _SYNCED:
                        synced = file.tell()
                        file.flush()
                        os.fsync(file.fileno())
                    yield name


def _text(model: Model) -> bytes:
    about = {"format": FORMAT, "version": VERSION, "kind": model.kind, **model.about}
    return json.dumps(about, sort_keys=True).encode()


def _storable(name: str, array: np.ndarray) -> np.ndarray:
    array = np.ascontiguousarray(array)
    if array.dtype.kind not in "fiub":
        raise ValueError(f"{name}: expected an array of numbers, got {array.dtype}")
    return array.astype(array.dtype.newbyteorder("<"), copy=False)


def read(path: str | os.PathLike[str], kind: str, missing: str = "") -> Model:
    """Read a model file of ``kind``; nothing in it is ever unpickled.

    Raises FileNotFoundError (ending with ``missing``: what to do) where there is no file, ValueError with the reason where it
    is damaged or of another kind. Whoever knows which tensors were learned calls :func:`require_learned` for those.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"no weights at {path}{': ' + missing if missing else ''}")
    text, tensors = _fields(path)
    try:
        model = _model_of(text, tensors)
    except (KeyError, TypeError, IndexError, OverflowError, RecursionError, ValueError) as error:
        raise ValueError(f"{path.name}: not a sound weights file: {error}") from None
    if model.kind != kind:
        raise ValueError(f"{path.name}: expected weights of kind {kind!r}, got {model.kind!r}")
    return model


def require_learned(tensors: Mapping[str, np.ndarray]) -> None:
    """ValueError for NaN, infinity or a number too large to have been learned in any of ``tensors``."""
    for name, array in tensors.items():
        limit = min(LARGEST, float(np.finfo(array.dtype).max)) if array.dtype.kind == "f" else LARGEST
        if not (np.abs(array) <= limit).all():
            raise ValueError(
                f"expected finite numbers below {LARGEST:g}, got NaN, infinity or a huge number in {short(name)}"
            )


def kind_of(path: str | os.PathLike[str]) -> str | None:
    """The kind of the model in a file, None where it is no model file or cannot be read."""
    try:
        return _model_of(*_fields(Path(path))).kind
    except Exception:  # whatever is wrong with it: it is no model file
        return None


def _fields(path: Path) -> tuple[bytes, dict[str, np.ndarray]]:
    """The JSON text and the arrays of either container; ValueError in words for anything else."""
    arrays = read_record(path, "weights")
    if "about" not in arrays:
        raise ValueError(f"{path.name}: expected weights saved by Neural IK, got another kind of NumPy file")
    text = arrays.pop("about")
    raw = bytes(text) if text.dtype.kind == "S" else text.tobytes()
    if len(raw) > LONGEST_TEXT:
        raise ValueError(f"{path.name}: expected at most {LONGEST_TEXT} bytes of text, got {len(raw)}")
    return raw, arrays


def _model_of(text: bytes, tensors: dict[str, np.ndarray]) -> Model:
    about = parse_json(text)
    if not isinstance(about, dict):
        raise ValueError(f"expected a JSON object, got {type(about).__name__}")
    for name, array in tensors.items():
        if array.dtype.kind not in "fiub":
            raise ValueError(f"{short(name)}: expected an array of numbers, got {str(array.dtype)[:60]}")
    form, version = about.get("format"), about.get("version")
    if (form, version) == (OLDER_FORMAT, 1):
        kind = "ik"
    elif (form, version) == (FORMAT, VERSION):
        kind = about["kind"]
        if not isinstance(kind, str):
            raise ValueError(f"kind: expected a name, got {kind!r}")
    else:
        raise ValueError(f"expected version {VERSION} of {FORMAT}, got {version!r} of {form!r}")
    return Model(
        kind,
        about,
        {name: np.asarray(array) for name, array in tensors.items()},
        1 if form == OLDER_FORMAT else VERSION,
    )
