"""NEURON-Fabric in training frameworks: attach, observe the loss, checkpoint, close.

    neuron_fabric.integrations.lightning      a callback for Lightning
    neuron_fabric.integrations.transformers   a callback for the Hugging Face Trainer
    neuron_fabric.integrations.accelerate     attach() for Accelerate
    neuron_fabric.integrations.checkpoint     the state of all ranks, for torch.distributed.checkpoint
    neuron_fabric.integrations.state          the state of all ranks, for other checkpoints

Each module imports its framework; this package imports none.
"""
