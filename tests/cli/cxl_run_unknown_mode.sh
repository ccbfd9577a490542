nf cxl run --mode g_trinary
