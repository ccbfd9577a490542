nf cxl
