gaussian:1: 5,000 elements of 1 parameter, 3 ranks, 1 trial
bits         an element and transfer, statistics and frames included
error        of the sum, squared, over the exact sum squared \(vnmse\)
\+/-          95 % half width, between trials
parameters   vnmse of each parameter: mean by their sizes, and the worst
slope        of the sum against the exact one, with its 95 % half width
dropped      share of the exact sum squared that got no bits

codec        topology    bits      error  \+/-  parameters      worst    slope      \+/-  dropped   cosine
fp32         ring +[\d.]+ +[\d.]+e-\d+ +- +[\d.]+e-\d+ +[\d.]+e-\d+ +[\d.]+ +[\d.]+e-\d+ +0.00000 +[\d.]+
fp32         tree +[\d.]+ +[\d.]+e-\d+ +- +[\d.]+e-\d+ +[\d.]+e-\d+ +[\d.]+ +[\d.]+e-\d+ +0.00000 +[\d.]+
waterfill:4  ring +[\d.]+ +[\d.]+e-\d+ +- +[\d.]+e-\d+ +[\d.]+e-\d+ +[\d.]+ +[\d.]+e-\d+ +0.00000 +[\d.]+
waterfill:4  tree +[\d.]+ +[\d.]+e-\d+ +- +[\d.]+e-\d+ +[\d.]+e-\d+ +[\d.]+ +[\d.]+e-\d+ +0.00000 +[\d.]+
