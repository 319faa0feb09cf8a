"""The words about the distance from the optimum: they claim no more than the bound does."""

import re

import numpy as np
import pytest

from wolfmeans.certificate.optimality import Standing, percent_above, percent_sure, rounded_down


def test_printed_numbers_claim_no_more_than_the_bound():
    rng = np.random.default_rng(0)
    for _ in range(300):
        bound = 10.0 ** rng.uniform(-3, 6)
        ratio = 1.0 + 10.0 ** rng.uniform(-6, 0)
        standing = Standing(bound * ratio, bound, 1.0)
        assert float(rounded_down(bound, 6)) <= bound
        assert float(rounded_down(bound, 6)) > bound * (1 - 1e-5)
        percents = [re.search(r"within ([\d.]+) %", text)[1]
                    for text in (standing.brief, standing.sentence)]  # fmt: skip
        assert percents[0] == percents[1]
        assert 1 + float(percents[0]) / 100 >= standing.ratio * (1 - 1e-12)
        # Two digits at least, so that the number is not far from the truth either.
        assert float(percents[0]) <= 100 * (ratio - 1) * 1.1 + 1e-9


@pytest.mark.parametrize(
    ("ratio", "percent"),
    [
        (1.25, "25.0 %"),
        (1.25 + 1e-9, "25.1 %"),
        (1.1, "10.0 %"),
        (1.0066, "0.66 %"),
        (1.0066 + 1e-9, "0.67 %"),
        (1.09999, "10.0 %"),
        (1.00999, "1.0 %"),
        (1.99999, "100 %"),
        (1.000012, "0.0012 %"),
    ],
)
def test_a_little_more_than_a_printed_number_is_the_next_one(ratio, percent):
    assert percent_above(ratio) == percent


@pytest.mark.parametrize(
    ("confidence", "said"),
    [(0.95, "95 %"), (0.999, "99.9 %"), (0.99999, "99.99 %"), (0.1 + 0.2, "30 %"), (0.0, "0 %")],
)
def test_a_confidence_is_rounded_down(confidence, said):
    assert percent_sure(confidence) == said


def test_optimal_ends_at_the_stated_tolerance():
    assert Standing(100.00009, 100.0, 1.0).optimal
    assert not Standing(100.00011, 100.0, 1.0).optimal
    assert Standing(100.00011, 100.0, 1.0).brief == "within 0.00011 %"
    assert Standing(100.0, 100.0, 1.0).meaning == "to a relative 1e-6"
    assert "proven to be optimal (to a relative 1e-6)" in Standing(100.0, 100.0, 1.0).sentence


def test_a_likely_bound_makes_nothing_optimal():
    standing = Standing(100.0, 100.0, 0.95)
    assert not standing.optimal
    assert standing.brief == "within 0.0001 %"


def test_a_likely_bound_is_never_called_proven():
    for ratio in (1.0, 1.3, 3.0):
        assert "proven" not in Standing(100.0 * ratio, 100.0, 0.95).sentence
    assert "proven to be within 30.0 % of the optimum" in Standing(130.0, 100.0, 1.0).sentence
    assert Standing(130.0, 100.0, 0.95).sentence.endswith("of the optimum with confidence 95 %")


@pytest.mark.parametrize("bound", [None, 0.0, 49.9])
def test_a_useless_bound_is_no_number(bound):
    standing = Standing(100.0, bound, 1.0)
    texts = (standing.brief, standing.meaning, standing.sentence)
    assert standing.brief == "unknown" and not re.search(r"\d", "".join(texts))
    assert Standing(100.0, 50.0, 1.0).brief == "within 100 %"


def test_an_inertia_of_zero_needs_no_bound():
    standing = Standing(0.0, None, None)
    assert standing.optimal and standing.look == "proved"
    assert standing.sentence == "no clustering can be better"


@pytest.mark.parametrize(
    ("ratio", "confidence", "look"),
    [
        (1.0, 1.0, "proved"),
        (1.01, 1.0, "proved"),
        (1.011, 1.0, "near"),
        (1.1, 1.0, "near"),
        (1.101, 1.0, "plain"),
        (1.0, 0.99, "plain"),
        (5.0, 1.0, "plain"),
    ],
)
def test_only_a_strong_proof_has_the_color_of_one(ratio, confidence, look):
    assert Standing(ratio, 1.0, confidence).look == look
    assert Standing(ratio, None, None).look == "plain"
