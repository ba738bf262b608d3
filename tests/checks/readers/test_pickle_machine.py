"""Pickles read as data: what they hold, value for value, and that nothing hostile in them is run or runs away."""

import builtins
import io
import os
import pickle
import pickletools
import random
import struct
import tracemalloc
from collections import OrderedDict, defaultdict
from pathlib import Path

import numpy as np
import pytest

from checks.readers.pickle_globals import find
from checks.readers.pickle_machine import PickleMachine
from checks.readers.pickle_values import RefusedPickle, as_json, floats, ids, items, number, numbers, whole

PROTOCOLS = pytest.mark.parametrize("protocol", [2, 3, 4, 5])


def read(content: bytes) -> object:
    return PickleMachine(memoryview(content), find).load()


def plain(value: object) -> object:
    """Arrays of numbers written out, for comparison."""
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [plain(each) for each in items(value) or []]
    return tuple(plain(each) for each in value) if isinstance(value, tuple) else value


@PROTOCOLS
def test_plain_data_is_what_was_written(protocol: int) -> None:
    held = {
        "text": "é漢字🎉",
        "long": "x" * 70_000,
        "numbers": [0, 1, 255, 256, 65535, 65536, -1, 2**31 - 1, -(2**31), 2**31, 2**70, -(2**70)],
        "floats": [0.5, -1e300, 5e-324],
        "mixed": [1, 0.5, True, None, "a"],
        "tuples": [(), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)],
        "nested": {"a": [{"b": [[], {}]}], ("key", 1): None},
        "bytes": b"\x00\xff" * 200,
        "nothing": None,
    }
    assert plain(read(pickle.dumps(held, protocol))) == held


@PROTOCOLS
@pytest.mark.parametrize(
    "values",
    [
        list(range(0, 300_000, 7)),
        [1] * 2501,
        [300] * 1001,
        [-5, 70_000, 3, 65535] * 700,
        [True, False, True] * 400,
        [0, 1, True],
    ],
)
def test_long_lists_of_whole_numbers_keep_every_value(protocol: int, values: list[int]) -> None:
    assert ids(read(pickle.dumps(values, protocol))) == values


@PROTOCOLS
def test_long_lists_of_floats_keep_every_bit(protocol: int) -> None:
    values = [*(np.random.default_rng(1).normal(size=3001) * 1e-3).tolist(), -0.0, 5e-324, float("inf")]
    found = floats(read(pickle.dumps(values, protocol)))
    assert found is not None
    assert struct.pack(f"{len(found)}d", *found) == struct.pack(f"{len(values)}d", *values)


def test_a_list_of_nulls_and_numbers_has_nan_for_null() -> None:
    found = floats(read(pickle.dumps([None, -0.5])))
    assert found is not None
    assert np.isnan(found[0])
    assert found[1] == -0.5


def test_ids_refuse_what_is_no_token_id() -> None:
    for value in ([0.5], [2**31], [float("nan")], ["a"], "abc", None, [2**70]):
        assert ids(read(pickle.dumps(value))) is None
    assert ids(read(pickle.dumps([]))) == []
    assert ids(read(pickle.dumps([3.0]))) == [3]


def test_single_numbers() -> None:
    assert number(True) == 1.0
    assert number(10**400) is None
    assert number("1") is None
    assert whole(3.0) == 3
    assert whole(0.5) is None
    assert whole(float("nan")) is None
    assert numbers("text") is None


@PROTOCOLS
def test_ordered_and_default_dicts_are_dicts(protocol: int) -> None:
    counted = defaultdict(int, {"a": 1})
    assert read(pickle.dumps([OrderedDict(b=2), counted], protocol)) == [{"b": 2}, {"a": 1}]


@PROTOCOLS
def test_numpy_arrays_and_scalars(protocol: int) -> None:
    array = np.arange(6, dtype=np.int16).reshape(2, 3)
    held = {
        "rows": array,
        "columns": np.asfortranarray(array),
        "scalar": np.float32(1.5),
        "swapped": array.astype(">i4"),
    }
    found = read(pickle.dumps(held, protocol))
    assert isinstance(found, dict)
    for name in ("rows", "columns", "swapped"):
        np.testing.assert_array_equal(found[name].array(), array)
    assert found["scalar"] == 1.5


def test_an_array_of_objects_gives_its_objects() -> None:
    found = read(pickle.dumps(np.array(["a", None, 3], dtype=object)))
    assert found.objects() == ["a", None, 3]  # pyright: ignore[reportAttributeAccessIssue]


# Each of these would run something, or make an object of a class that is not known, if it were unpickled.
class Calls:
    """An object whose pickle is a call."""

    def __init__(self, function: object, *arguments: object) -> None:
        self.call = (function, arguments)

    def __reduce__(self) -> object:
        return self.call


HOSTILE = {
    "os.system": (os.system, "touch {mark}"),
    "eval": (builtins.eval, "open({mark!r}, 'w')"),
    "exec": (builtins.exec, "open({mark!r}, 'w')"),
    "open": (builtins.open, "{mark}", "w"),
    "pathlib.Path.touch": (Path.touch, Path("unused")),
    "a class of this test": (Calls, print, "x"),
    "getattr": (getattr, "".join, "__class__"),
    "bytearray": (bytearray, 10**12),
}


@PROTOCOLS
@pytest.mark.parametrize("name", HOSTILE)
def test_nothing_a_pickle_names_is_run(protocol: int, name: str, tmp_path: Path) -> None:
    mark = tmp_path / "run"
    function, *arguments = HOSTILE[name]
    filled = [each.format(mark=str(mark)) if isinstance(each, str) else each for each in arguments]
    content = pickle.dumps({"samples": [Calls(function, *filled)]}, protocol)
    if name == "bytearray":
        assert read(content) == {"samples": [b""]}
    else:
        with pytest.raises(RefusedPickle) as refused:
            read(content)
        assert "\n" not in str(refused.value)
    assert not mark.exists()


def test_a_state_set_on_a_function_is_refused() -> None:
    content = b"\x80\x02c__builtin__\ngetattr\n}X\x01\x00\x00\x00aK\x01sb."
    with pytest.raises(RefusedPickle, match="state is set on a Builder"):
        read(content)


def test_a_function_of_a_known_framework_stays_inert() -> None:
    content = b"\x80\x02cslime.utils.misc\nrun_command\nX\x02\x00\x00\x00ls\x85R."
    assert read(content).arguments == ("ls",)  # pyright: ignore[reportAttributeAccessIssue]


def test_a_module_that_only_begins_like_a_framework_is_refused() -> None:
    with pytest.raises(RefusedPickle, match=r"slimeball\.run"):
        read(b"\x80\x02cslimeball\nrun\n.")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "cut off at byte 0"),
        (b"\x80\x02", "cut off at byte 2"),
        (b"\x80\x02X\xff\xff\xff\x7fabc.", "beyond the end"),
        (b"\x80\x05\x8e\xff\xff\xff\xff\xff\xff\xff\x7f.", "beyond the end"),
        (b"\x80\x05\x96\x00\x00\x00\x00\x00\x00\x00\x40.", "beyond the end"),
        (b"\x80\x02e.", "never opened"),
        (b"\x80\x02h\x05.", "broken at byte"),
        (b"\x80\x02]K\x01}s.", "broken|set on|key"),
        (b"\x80\x02K\x01K\x02R.", "expected a tuple"),
        (b"\x80\x02K\x01)R.", "no known class"),
        (b"\x80\x02I5\n.", "no operation of protocols 2 to 5"),
        (b"\x80\x02p5\n.", "no operation of protocols 2 to 5"),
        (b"\x80\x02(c__builtin__\neval\no.", "builtins.eval"),
        (b"\x80\x02\x82\x01.", "no operation of protocols 2 to 5"),
        (b"\x80\x02X\x01\x00\x00\x00aQ.", "only a torch file has"),
    ],
)
def test_broken_pickles_are_refused_in_one_line(content: bytes, reason: str) -> None:
    with pytest.raises(RefusedPickle, match=reason):
        read(content)


def test_a_claimed_place_in_the_memo_costs_no_memory() -> None:
    content = b"\x80\x02]r\xff\xff\xff\x7f."
    tracemalloc.start()
    assert read(content) == []
    assert tracemalloc.get_traced_memory()[1] < 2**20
    tracemalloc.stop()


def test_deeply_nested_tuples_are_no_key() -> None:
    content = b"\x80\x02})" + b"\x85" * 200_000 + b"K\x01s."
    with pytest.raises(RefusedPickle, match="a key is a tuple of tuple"):
        read(content)


def test_deeply_nested_lists_are_read_and_not_written_out() -> None:
    depth = 100_000
    found = read(b"\x80\x02" + b"]" * depth + b"a" * (depth - 1) + b".")
    with pytest.raises(RefusedPickle, match="levels"):
        as_json(found)


def test_references_that_multiply_are_not_written_out() -> None:
    lists: list[object] = ["lol"] * 10
    for _ in range(12):
        lists = [lists] * 10
    with pytest.raises(RefusedPickle, match="more than"):
        as_json(read(pickle.dumps(lists)))


def test_a_list_that_holds_itself_is_not_written_out() -> None:
    itself: list[object] = []
    itself.append(itself)
    with pytest.raises(RefusedPickle, match="levels"):
        as_json(read(pickle.dumps(itself)))


def test_json_of_messages() -> None:
    messages = [{"role": "user", "content": "hi", "n": [1, 2.5, float("nan"), None, True]}]
    assert as_json(read(pickle.dumps(messages))) == [{"role": "user", "content": "hi", "n": [1, 2.5, None, None, True]}]


def sample_pickle(protocol: int) -> bytes:
    array = np.arange(5)
    held = {"samples": [{"tokens": list(range(50)), "logprobs": [0.5] * 20, "x": (1, "a"), "array": array}] * 2}
    return pickle.dumps(held, protocol)


@PROTOCOLS
def test_a_pickle_cut_anywhere_is_refused_and_nothing_else_happens(protocol: int) -> None:
    content = sample_pickle(protocol)
    for end in range(len(content)):
        with pytest.raises(RefusedPickle):
            read(content[:end])


@PROTOCOLS
def test_changed_bytes_are_read_or_refused_and_nothing_else_happens(protocol: int) -> None:
    content, chance = sample_pickle(protocol), random.Random(protocol)
    outcomes = set()
    for _ in range(3000):
        changed = bytearray(content)
        for _ in range(chance.randint(1, 4)):
            changed[chance.randrange(len(changed))] = chance.randrange(256)
        try:
            read(bytes(changed))
            outcomes.add("read")
        except RefusedPickle as refused:
            outcomes.add("refused" if "\n" not in str(refused) else str(refused))
    assert outcomes == {"read", "refused"}


@PROTOCOLS
def test_random_operations_are_read_or_refused_and_nothing_else_happens(protocol: int) -> None:
    chance = random.Random(protocol)
    codes = [operation.code.encode("latin-1") for operation in pickletools.opcodes]
    for _ in range(2000):
        content = b"\x80\x04" + b"".join(
            chance.choice(codes) + bytes(chance.choices(range(4), k=chance.choice([0, 0, 1, 4]))) for _ in range(30)
        )
        try:
            read(content + b".")
        except RefusedPickle:
            continue


def test_several_pickles_in_a_row() -> None:
    stream = io.BytesIO()
    for held in (1, "two", [3]):
        pickle.dump(held, stream)
    machine = PickleMachine(memoryview(stream.getvalue()), find)
    assert [plain(machine.load()) for _ in range(3)] == [1, "two", [3]]
    assert machine.position == len(stream.getvalue())
