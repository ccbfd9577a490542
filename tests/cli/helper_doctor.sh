export PATH=$CASES:$PATH NF_PYTHON=fake_python
export ANSWER="python 3.11.2\nrecent yes\nneuron_fabric /site/neuron_fabric\nmodule yes\n"
nf doctor --quick
