"""Training jobs, comparisons and benchmarks on top of neuron_fabric: the Python commands of `nf`.

    workloads        models and data sets to train on
    train            trains a workload along one route (`nf train`)
    compare          trains a workload along several routes and compares them (`nf compare`)
    calibrate        finds a profile for a workload (`nf calibrate`); calibration_job is its rank
    demo             trains a small model with and without low-bit gradients (`nf demo`)
    bench            measures all-reduces over c10d (`nf bench all_reduce --transport c10d`)

This package imports neuron_fabric; neuron_fabric never imports this package.
"""
