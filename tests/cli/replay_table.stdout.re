tiny: 1 bucket, g_binary through cxl; predicted
low bits   values that may travel so; the rest of the bucket is dense
fp32, bf16 the whole bucket by a ring over the link, without a codec
low_bit    with encoding and decoding by one thread, as fast as measured here
reduce     of it, from the last encode to the first decode

workers    Gb/s  bucket bytes  buckets     low bits     fp32 us     bf16 us  low_bit us   reduce us  pays  reason
      1   0.001         2,476        1          432         0.0         0.0         0.0         0.0  no    one worker has nothing to send
      2   0.001         2,476        1          432     19818.0      9914.0      59\d\d\.\d         0.3  yes   1.\d times as fast as bf16
    200   0.001         2,476        1          432     41407.9     21699.0     139\d\d\.\d         6.5  no    capacity: counters for 64 workers
