# Requests and answers of a small trace, and one that is made at random.
zeros=$(printf '0%.0s' {1..128}) ones=${zeros//0/f}
cat > trace <<END
nf_cxl_trace 1
device 8 64 4 16
enable 0 g_binary 2 1000 1 6 0
w 0 1000 $ones
w 0 1040 $zeros
r 0 1080
END
nf cxl answers trace
nf cxl trace --mode fp32 --workers 3 --lines 10 --seed 7 > random
nf cxl answers random | wc -l
