export PATH=$CASES:$PATH NF_PYTHON=fake_python
export ANSWER="python 3.11.2\nrecent yes\ntorch 2.11.0\nneuron_fabric /site/neuron_fabric\nextension yes\nmodule yes\n"
nf bench all_reduce --transport c10d -b 4K -e 64K -f 16 --codec waterfill:4,c10d_bf16 --topology ring,direct \
  --dtype bf16 --repeat 3 --tile 64K --json
RANK=1 WORLD_SIZE=2 nf bench all_reduce --transport c10d
