"""Looking up kernels: once for arguments of a kind, and never the wrong one."""

from types import SimpleNamespace

import pytest

from interpreted import needs_triton

pytestmark = needs_triton


class Kernel:
    """What launching asks of a kernel: names, which of them are constants, and to be compiled."""

    arg_names = ("tensor", "count", "scale", "BLOCK")

    def __init__(self):
        self.params = [SimpleNamespace(is_constexpr=name.isupper()) for name in self.arg_names]
        self.compiled, self.launched = 0, []

    def warmup(self, *args, grid, **named):
        self.compiled += 1
        number = self.compiled
        return {(2, 1, 1): lambda *values: self.launched.append((number, values))}


@pytest.fixture
def launching(monkeypatch):
    import torch

    from wolfmeans.engines.gpu import launching

    monkeypatch.setattr(launching, "JITFunction", Kernel)
    monkeypatch.setattr(launching, "_compiled", {})
    monkeypatch.setattr(launching, "_sequences", {})
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    return launching


def tensor(dtype="float32", offset=0):
    import torch

    return torch.zeros(64, dtype=getattr(torch, dtype))[offset:]


def test_a_kernel_is_compiled_once_for_arguments_of_a_kind(launching):
    kernel, x = Kernel(), tensor()
    for count, scale in ((100, 0.5), (7, -2.0), (-3, 1e30)):
        launching.launch(kernel, 2, x, count, scale, BLOCK=8, num_warps=4)
    assert kernel.compiled == 1
    assert kernel.launched[1] == (1, (x.data_ptr(), 7, -2.0, 8))


@pytest.mark.parametrize(
    "other",
    [
        lambda: ((tensor("float64"), 100, 0.5), {"BLOCK": 8, "num_warps": 4}),
        lambda: ((tensor(offset=1), 100, 0.5), {"BLOCK": 8, "num_warps": 4}),
        lambda: ((None, 100, 0.5), {"BLOCK": 8, "num_warps": 4}),
        lambda: ((tensor(), 1, 0.5), {"BLOCK": 8, "num_warps": 4}),
        lambda: ((tensor(), 96, 0.5), {"BLOCK": 8, "num_warps": 4}),
        lambda: ((tensor(), 2**40 + 1, 0.5), {"BLOCK": 8, "num_warps": 4}),
        lambda: ((tensor(), 100, 0.5), {"BLOCK": 16, "num_warps": 4}),
        lambda: ((tensor(), 100, 0.5), {"BLOCK": 8, "num_warps": 8}),
    ],
)
def test_what_a_compiled_kernel_depends_on_is_told_apart(launching, other):
    kernel = Kernel()
    launching.launch(kernel, 2, tensor(), 100, 0.5, BLOCK=8, num_warps=4)
    args, named = other()
    launching.launch(kernel, 2, *args, **named)
    assert kernel.compiled == 2
    assert [number for number, _ in kernel.launched] == [1, 2]


def test_tapes_of_a_signature_recall_their_kernels(launching, monkeypatch):
    kernel, x = Kernel(), tensor()

    def launches(block):
        launching.launch(kernel, 2, x, 100, 0.5, BLOCK=8, num_warps=4)
        launching.launch(kernel, 2, x, 100, 0.5, BLOCK=block, num_warps=4)

    first = launching.Tape(lambda: launches(16), "signature")
    assert kernel.launched == []
    monkeypatch.setattr(launching, "_compiled", {})  # nobody looks there again
    again = launching.Tape(lambda: launches(16), "signature")
    assert kernel.compiled == 2
    # Other constants are looked up, whatever was at that place.
    different = launching.Tape(lambda: launches(32), "signature")
    assert kernel.compiled == 3
    for tape in (first, again, different):
        tape.run()
    assert [number for number, _ in kernel.launched] == [1, 2, 1, 2, 1, 3]


def test_a_kind_of_arguments_is_looked_up_once(launching, monkeypatch):
    monkeypatch.setattr(launching, "_runners", {})
    kernel, x, y = Kernel(), tensor(), tensor()
    launching.launch_as("kind", kernel, 2, x, 100, 0.5, BLOCK=8, num_warps=4)
    monkeypatch.setattr(launching, "_compiled", {})  # nobody looks there again
    launching.launch_as("kind", kernel, 2, y, 7, 1.5, BLOCK=8, num_warps=4)
    assert kernel.compiled == 1
    launching.launch_as("other kind", kernel, 2, y, 7, 1.5, BLOCK=16, num_warps=4)
    launching.launch_as("kind", Kernel(), 2, y, 7, 1.5, BLOCK=16, num_warps=4)
    assert kernel.launched == [
        (1, (x.data_ptr(), 100, 0.5, 8)),
        (1, (y.data_ptr(), 7, 1.5, 8)),
        (2, (y.data_ptr(), 7, 1.5, 16)),
    ]
    tape = launching.Tape(lambda: launching.launch_as("kind", kernel, 2, x, 1, 2.5, BLOCK=8))
    assert len(kernel.launched) == 3
    tape.run()
    assert kernel.launched[3] == (1, (x.data_ptr(), 1, 2.5, 8))


def test_launches_with_the_same_arguments_are_not_recorded_again(monkeypatch):
    from wolfmeans.engines.gpu import steps

    monkeypatch.setattr(steps, "INTERPRETED", False)
    monkeypatch.setattr(steps, "_recent", type(steps._recent)())
    monkeypatch.setattr(steps, "_MOST_RECENT", 2)
    recorded = []

    def recalled(facts):
        return steps._recalled(facts, lambda: recorded.append(facts) or len(recorded))

    assert [recalled(facts) for facts in "abab"] == [1, 2, 1, 2]
    assert [recalled(facts) for facts in "cab"] == [3, 4, 5]  # the oldest one makes room
    assert len(steps._recent) == 2


def test_a_tape_that_fails_is_over(launching):
    with pytest.raises(TypeError, match="unhashable"):
        launching.Tape(lambda: None, [])
    kernel = Kernel()
    launching.launch(kernel, 2, tensor(), 100, 0.5, BLOCK=8, num_warps=4)
    assert len(kernel.launched) == 1


def test_facts_keep_nothing_alive_and_hold_nothing_that_is_new_each_time():
    import numpy as np
    import torch

    from wolfmeans.engines import get_engine
    from wolfmeans.engines.gpu.steps import _facts

    def plain(fact):
        if isinstance(fact, tuple):
            return all(map(plain, fact))
        return fact is None or isinstance(fact, (int, float, torch.dtype, torch.Size))

    X = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    for weights in (None, np.arange(40.0)):
        points = get_engine("gpu").open(X, weights, 1)
        points.assign(X[:4])
        step = points._step
        assert plain(_facts(step.data))
        assert plain(step._own_facts)


def test_facts_are_all_that_launches_are_made_of():
    import numpy as np

    from wolfmeans.engines import get_engine
    from wolfmeans.engines.gpu.steps import _facts

    X = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    points = get_engine("gpu").open(X, None, 1)
    points.assign(X[:4])
    step = points._step
    assert step._own_facts == (_facts(step.clusters), _facts(step.rows))
    for part in (step.data, step.clusters, step.rows):
        facts = _facts(part)
        assert hash(facts) == hash(_facts(part))
        for name, value in vars(part).items():
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                setattr(part, name, value + 1)
                assert _facts(part) != facts, name
                setattr(part, name, value)
            elif hasattr(value, "data_ptr"):
                setattr(part, name, value.clone())
                assert _facts(part) != facts, name
                setattr(part, name, value)
        assert _facts(part) == facts


def opened(seed):
    import numpy as np

    from wolfmeans.engines import get_engine

    # Of one kind, that is with as many digits.
    X = np.random.default_rng(seed).integers(-50, 50, size=(90, 3)).astype(np.float32)
    return X, get_engine("gpu").open(X, None, 1), get_engine("cpu").open(X, None, 1)


def test_the_tensors_of_a_workspace_serve_the_next_one(monkeypatch):
    import numpy as np

    from wolfmeans.engines.gpu import steps

    made = []
    init = steps.Step.__init__
    monkeypatch.setattr(
        steps.Step, "__init__", lambda self, *given: made.append(1) or init(self, *given)
    )
    steps.spare.drop()
    for seed, expected in ((0, 1), (1, 1), (2, 1)):
        X, ours, reference = opened(seed)
        for centers in (X[:4], X[5:9]):
            found, known = ours.assign(centers), reference.assign(centers)
            assert np.array_equal(found.means, known.means)
            assert (found.moved, found.gap) == (known.moved, known.gap)
            assert np.array_equal(ours.labels(), reference.labels())
        del ours, found
        assert len(made) == expected
    X, ours, _ = opened(3)
    ours.assign(X[:5])  # another number of clusters
    assert len(made) == 2


def test_what_is_kept_for_the_next_fit_holds_no_data():
    import gc
    import weakref

    from wolfmeans.engines.gpu import steps

    steps.spare.drop()
    X, ours, _ = opened(0)
    ours.assign(X[:4])
    data = weakref.ref(ours.data)
    assert not steps.spare._kept
    del ours
    gc.collect()
    assert steps.spare._kept
    assert data() is None


def test_only_as_much_is_kept_as_may_be(monkeypatch):
    from wolfmeans.engines.gpu import steps

    monkeypatch.setattr(steps, "MOST_KEPT", 1000)
    steps.spare.drop()
    X, ours, _ = opened(0)
    ours.assign(X[:4])
    del ours
    assert not steps.spare._kept


def test_launches_of_a_workspace_are_found_by_the_next_one():
    from wolfmeans.engines.gpu import steps

    steps.spare.drop()
    X, ours, _ = opened(0)
    facts = []
    for _ in range(3):
        ours.assign(X[:4])
        step = ours._step
        parts = step.data, step.clusters, step.rows
        facts.append((ours._lows(), *map(steps._facts, parts)))
        step.let_go()
        step.take_up(ours.data)
    assert facts[0] == facts[1] == facts[2]


def test_what_is_taken_up_again_is_as_if_it_were_new():
    import torch

    from wolfmeans.engines.gpu import steps

    steps.spare.drop()
    X, ours, _ = opened(0)
    ours.assign(X[:4])
    ours.assign(X[5:9])
    used, new = ours._step, steps.Step(ours.data, 4)
    used.let_go()
    used.take_up(ours.data)
    for name in ("labels", "slack", "counts"):
        assert torch.equal(getattr(used.rows, name), getattr(new.rows, name)), name
    for name, value in vars(new.clusters).items():
        found = getattr(used.clusters, name)
        if name in ("short", "norms"):  # those of clusters are written before they are read
            assert torch.equal(found[4:], value[4:])
        elif isinstance(value, (torch.Tensor, list)):
            assert all(map(torch.equal, found, value)), name


def test_launches_are_remembered_for_the_same_data_alone(monkeypatch):
    from wolfmeans.engines.gpu import steps

    steps.spare.drop()
    X, ours, _ = opened(0)
    ours.assign(X[:4])
    step, lows = ours._step, ours._lows()
    vars(step).pop("_own_facts", None)  # found already on a device
    recorded = []
    monkeypatch.setattr(steps, "INTERPRETED", False)
    monkeypatch.setattr(steps, "_recent", type(steps._recent)())
    monkeypatch.setattr(steps, "_MOST_RECENT", 3)
    monkeypatch.setattr(
        steps.Step, "_recorded", lambda self, lows: recorded.append(lows) or len(recorded)
    )
    looked_up = []
    facts = steps._facts
    monkeypatch.setattr(steps, "_facts", lambda of: looked_up.append(of) or facts(of))

    def taken_up(data):
        step.let_go()
        step.take_up(data)
        return step._launches(lows)

    assert [taken_up(ours.data) for _ in range(3)] == [1, 1, 1]
    assert looked_up.count(step.clusters) == looked_up.count(step.rows) == 1
    # Another number, another tensor: nothing of that is the same launch.
    ours.data.scale *= 2
    assert taken_up(ours.data) == 2
    ours.data.points = ours.data.points.clone()
    assert taken_up(ours.data) == 3
    ours.data.scale /= 2
    assert taken_up(ours.data) == 4
    assert len(steps._recent) <= 3


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(1, 1), (700, 3), (3000, 5), (513, 16)])
def test_a_look_finds_sizes_and_rows(dtype, shape):
    import numpy as np
    import torch

    from wolfmeans.engines.gpu.engine import device
    from wolfmeans.engines.gpu.measuring import Measurement

    rng = np.random.default_rng(0)
    X = (rng.normal(size=shape) * 10.0 ** rng.integers(-30, 30, size=shape)).astype(dtype)
    X[rng.random(shape) < 0.2] = 0.0
    X[-1, -1] = -3.0
    given = torch.from_numpy(X).to(device())
    centers = given[:7] + 1
    (smallest, largest), rows, along = Measurement(given, centers).found()
    sizes = np.abs(X[X != 0]).astype(np.float64)
    assert (smallest, largest) == (sizes.min(), sizes.max())
    assert np.array_equal(rows, X[:: max(1, len(X) // 256)])
    assert rows.dtype == along.dtype == dtype
    assert np.array_equal(along, centers.cpu().numpy())
    # What is of another kind does not come along.
    assert Measurement(given, centers.half()).found()[2] is None
    assert Measurement(given, given[:4].T).found()[2] is None or shape[1] == 1 or shape[0] == 1


def test_what_is_sent_arrives_where_it_belongs():
    import numpy as np
    import torch

    from wolfmeans.engines.gpu.clusters import Arena
    from wolfmeans.engines.gpu.engine import device

    arena = Arena(torch.device(device()))
    arena.ask("first", torch.int32, 3)
    arena.ask("second", torch.int64, 2)
    arena.ask("third", torch.float32, 3, 5)
    arena.ask("fourth", torch.float64, 2)
    tensors = arena.zeros()
    for seed in range(3):
        rng = np.random.default_rng(seed)
        second, third = rng.integers(9, size=2), rng.normal(size=(3, 5)).astype(np.float32)
        arena.put({"second": second, "third": third})
        assert np.array_equal(tensors["second"].cpu().numpy(), second)
        assert np.array_equal(tensors["third"].cpu().numpy(), third)
        arena.put({"second": second + 1})
        assert np.array_equal(tensors["second"].cpu().numpy(), second + 1)
        assert np.array_equal(tensors["third"].cpu().numpy(), third)
        assert not tensors["first"].any()
        assert not tensors["fourth"].any()


def test_fits_in_inference_mode_leave_nothing_that_others_stumble_over():
    import numpy as np
    import torch

    from wolfmeans import KMeans

    X = np.random.default_rng(0).normal(size=(30, 3)).astype(np.float32)
    given = {"init": X[:2].copy(), "n_init": 1, "bound": None, "engine": "gpu"}
    with torch.inference_mode():
        inside = KMeans(2, **given).fit(X)
    outside = KMeans(2, **given).fit(X)
    assert np.array_equal(outside.cluster_centers_, inside.cluster_centers_)
    KMeans(2, **given).fit(X[:20])


def test_tensors_are_made_elsewhere_by_default():
    import numpy as np
    import torch

    from wolfmeans import KMeans

    X = np.random.default_rng(0).normal(size=(30, 3)).astype(np.float32)
    given = {"init": X[:2].copy(), "n_init": 1, "bound": None, "engine": "gpu"}
    usual = KMeans(2, **given).fit(X)
    torch.set_default_device("meta")
    try:
        fitted = KMeans(2, **given).fit(X[:, ::-1].copy()[:, ::-1])
    finally:
        torch.set_default_device(None)
    assert np.array_equal(fitted.cluster_centers_, usual.cluster_centers_)
