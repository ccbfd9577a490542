# A slow link pays, a controller with too few counters does not.
nf replay "shapes:$CASES/tiny.json" --workers 1,2,200 --link-gbps 0.001
