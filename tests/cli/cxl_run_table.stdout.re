g_ternary, 4 workers, 500 lines each, 5 stages; a line takes 150 ns, nothing else going on; modelled
miss        of the last-level cache: a miss waits for its answer
at a time   accesses of all hosts together
cycles      of the controller, until the hosts have all answers; mean of 1 run
baseline    the same requests and memory traffic, a datapath that takes no time
exposed     what the datapath adds to the baseline; beside it the closed formula's
deviation   of the two, relative; their difference where the formula's is below 0.1 %
correct     every answer, by the codec

  GHz   miss  at a time         cycles       baseline   DRAM MB    exposed    formula  deviation  bound    correct
    2      1          1 +[\d,]+ +[\d,]+ +[\d.]+ +1\.\d+ % +1\.\d+ % +[\d.]+ %  latency  yes
    2      1        128 +[\d,]+ +[\d,]+ +[\d.]+ +-?[\d.]+ % +0\.\d+ % +[\d.]+ %  service  yes
