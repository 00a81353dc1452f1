"""Of several runs of one output, what is nearest to its bounds."""

from opshift.verification.judgement import BITS, DIRECT, SHAPE, TWINS, Judgement


def test_each_question_has_its_own_worst_run():
    first = Judgement("y", TWINS, function=1, function_bound=10, accuracy=8, accuracy_bound=10, ties=1)
    second = Judgement("y", TWINS, function=4, function_bound=20, accuracy=3, accuracy_bound=4, ties=2)
    worst = Judgement("y", TWINS, function=4, function_bound=20, accuracy=8, accuracy_bound=10, ties=3)
    assert first.worse(second) == second.worse(first) == worst


def test_how_much_of_a_bound_is_used_up():
    assert Judgement("y", TWINS, function=1, function_bound=10, accuracy=8, accuracy_bound=10).share == 0.8
    assert Judgement("y", TWINS, function=9, function_bound=10, accuracy=8, accuracy_bound=10).share == 0.9
    assert Judgement("y", BITS).share == 0


def test_what_was_not_measured_says_less():
    measured, bits = Judgement("y", TWINS, function=1, function_bound=10), Judgement("y", BITS, ties=1)
    assert bits.worse(measured) == Judgement("y", TWINS, function=1, function_bound=10, ties=1)
    assert measured.worse(bits) == measured
    assert Judgement("y", DIRECT).worse(measured).judge == measured.worse(Judgement("y", DIRECT)).judge == DIRECT
    for other in (Judgement("y", SHAPE), Judgement("y", TWINS, why="it differs")):
        assert measured.worse(other) == other
