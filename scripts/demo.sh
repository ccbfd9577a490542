#!/usr/bin/env bash
# Shows the codecs at work, in under a minute; `make demo` builds what it needs first.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
nf=build/release/tools/nf/nf
shapes=examples/shapes/resnet18_cifar100.json
if [[ ! -x $nf ]]; then
  echo "demo: there is no $nf; run \`make demo\`" >&2
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
show "What a ResNet-18 sends for one step with its head dense and all else at one bit a value:
    3.57 % of FP32 in codes, the scales beside them; the sum comes back as counts." \
  plan --shapes "$shapes" --route '*=g_binary' --route 'fc.*=fp32'
