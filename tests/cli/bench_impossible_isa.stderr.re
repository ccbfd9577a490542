nf: no ISA 'mmx' on this machine; there are: .*scalar
