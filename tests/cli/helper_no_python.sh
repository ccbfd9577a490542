NF_PYTHON=/nowhere/python nf report run
