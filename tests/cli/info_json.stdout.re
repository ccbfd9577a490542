version isa isas codecs transports cuda mpi torch
\['inproc'(, 'c10d')?\] False False|\['inproc', 'mpi'(, 'c10d')?\] False True
