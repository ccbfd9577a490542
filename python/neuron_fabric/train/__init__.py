"""`nf train`, also `python -m neuron_fabric.train`: one workload, trained along one route.

    options      what can be asked for, and which runs are the same
    routes       how a model's gradients travel
    run          what every rank does
    checkpoint   what is kept of a run that stops
    traffic      bytes, counted over all parts of a run
    result       what a run came to, as one JSON object
"""
