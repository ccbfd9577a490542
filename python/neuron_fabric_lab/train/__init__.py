"""`nf train`, also `python -m neuron_fabric_lab.train`: trains one workload on one route.

    options      the options of a run, and which runs are the same
    target       the accuracy or loss that a run should reach
    routes       attaches a route to a model
    run          a model in training
    rank         the work of every rank of `nf train`
    checkpoint   the state of a run that stops
    traffic      bytes, counted over all parts of a run
    compute      the time of a step without communication
    result       the result of a run, as one JSON object
"""
