"""The search on make-believe backends that refuse chosen combinations: the least is found, in few tries."""

import pytest

from opshift.trying.search import AGREES, DIED, DIFFERS, IMPOSSIBLE, REFUSED, Answer, Bound, Meter, Remedy, RemedySearch

KINDS = ["Attention", "Conv", "Einsum", "Gelu", "LayerNormalization", "LSTM", "MatMul", "Resize", "Softmax"]
FIRST = frozenset()


def expand(kind):
    return Remedy(1, "expand", kind, f"expand {kind}")


def opset(number, cost=3):
    return Remedy(cost, "opset", str(number), "opset")


class Believed:
    """A backend that refuses a model while certain kinds stand in it together, at an opset above a limit or at any.

    It names one of them, or nothing; `nodes` of each kind are found at fault by halves.
    """

    def __init__(self, *combinations, named=True, newest=99, basic=(), nodes=1):
        self.combinations, self.named, self.newest, self.basic, self.nodes = combinations, named, newest, basic, nodes
        self.asked = []
        self.located = 0

    def attempt(self, plan):
        self.asked.append(plan)
        gone = {remedy.what for remedy in plan if remedy.kind == "expand"}
        if gone & set(self.basic):
            return Answer(IMPOSSIBLE)
        found = self.fault(plan)
        return Answer(AGREES) if found is None else Answer(REFUSED, f"no {found}", (found,) if self.named else ())

    def fault(self, plan):
        gone = {remedy.what for remedy in plan if remedy.kind == "expand"}
        at = min([int(remedy.what) for remedy in plan if remedy.kind == "opset"], default=23)
        held = [kinds for kinds in self.combinations if not set(kinds) & gone]
        return held[0][-1] if held and (self.newest == 99 or at > self.newest) else None

    def blame(self, plan):
        self.located += self.nodes.bit_length()
        found = self.fault(plan)
        return [] if found is None else [found]

    def search(self, general=(), rest=(), bound=None):
        meter = Meter(bound or Bound())
        return RemedySearch(self.attempt, lambda kind: [expand(kind)], general, self.blame, rest, meter)


def test_what_runs_is_tried_once():
    backend = Believed()
    found = backend.search().run()
    assert (found.plan, found.answer, found.tries) == (FIRST, Answer(AGREES), 1)


@pytest.mark.parametrize("named", [True, False])
def test_of_what_is_refused_one_by_one_each_is_replaced_and_nothing_else(named):
    backend = Believed(("Gelu",), ("Resize",), ("Einsum",), named=named)
    found = backend.search().run()
    assert {remedy.what for remedy in found.plan} == {"Gelu", "Resize", "Einsum"}
    assert found.reasons[expand("Resize")].why == "no Resize"
    assert found.tries <= 1 + 3 + 6


@pytest.mark.parametrize("named", [True, False])
def test_of_a_combination_one_is_enough(named):
    backend = Believed(("Gelu", "Softmax"), named=named)
    assert backend.search().run().plan == {expand("Softmax")}


def test_where_the_one_that_is_named_cannot_be_replaced_the_other_one_is():
    backend = Believed(("Gelu", "MatMul"), basic=["MatMul"])
    found = backend.search(rest=[expand(kind) for kind in KINDS if kind != "MatMul"]).run()
    assert found.plan == {expand("Gelu")}
    assert found.tries <= 14


def test_the_words_of_a_backend_may_be_wrong():
    """It blames Conv, of which nothing helps; what is found out helps."""
    backend = Believed(("Attention",), named=False)
    truth = backend.attempt
    backend.attempt = lambda plan: Answer(a.status, "Conv", ("Conv",)) if not (a := truth(plan)).agrees else a
    assert backend.search().run().plan == {expand("Attention")}


def test_an_older_opset_is_taken_where_nothing_cheaper_helps():
    backend = Believed(("MatMul",), basic=["MatMul"], newest=17)
    found = backend.search([opset(18), opset(17), opset(15)]).run()
    assert found.plan == {opset(17)}


def test_two_that_help_together_alone():
    """Each alone leaves the same fault."""

    def attempt(plan):
        return Answer(AGREES) if {expand("Gelu"), opset(17)} <= plan else Answer(REFUSED, "Gelu", ("Gelu",))

    found = RemedySearch(attempt, lambda kind: [expand(kind)], [opset(17), Remedy(2, "optimize")]).run()
    assert found.plan == {expand("Gelu"), opset(17)}


def test_a_crash_and_other_values_are_answers():
    for status in (DIED, DIFFERS):
        attempt = lambda plan, status=status: Answer(AGREES) if expand("LSTM") in plan else Answer(status)  # noqa: E731
        found = RemedySearch(attempt, lambda kind: [expand(kind)], blame=lambda plan: ["LSTM"]).run()
        assert (found.plan, found.reasons[expand("LSTM")].status) == ({expand("LSTM")}, status)


def test_what_nothing_helps_ends_with_the_words_of_the_first_attempt():
    backend = Believed(("MatMul",), basic=["MatMul"])
    found = backend.search([opset(17)]).run()
    assert (found.plan, found.answer.why, found.bounded) == (FIRST, "no MatMul", False)


def test_a_second_start_is_taken_where_it_runs_and_where_there_is_no_first():
    fitted, plain = FIRST, frozenset({Remedy(0, "as it is")})
    runs = {plain}
    search = RemedySearch(lambda plan: Answer(AGREES) if plan in runs else Answer(REFUSED), lambda kind: [])
    assert search.run([fitted, plain]).plan == plain
    search = RemedySearch(lambda plan: Answer(IMPOSSIBLE) if plan == fitted else Answer(REFUSED, "no"), lambda kind: [])
    assert (search.run([fitted, plain]).plan, search.run([fitted, plain]).answer.why) == (plain, "no")


def test_tries_grow_with_the_kinds_at_fault_not_with_all_kinds_or_nodes():
    counted = []
    for nodes in (10, 10_000):
        backend = Believed(*[(kind,) for kind in KINDS[:4]], named=False, nodes=nodes)
        found = backend.search(rest=[expand(kind) for kind in KINDS]).run()
        assert {remedy.what for remedy in found.plan} == set(KINDS[:4])
        counted.append((found.tries, backend.located))
    assert counted[0][0] == counted[1][0] <= 16
    assert counted[1][1] <= 5 * (10_000).bit_length()


def test_what_may_help_anywhere_is_tried_before_anybody_is_blamed():
    backend = Believed(("Gelu",), named=False)
    cheap = Remedy(2, "optimize")
    truth = backend.attempt
    backend.attempt = lambda plan: Answer(AGREES) if cheap in plan else truth(plan)
    found = backend.search([cheap, opset(17)]).run()
    assert (found.plan, backend.located, found.tries) == ({cheap}, 0, 2)


def test_whether_something_helps_is_asked_of_the_part_that_shows_it():
    """The whole says the same words of another fault: without the part, the first remedy would be dropped."""
    kinds = ["Gelu", "Resize"]

    def attempt(plan):
        return Answer(AGREES) if {expand(kind) for kind in kinds} <= plan else Answer(REFUSED, "no")

    def blame(plan):
        return [kind for kind in kinds if expand(kind) not in plan][:1]

    mended = []

    def mends(plan, remedy):
        mended.append(remedy)
        return remedy.what in blame(plan)

    found = RemedySearch(attempt, lambda kind: [opset(17), expand(kind)], blame=blame, mends=mends).run()
    assert found.plan == {expand("Gelu"), expand("Resize")}
    assert mended == [opset(17), expand("Gelu"), opset(17)] or mended == [expand("Gelu")]


def test_plans_that_make_the_same_model_are_tried_once():
    asked = []

    def attempt(plan):
        asked.append(plan)
        return Answer(REFUSED, "no", ("Gelu",))

    found = RemedySearch(attempt, lambda kind: [opset(17), expand(kind)], [opset(15)], key=lambda plan: "same").run()
    assert (len(asked), found.tries, found.plan) == (1, 1, FIRST)


def test_another_start_is_for_the_end_and_is_taken_in_parts():
    sizes = [Remedy(5, "fix", name) for name in ("batch", "length", "width")]
    whole = Remedy(5, "fix")

    def attempt(plan):
        held = {*plan, *(sizes if whole in plan else ())}
        return Answer(AGREES) if {sizes[1], expand("Gelu")} <= held else Answer(REFUSED, "no", ("Gelu",))

    search = RemedySearch(
        attempt,
        lambda kind: [expand(kind)],
        [opset(17)],
        parts=lambda remedy: sizes if remedy == whole else [remedy],
    )
    found = search.run([FIRST], whole)
    assert found.plan == {sizes[1], expand("Gelu")}
    assert set(found.reasons) == found.plan


def test_of_two_searches_that_find_nothing_the_first_one_counts():
    search = RemedySearch(lambda plan: Answer(REFUSED, f"no {len(plan)}"), lambda kind: [], [opset(17)])
    found = search.run([FIRST], Remedy(5, "fix"))
    assert (found.plan, found.answer.why) == (FIRST, "no 0")


def test_the_first_search_leaves_something_for_the_second_one():
    whole = Remedy(5, "fix")
    endless = [opset(number) for number in range(1, 100)]
    search = RemedySearch(
        lambda plan: Answer(AGREES) if whole in plan else Answer(REFUSED, "no"),
        lambda kind: [],
        endless,
        meter=Meter(Bound(10)),
    )
    found = search.run([FIRST], whole)
    assert (found.plan, found.tries) == ({whole}, 7)


def test_remedies_that_lead_to_each_other_come_to_an_end():
    """At each of two opsets something else is at fault, and the other opset is what helps there."""
    faults = {FIRST: "Gelu", frozenset({opset(17)}): "Relu", frozenset({opset(13)}): "Gelu"}
    helping = {"Gelu": [opset(17)], "Relu": [opset(13)]}
    search = RemedySearch(lambda plan: Answer(REFUSED, "", (faults[plan],)), lambda kind: helping[kind])
    assert not search.run().answer.agrees


@pytest.mark.parametrize("tries", [1, 2, 5])
def test_a_search_is_bounded(tries):
    backend = Believed(*[(kind,) for kind in KINDS])
    found = backend.search(bound=Bound(tries)).run()
    assert (found.tries, found.bounded, found.answer.agrees) == (tries, True, False)
    assert len(backend.asked) == tries


def test_a_search_ends_in_time():
    backend = Believed(("Gelu",))
    assert backend.search(bound=Bound(40, 0)).run().bounded
    assert not backend.asked


def test_what_is_not_tried_any_more_is_not_made_either():
    backend, made = Believed(("Gelu",), basic=("Gelu",)), []

    def key(plan):
        made.append(plan)
        return plan

    general = [Remedy(1, "claims"), Remedy(2, "optimize"), *(opset(number) for number in (18, 17, 15))]
    search = RemedySearch(backend.attempt, lambda kind: [expand(kind)], general, meter=Meter(Bound(2)), key=key)
    assert search.run().bounded
    assert len(set(made)) <= 4  # the two that were tried, what cannot be made, and the one after
