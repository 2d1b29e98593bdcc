import pytest

from serving.drafting.hit_rates import HitRates, Standing


@pytest.mark.parametrize("standing", Standing)
@pytest.mark.parametrize("length", [1, 2, 3, 7, 40, 10**6])
def test_a_rate_is_a_probability_whatever_was_seen(standing, length):
    for outcome in (True, False):
        rates = HitRates()
        class_id = rates.class_of(standing, length)
        seen = [rates.rate(class_id)]
        for _ in range(2000):
            rates.observe(class_id, outcome)
            seen.append(rates.rate(class_id))
        assert all(0.0 < rate < 1.0 for rate in seen)
        assert seen == sorted(seen, reverse=not outcome)


def test_prior_believes_longer_matches_and_agreement():
    rates = HitRates()

    def prior(standing, length):
        return rates.rate(rates.class_of(standing, length))

    by_length = [prior(Standing.ALONE_ONCE, length) for length in (1, 2, 3, 4, 6, 10, 30)]
    assert by_length == sorted(set(by_length))
    assert prior(Standing.ALONE_ONCE, 3) < prior(Standing.ALONE_TWICE, 3) < prior(Standing.ALONE_OFTEN, 3)
    assert prior(Standing.BEHIND, 3) < prior(Standing.SECOND, 3) < prior(Standing.LEADS_BARELY, 3)


def test_learns_the_frequency_of_its_class_and_of_no_other():
    rates = HitRates()
    other = rates.class_of(Standing.ALONE_ONCE, 4)
    before = rates.rate(other)
    class_id = rates.class_of(Standing.ALONE_ONCE, 3)
    for i in range(1000):
        rates.observe(class_id, i % 4 == 0)
    assert rates.rate(class_id) == pytest.approx(0.25, abs=0.03)
    assert rates.rate(other) == before


def test_old_evidence_fades():
    rates = HitRates()
    class_id = rates.class_of(Standing.ALONE_ONCE, 3)
    for _ in range(10**5):
        rates.observe(class_id, True)
    for _ in range(600):
        rates.observe(class_id, False)
    assert rates.rate(class_id) < 0.1


def test_every_class_is_its_own():
    rates = HitRates()
    ids = {rates.class_of(standing, length) for standing in Standing for length in range(1, 20)}
    assert len(ids) == len(Standing) * 10
