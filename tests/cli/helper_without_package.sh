export PATH=$CASES:$PATH NF_PYTHON=fake_python
export ANSWER="python 3.11.2\nrecent yes\ntorch 2.11.0\n"
nf demo
