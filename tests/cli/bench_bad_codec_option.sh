nf bench codec --codec waterfill+wdith=4 --count 10
