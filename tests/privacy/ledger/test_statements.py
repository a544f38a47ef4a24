"""Sentences about a ledger: unit, neighbours, delta, epsilon, foundation and trusted parties."""

import math

import pyarrow as pa

from asyncfl.privacy.ledger.statements import statements

ROW = {
    "seed": 0,
    "holder": "client",
    "client": 0,
    "adversary": "eavesdropper",
    "trusts": "server, clients",
    "unit": "sample",
    "neighbours": "replace",
    "status": "heuristic",
    "claimed_epsilon": 6.0,
    "delta": 1e-5,
    "exact_epsilon": 8.5,
    "provable": 10567.0,
    "measured": None,
    "measured_by_twins": None,
    "measured_by_canaries": None,
    "claim_holds": None,
    "flags": "sensitivity heuristic",
}


NO_NOISE = {"exact_epsilon": math.inf, "provable": math.inf, "flags": "released without noise"}
PROVEN = {"status": "proven", "unit": "client", "provable": 8.5, "flags": ""}
PLAUSIBLE = "8.5 with a sensitivity that is plausible but not proven"
HIDDEN = "at delta 1e-05 for one sample replaced"
OF_ALL = "at delta 1e-05 for all data of one client replaced"


def twins(epsilon):
    return {"measured": epsilon, "measured_by_twins": epsilon}


def said(*rows):
    return statements(pa.Table.from_pylist([{**ROW, **row} for row in rows]))


def test_the_largest_proven_epsilon_comes_first():
    assert said({}, {"client": 3, "provable": 20000.0}, {"client": 4, "exact_epsilon": 0.0, "provable": 0.0}) == [
        f"eavesdropper: epsilon 2e+04, proven, {HIDDEN} (claimed 6, {PLAUSIBLE}); trusted: server, clients"
    ]


def test_a_claim_about_one_upload_is_called_so_where_there_are_several():
    held = {"releases": 51, "assumed_releases": 1, "naive_epsilon": 306.0, "exact_epsilon": 76.0, "claim_holds": False}
    assert said({"releases": 3, "assumed_releases": 1, "naive_epsilon": 18.0}, held) == [
        f"eavesdropper: epsilon 1.057e+04, proven, {HIDDEN} (claimed 6 per upload; 51 uploads: 306 by adding up, "
        "76 with a sensitivity that is plausible but not proven); trusted: server, clients"
    ]
    one = {**held, "releases": 1, "naive_epsilon": 6.0}
    assert "the claimed 6 does not hold" in said(one)[0]
    assert "the claimed 6 does not hold" in said({**held, "assumed_releases": 51})[0]


def test_one_client_without_proof_leaves_nothing_proven_and_its_flags_are_listed():
    scored = {**PROVEN, "client": 3, "provable": math.inf, "exact_epsilon": 6.0, "flags": "scores without noise"}
    assert said({**PROVEN, "claim_holds": False}, scored) == [
        f"eavesdropper: no epsilon is proven {OF_ALL} (the claimed 6 does not hold, 8.5 from the noised releases "
        "alone); flagged: scores without noise; trusted: server, clients"
    ]


def test_measurements_are_named_by_their_audit():
    audited = {"client": 5, "status": "disproved", **twins(113.8), "claim_holds": False}
    beside = (
        "(the claimed 6 does not hold, 8.5 with a sensitivity that an audit of this run disproved, measured by twins "
        "at least 113.8); trusted: server, clients"
    )
    assert said({}, audited) == [f"eavesdropper: epsilon 1.057e+04, proven, {HIDDEN} {beside}"]
    assert said({}, audited, {"client": 1, "provable": math.inf}) == [
        f"eavesdropper: no epsilon is proven {HIDDEN} {beside}"
    ]


def test_the_first_epsilon_is_never_below_the_measured_one():
    assert said({**PROVEN, **twins(9.0), "claimed_epsilon": 8.5, "claim_holds": False}) == [
        f"eavesdropper: epsilon at least 9, although 8.5 counts as proven, {OF_ALL} "
        "(the claimed 8.5 does not hold, measured by twins at least 9); trusted: server, clients"
    ]
    [sentence] = said({**twins(math.inf), "status": "disproved", "claim_holds": False})
    assert sentence.startswith(f"eavesdropper: epsilon is infinite, without any protection, {HIDDEN} (")


def test_zero_and_infinite_epsilons_are_described_in_words():
    found = said(
        {"exact_epsilon": 0.0, "provable": 0.0, "flags": "sensitivity heuristic; scores without noise"},
        {"adversary": "both", "trusts": "", **NO_NOISE},
        {"adversary": "curious", "exact_epsilon": math.inf, "provable": math.inf},
        {"adversary": "public", "provable": math.inf, "neighbours": "shuffled"},
        {"adversary": "both", "holder": "model", "claimed_epsilon": math.inf},
    )
    assert found == [
        "eavesdropper: holds no update of any client; flagged: scores without noise; trusted: server, clients",
        f"both: epsilon is infinite, without any protection, {HIDDEN} (claimed 6); trusted: none",
        f"curious: no bound on epsilon is known {HIDDEN} (claimed 6); trusted: server, clients",
        f"public: no epsilon is proven at delta 1e-05 for sample: shuffled (claimed 6, {PLAUSIBLE}); "
        "trusted: server, clients",
    ]


def test_failing_claims_about_models_are_stated():
    model = {**PROVEN, "holder": "model", "client": -1, "claimed_epsilon": 24.92, "exact_epsilon": 126.0}
    silent = {**PROVEN, "claimed_epsilon": math.inf}
    says = f"eavesdropper: epsilon 8.5, proven, {OF_ALL}; "
    trust = "trusted: server, clients"
    broken = "the 24.92 claimed for published models does not hold"
    assert said(silent, {**model, "claim_holds": False}) == [f"{says}{broken}: epsilon is 126; {trust}"]
    endless = {**model, **NO_NOISE, "claim_holds": False}
    assert said(silent, endless) == [f"{says}{broken}: epsilon is infinite; {trust}"]
    unbounded = {**model, "exact_epsilon": math.inf, "provable": math.inf}
    assert said(silent, unbounded) == [f"{says}the 24.92 claimed for published models is not proven; {trust}"]
    assert said(silent, {**model, "exact_epsilon": 1.0}) == [
        f"{says}the 24.92 claimed for published models has no proof of its own; {trust}"
    ]
    assert said(silent, {**model, "claim_holds": True, "exact_epsilon": 1.0}) == [f"{says}{trust}"]


def test_claims_about_models_are_not_said_of_who_holds_bare_uploads_or_nothing():
    """A trusted server, and an eavesdropper that hears nothing: the claim was never about them."""
    model = {**PROVEN, "holder": "model", "client": -1, "claimed_epsilon": 24.92, "exact_epsilon": 126.0}
    bare = {**NO_NOISE, "adversary": "server", "claimed_epsilon": math.inf}
    deaf = {**PROVEN, "exact_epsilon": 0.0, "provable": 0.0, "claimed_epsilon": math.inf}
    found = said(bare, {**model, **NO_NOISE, "adversary": "server", "claim_holds": False}, deaf, model)
    assert found == [
        f"server: epsilon is infinite, without any protection, {HIDDEN}; trusted: server, clients",
        "eavesdropper: learns nothing about any client; trusted: server, clients",
    ]


def test_statements_without_privacy():
    nothing = {"unit": "none", "neighbours": "none", "status": "none", "claimed_epsilon": math.inf, "flags": ""}
    bare = {**NO_NOISE, "claimed_epsilon": math.inf}
    assert said({**bare, **nothing}, {**bare, **nothing, "adversary": "both"}) == []
    assert said(bare, {**bare, "adversary": "both"}) == ["no noise hides what clients send: epsilon is infinite"]
