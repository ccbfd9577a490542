"""`nf compare`, also `python -m neuron_fabric.compare`: one workload along several routes, paired by seed.

    jobs         runs of nf train, some at a time, those that are finished kept
    figures      means, spreads and ways to the target
    intervals    paired differences, and Student's intervals of them
    words        a row a route, a JSON object a run
    race         the way to the target, and where a route does not pay
    pictures     accuracy or loss against time and against bytes
    page         a page of several comparisons, from stored results
"""
