nf cxl answers nowhere
