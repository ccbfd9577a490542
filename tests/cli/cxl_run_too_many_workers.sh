nf cxl run --workers 65
