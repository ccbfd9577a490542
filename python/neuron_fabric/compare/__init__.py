"""`nf compare`, also `python -m neuron_fabric.compare`: one workload along several routes, paired by seed.

    jobs         runs of nf train, some at a time, those that are finished kept
    figures      means, spreads and times to a target
    intervals    paired differences, and Student's intervals of them
    words        tables and sentences
    pictures     accuracy against time and against bytes
    page         a page of several comparisons, from stored results
"""
