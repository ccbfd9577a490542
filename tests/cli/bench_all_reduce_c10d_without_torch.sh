export PATH=$CASES:$PATH NF_PYTHON=fake_python
export ANSWER="python 3.11.2\nrecent yes\n"
nf bench all_reduce --transport c10d
