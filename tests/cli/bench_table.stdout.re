1,000 fp32 values a rank, two ranks, one thread, \w+ on cpu; median of 3 runs
bits     an element of the message, statistics included
error    of the result, squared, over its exact value squared \(vnmse\)
\+/-      half the distance between the quartiles
GB/s     of the least bytes the operation must read and write
copy     GB/s of a memcpy of the values, timed between the operations

codec        operation           bits     error         us      \+/-    GB/s    copy  of copy
fp32         encode            +[\d.]+ +[\d.]+e[+-]\d+ +[\d.]+ +[\d.]+ +[\d.]+ +[\d.]+ +[\d.]+
             decode            +[\d.]+ +[\d.]+e[+-]\d+ +[\d.]+ +[\d.]+ +[\d.]+ +[\d.]+ +[\d.]+
             decode_add        +[\d.]+ +[\d.]+e[+-]\d+ +[\d.]+ +[\d.]+ +[\d.]+ +[\d.]+ +[\d.]+
             decode_add_encode +[\d.]+ +[\d.]+e[+-]\d+ +[\d.]+ +[\d.]+ +[\d.]+ +[\d.]+ +[\d.]+
waterfill:4  statistics        +[\d.]+ +[\d.]+ +[\d.]+ +[\d.]+ +[\d.]+
             widths            +[\d.]+ +[\d.]+ +[\d.]+ +[\d.]+ +[\d.]+
             encode            +[\d.]+ +[\d.]+e[+-]\d+ +[\d.]+ +[\d.]+ +[\d.]+ +[\d.]+ +[\d.]+
             decode            +[\d.]+ +[\d.]+e[+-]\d+ +[\d.]+ +[\d.]+ +[\d.]+ +[\d.]+ +[\d.]+
             decode_add        +[\d.]+ +[\d.]+e[+-]\d+ +[\d.]+ +[\d.]+ +[\d.]+ +[\d.]+ +[\d.]+
             decode_add_encode +[\d.]+ +[\d.]+e[+-]\d+ +[\d.]+ +[\d.]+ +[\d.]+ +[\d.]+ +[\d.]+
