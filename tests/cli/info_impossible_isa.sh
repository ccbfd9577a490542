NF_FORCE_ISA=mmx nf info
