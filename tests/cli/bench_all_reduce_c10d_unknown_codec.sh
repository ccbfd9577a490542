nf bench all_reduce --transport c10d --codec fp32,zip
