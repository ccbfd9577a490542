"""`nf compare`, also `python -m neuron_fabric_lab.compare`: one workload on several routes, paired by seed.

    jobs         runs of nf train, several at a time; finished runs are kept
    figures      means, spreads and times to the target
    intervals    paired differences, with Student's intervals
    words        one row per route, one JSON object per run
    race         the time to the target, and the routes that do not pay off
    pictures     accuracy or loss against time and against bytes
    page         a page of several comparisons, from stored results
"""
