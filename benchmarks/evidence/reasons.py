"""Why our figures are as they are: written after looking, a paragraph each."""

from __future__ import annotations

SPEEDUPS: tuple[str, ...] = (
    """\
**Why** tau is near 1 with the EAGLE-1 head where m is chosen in every step: tau counts the steps that were
decoded plainly, and the service decodes plainly where drafting does not pay. This head had a quarter of the
shipped one's training (training/README.md), and on two cores its drafts hardly ever pay. What it shows above
1.00x with a tau of 1.00 is no speed-up but how exactly this can be measured; methods are ranked where all
have the same m.""",
    """\
**Why** EAGLE-1's static tree is ahead of EAGLE-2's in tau and far behind in speed: with m = 10 it verifies
9.6 draft tokens a step, whatever they are worth. Dynamic trees end where a node is unlikely to be accepted
(`speculation.min_path_value`), at 3.6 of 10 here (4.7 at temperature 1): six rows less, for .1 of tau at
temperature 0 and .02 at 1. What shape alone is worth, at the same number of nodes, is below (Trees without
value and without reranking).""",
)
TREES: tuple[str, ...] = ()
CONFIDENCE: tuple[str, ...] = ()
HEADS: tuple[str, ...] = (
    """\
**Why** the steps are small: every head met 200,000 response tokens once, in 217 steps, where the shipped one
took 1,571 of twice the size. Feature loss alone makes no difference to tau: what leaving it out gains at
0-alpha is lost again behind it. Fused features and training-time test help each with and without the other,
and only both together are ahead of EAGLE-1 beyond doubt. One seed each.""",
)
FEATURE_LOSS: tuple[str, ...] = (
    """\
**Why** 0-alpha is not the highest with training-time test: its loss is a sum over five draft steps, weighted
0.9^i, of which the first is a quarter, and the training is short. With fused features in both, the head
without it is ahead by .05 at 0-alpha and behind by .16 at 1-alpha (table above), and 0-alpha of all heads was
still rising when training ended. The shipped head, the same recipe over seven times as many steps of twice
the size, has .687 and .653. That the two would meet with more training is likely and was not measured.""",
)
SCALING: tuple[str, ...] = (
    """\
**Why** two curves: a head that meets an eighth of the text once also takes an eighth of the steps, and at
this size steps are what it lacks. With the same number of steps what is left is the worth of different
text. It raises 0-alpha of both alike, by a sixth; but EAGLE-1 loses that again at the first draft token
that follows one of its own (1-alpha stays where it was), and EAGLE-3 keeps it. One seed each, and the text
is the model's own: a curve's bend is not to be read off it.""",
)
ALPHA: tuple[str, ...] = (
    """\
**Why** EAGLE-3 falls at all: after 217 steps its outputs are not yet what it needs of them. The shipped
head's acceptance, with seven times as many steps, falls by 13% to 3-alpha (training/README.md).""",
)
THROUGHPUT: tuple[str, ...] = (
    """\
**Why** the lead ends at four requests here and not at 64: speculation spends arithmetic that decoding leaves
idle, and two cores leave little. For one request a verification of 16 rows takes 1.5 times one of a single
row; with several requests the rows of plain decoding have taken that room already. A fixed m then costs
more than it brings, here (0.31x to 0.75x) as for EAGLE in SGLang (0.88x); `auto` measures what a row costs
and decodes plainly instead.""",
)
PEERS: tuple[str, ...] = ()
