"""The order engine: are two events of a kernel ordered in every schedule, and if not, which link is missing?

The parts, each in its module: ``slicing`` (what decides synchronisation), ``program`` (an executable
form of that slice), ``machine`` (executes it warp by warp) with ``effects`` and its like (what each event
does to barriers and memory) and ``decisions`` (undecided conditions), ``trace`` (what happened),
``clocks`` (what happens before what, and why) with ``knowledge`` and ``completion`` (what it keeps),
``races`` and ``gaps`` (conflicting accesses that nothing orders, phases that may be another, other order
that is lacking), ``explore`` (which executions are looked at, and what the answers rest on) with
``shapes`` and ``rings`` (launches, and how long loops run). ``roles`` names the warps that act alike.
``whatif``, ``rounds`` and ``lagged`` ask whether a kernel stays ordered with less synchronisation.
Weak accesses to global memory are in the slice where CTAs hand it to each other; a second exploration
(``global_order_of``) takes them in elsewhere, so that their conditions count for no other question.

What is claimed, of one execution (one launch, one outcome for every undecided condition):

1. Two conflicting accesses of the slice to shared or tensor memory, or behind one pointer to global
   memory, are reported unless the causality order of the PTX memory model (PTX ISA 8.9) orders them in
   every schedule with the same phases; the missing link is named (``races.Link``).
2. An arrive or wait on an mbarrier or a named barrier is reported unless the phase before its own has
   completed, in every schedule, before it can begin: then it cannot meet another phase than in this
   execution (mbarrier phases, PTX ISA 9.7.13.15.5), and (1) holds for all schedules.
3. A warp that waits for ever in this execution is reported when the decisions are certain to be possible.

What is assumed: a kernel's branches depend on memory only as the execution saw it; an instruction not in
the tables has no effect (it is listed); a warpgroup's wgmma is one operation of its four warps; the
tensor-memory accesses that one warp issues are performed in that order; fresh values are loaded by
every strong access; addresses do not wrap around. Every assumption about the launch is in
``OrderReport.assumptions``.

What ``clean`` means: no violation within the executions that ``explore`` looks at. What it does not
mean: that no other launch, trip count or combination of conditions has one; that calls, other kernels or
the host synchronise rightly; that lanes of one warp do not race.
"""
