"""Calibration: which gradients of a model may travel at low bits, found out on its own training.

    calibrator   nf.Calibrator: asks, keeps and chooses, around a training loop of one's own
    workload_job the same around one of the workloads, for `nf calibrate`
    settings     what can be set
    regions      the regions of a model that routes are chosen for
    branch       a user's training loop, cut into pieces
    snapshot     what a branch changes, to start the next one from the same bits
    switch       how gradients travel, to be changed between any two steps
    workbench    what the parts of a calibration share
    dense_phase  training at full precision, measured on the way
    measure      what routes make of the sums of a step
    trials       branches along routes that the search asks for
    health       what the monitor would have judged in them
    evidence     what was found out, as values
    harm         what low bits did to the loss, and how sure that is
    choice       the search: a pure function of the evidence
    outcome      the routes chosen, and the profile that says so
    limits       where the limits of the profile stand
    store        the work so far, in a folder
    update       a profile, refined by what a run with it recorded
    text, watch  for people: what came of it, and how far it is
"""
