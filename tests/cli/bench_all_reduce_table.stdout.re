2 ranks over inproc, fp32 values; 3 calls
size    of a rank's values in bytes, as FP32
p50     the slowest rank's time of a call: median, and 99th percentile
algbw   size / p50 in GB/s; busbw is 2 \(n - 1\) / n of it
wire    bytes that the busiest rank sends in a call, statistics and frames included, and
        their GB/s; sums that are not ours do not tell
error   of the sum, squared, over the exact sum squared \(vnmse\)
wrong   elements that differ between ranks, or from the sum where that must be exact

       size  codec        topology     p50 us     p99 us   algbw   busbw   wire bytes  wirebw     error  wrong
      1,024  fp32         ring      +[\d.]+ +[\d.]+ +[\d.]+ +[\d.]+ +[\d,]+ +[\d.]+  \d\.\d\de-16      0
      1,024  waterfill:4  ring      +[\d.]+ +[\d.]+ +[\d.]+ +[\d.]+ +[\d,]+ +[\d.]+  \d\.\d\de-\d\d      0
      4,096  fp32         ring      +[\d.]+ +[\d.]+ +[\d.]+ +[\d.]+ +[\d,]+ +[\d.]+  \d\.\d\de-16      0
      4,096  waterfill:4  ring      +[\d.]+ +[\d.]+ +[\d.]+ +[\d.]+ +[\d,]+ +[\d.]+  \d\.\d\de-\d\d      0
