"""Settings by the program, before those of the environment (`HCOMM_*`; `hcomm settings` on the command line lists them).

What shapes messages must be the same on all ranks. Before `hcomm.init()` a value is only taken note of, and compared there. Afterwards setting
one is a collective call: all ranks make it, with the same value, or all get `SettingMismatchError`.

>>> import hcomm
>>> hcomm.config.set_chunk_size("8MB")
>>> hcomm.config.chunk_size()
8000000
>>> hcomm.config.set_chunk_size(None)
>>> hcomm.config.precision()
'fp32'
"""

from __future__ import annotations

from . import _native, _state
from .calls import _WIRES, wire_of
from .communicator import Communicator
from .errors import SettingError
from .startup import check_agreement

CHUNK = "HCOMM_TILE_BYTES"


def set_chunk_size(size: str | int | None) -> None:
    """The bytes that move as one message, such as `"8MB"`, `"64KiB"` or 65536; None lets hcomm choose. Rounded down to a multiple of 128; a
    communicator's staging (`HCOMM_BUFFER_SIZE`) bounds it.

    Raises `SettingError` for what is no size.
    """
    text = None if size is None else str(size)
    if text is not None and not text.strip():
        raise SettingError(f"{CHUNK} is '{text}'; expected a size such as 8MB, or None to let hcomm choose")
    set(CHUNK, text)


def chunk_size() -> int:
    """What was set, in bytes; 0 where hcomm chooses."""
    return _native.parse_bytes(_native.check_settings(_state.overrides)[CHUNK])


def set_precision(precision: str) -> None:
    """What float32 data crosses the wires as in calls that reduce: `"fp16"`, `"bf16"` (half the bytes) or `"fp32"`, as it is. Sums are kept in
    float32 within every step and rounded once as they are sent; every rank gets the same bits. fp16 holds values up to 65504 and turns larger ones
    into infinity; bf16 holds the range of float32 with 8 bits of it.

    Raises `SettingError` for another name.
    """
    wire = wire_of(precision)
    with _state.making:
        if _state.default is not None:
            check_agreement(_state.default, "the precision", precision)
        _state.wire = wire


def precision() -> str:
    """What was set."""
    return next(name for name, wire in _WIRES.items() if wire == _state.wire)


def set(name: str, value: str | None) -> None:
    """Sets any setting by the name of its variable, such as `HCOMM_ALGORITHM`; None leaves it to the environment. After `init` another communicator
    takes the place of the default one; handles that were made of it before are closed with it.

    Raises `SettingError` for a name or value that is none; it suggests the right one.
    """
    with _state.making:
        changed = {known: given for known, given in _state.overrides.items() if known != name}
        if value is not None:
            changed[name] = value
        _native.check_settings(changed)
        if _state.default is not None:
            check_agreement(_state.default, name, str(value))
            _remake(_state.default, name, value, changed)
        _state.overrides = changed


def _remake(default: Communicator, name: str, value: str | None, changed: dict[str, str]) -> None:
    """Puts a communicator with the changed setting in the place of the default one."""
    shown = value if value is not None else _native.check_settings(changed)[name]
    made = default._native.split(0, 0, {name: shown})
    assert made is not None, "every rank is in the one group"
    old = default._native
    default._native = _state.adopt(made)
    _state.leave(old)
    old.close()


def describe() -> str:
    """Every setting with its value, its reason and what it may be, as text."""
    return _native.describe_settings(_state.overrides)
