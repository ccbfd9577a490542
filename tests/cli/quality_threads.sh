# One core or all of them: the same figures.
codecs=waterfill:4,dynamiq:5,thc,topkc:8
nf quality --gradients mixture:1 --elements 100000 --codec $codecs --json > all
taskset -c "$(taskset -cp $$ | grep -o "[0-9]*$")" nf quality --gradients mixture:1 --elements 100000 --codec $codecs --json > one
cmp all one
