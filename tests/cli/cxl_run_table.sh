nf cxl run --mode g_ternary --workers 4 --lines 500 --outstanding 1,128 --repeat 1
