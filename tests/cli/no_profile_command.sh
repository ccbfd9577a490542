nf profile
