"""`nf train`, also `python -m neuron_fabric.train`: one workload, trained along one route.

    options      what can be asked for, and which runs are the same
    target       how good a model is to become
    routes       how a model's gradients travel
    run          a model on its way
    rank         what every rank of `nf train` does with a run
    checkpoint   what is kept of a run that stops
    traffic      bytes, counted over all parts of a run
    compute      how long a step takes that sums nothing
    result       what a run came to, as one JSON object
"""
