"""An oracle for the PTX memory model: small, slow, and independent of the product.

It imports nothing from the product, so that the two can be compared.  `model` holds the axioms of the PTX
memory consistency model, evaluated on one candidate execution; `litmus` runs published litmus tests through
them; `program`, `phases`, `lowering` and `questions` extend the model by barriers with phases and by
asynchronous operations and answer questions about all candidate executions of a tiny program; `generate`
and `render` produce random programs and their PTX.
"""
