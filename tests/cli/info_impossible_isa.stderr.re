nf: NF_FORCE_ISA: no ISA 'mmx' on this machine; there are: .*scalar
