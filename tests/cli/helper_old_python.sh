export PATH=$CASES:$PATH NF_PYTHON=fake_python
export ANSWER="python 3.9.2\n"
nf demo
