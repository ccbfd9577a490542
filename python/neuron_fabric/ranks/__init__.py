"""The processes of a job: how they start, join, find each other and agree.

    launch      starts the ranks of a job on this host
    job         joins a job: cores over Gloo, or CUDA devices over NCCL
    group_name  draws a name for a new process group, the same on all ranks
    own_group   makes the process group that an attached model uses for itself
    rendezvous  gathers JSON values from all ranks; a failure on one rank is raised on all
    hosts       which ranks share a host
"""
