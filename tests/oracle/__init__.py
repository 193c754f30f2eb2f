"""An oracle for the PTX memory model: small, slow, and independent of the product.

It imports nothing from the product, so that the two can be compared.

* `events`, `relations`, `model`: the axioms of the PTX memory consistency model on one candidate execution.
* `litmus_format`, `traces`, `litmus`: published litmus tests run through them
  (`python -m tests.oracle.litmus --dat3m GITDIR`).
* `program`, `lowering`, `phases`: tiny programs and our reading of barriers, mbarrier phases, asynchronous
  operations and restricted fences; `schedules`: where a program can get stuck.
* `questions`: `races`, `ordered`, `deadlocks` and `undefined` over all executions of a program.
* `generate`, `render`, `show`: seeded random programs, their PTX with a map from lines to instructions, and
  both with the answers (`python -m tests.oracle.show SEED`).
"""
