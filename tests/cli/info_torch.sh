export PATH=$CASES:$PATH NF_PYTHON=fake_python
ANSWER="python 3.11.2\nrecent yes\ntorch 2.11.0+cpu\n" nf info --json | python3 "$CASES/json_lines.py" torch
ANSWER="python 3.11.2\nrecent yes\ntorch 2.11.0+cpu\n" nf info | grep torch
NF_PYTHON=/nowhere/python nf info --json | python3 "$CASES/json_lines.py" torch
ANSWER="python 3.11.2\nrecent yes\ntorch 2.11.0\nneuron_fabric /site/neuron_fabric\nextension yes\n" nf info | grep -o c10d
