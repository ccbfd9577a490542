#!/usr/bin/env bash
# Demonstrates the codecs and the all-reduce; takes about a minute. `make tour` builds first.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
nf=build/release/tools/nf/nf
shapes=examples/shapes/resnet18_cifar100.json
if [[ ! -x $nf ]]; then
  echo "tour: $nf does not exist; run \`make tour\`" >&2
  exit 1
fi

show() {  # sentence, arguments of nf
  local sentence=$1 line='$ nf' word
  shift
  for word; do
    if [[ $word == *'*'* ]]; then line+=" '$word'"; else line+=" $word"; fi
  done
  printf '\n==> %s\n\n%s\n' "$sentence" "$line"
  "$nf" "$@"
}

show "The codecs of this build, and the instruction sets that it uses on this machine." \
  info
show "Every codec on synthetic gradients: bits per element, error, speed." \
  bench codec --count 4194304
show "The error of a sum over 8 ranks; the bits per element include all traffic." \
  quality --gradients mixture:1 --ranks 8 --elements 1048576 --topology ring,direct \
  --codec waterfill:4,dynamiq:4,waterfill:5,dynamiq:5,mxfp8
show "A real all-reduce: four ranks as threads, with checked frames; \`wrong\` counts the elements on
    which ranks differ." \
  bench all_reduce --ranks 4 --topology ring,direct --codec fp32,bf16,waterfill:4 -b 1M -e 16M -f 4 --repeat 5
show "The traffic of one ResNet-18 step with a dense head and everything else at one bit per element:
    the codes are 3.57 % of FP32, plus scales; the sum is returned as counts." \
  plan --shapes "$shapes" --route '*=g_binary' --route 'fc.*=fp32'
