"""The order engine: are two events of a kernel ordered in every schedule, and if not, which link is missing?

The parts, each in its module: ``slicing`` (what decides synchronisation), ``program`` (an executable
form of that slice), ``machine`` (executes it warp by warp), ``trace`` (what happened), ``clocks`` (what
happens before what, and why), ``races`` (conflicting accesses that nothing orders) and ``explore``
(which executions are looked at, and what the answers rest on).
"""
