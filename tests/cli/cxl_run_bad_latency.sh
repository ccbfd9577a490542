nf cxl run --latency-ns 20
