nf bench cdoec
