"""Calibration: finds the gradients of a model that can use low bits, by trials during its own training.

    calibrator      nf.Calibrator: runs the trials and selects routes, around a user's training loop
    settings        the settings of a calibration
    regions         the regions of a model for which routes are selected
    branch          a user's training loop as separate steps; short runs from a snapshot
    snapshot        the state that a branch changes, to start the next branch from the same bits
    switch          the communication hook, whose route can change between any two steps
    workbench       the objects that the parts of a calibration share
    dense_training  training at full precision, with measurements
    measure         the errors of routes on the sums of a step
    trials          branches on the routes that the search requests
    health          the monitor's figures in a branch
    evidence        the results of trials, as values
    harm            the increase of the loss at low bits, with its standard error
    choice          the search: a pure function of the evidence
    outcome         the selected routes, and the profile with its evidence
    limits          the limits of the profile
    store           the results so far, in a folder
    update          refines a profile with the records of a run
    text, watch     tables of the results, and progress
"""
