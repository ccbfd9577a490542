version isa isas codecs transports cuda mpi torch
\['inproc'\] False False|\['inproc', 'mpi'\] False True
