#!/usr/bin/env bash
# Shows codecs and all-reduce at work, in about a minute; `make tour` builds what it needs first.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
nf=build/release/tools/nf/nf
shapes=examples/shapes/resnet18_cifar100.json
if [[ ! -x $nf ]]; then
  echo "tour: there is no $nf; run \`make tour\`" >&2
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

show "What this build can do on this machine: the instructions it runs, and its codecs." \
  info
show "Every codec on generated gradients: its bits an element, the error it makes, its speed." \
  bench codec --count 4194304
show "The error of a sum over 8 ranks, with everything that travels counted in the bits." \
  quality --gradients mixture:1 --ranks 8 --elements 1048576 --topology ring,direct \
  --codec waterfill:4,dynamiq:4,waterfill:5,dynamiq:5,mxfp8
show "The same as a real all-reduce: four ranks as threads, every frame checked; \`wrong\` counts elements
    on which ranks differ." \
  bench all_reduce --ranks 4 --topology ring,direct --codec fp32,bf16,waterfill:4 -b 1M -e 16M -f 4 --repeat 5
show "What a ResNet-18 sends for one step with its head dense and all else at one bit a value:
    3.57 % of FP32 in codes, the scales beside them; the sum comes back as counts." \
  plan --shapes "$shapes" --route '*=g_binary' --route 'fc.*=fp32'
