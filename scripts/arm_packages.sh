#!/usr/bin/env bash
# Unpacks the libraries of the core, built for 64-bit Arm, into build/arm_packages, where the preset
# arm finds them. Needs apt and a network but no root, and leaves this system's packages alone.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

root=$PWD/build/arm_packages
complete=$root/complete
[[ ! -e $complete ]] || exit 0
rm -rf "$root"
mkdir -p "$root"/{lists,cache,debs}

for_arm() {  # command
  "$1" -qq -o APT::Architectures::=arm64 -o Dir::State::Lists="$root/lists" \
    -o Dir::Cache="$root/cache" -o APT::Sandbox::User="$(id -un)" "${@:2}"
}

packages=({libfmt,libhwy,libxxhash,libgtest,libgmock}-dev:arm64)
echo "arm: fetching ${packages[*]}"
for_arm apt-get update
# The shared libraries that their links point to, and headers that serve every machine.
packages+=($(for_arm apt-cache depends "${packages[@]}" |
  sed -n 's/^ *Depends: \(lib\(fmt\|hwy\|xxhash\)[0-9]*:arm64\)$/\1/p')
  nlohmann-json3-dev libcli11-dev)
cd "$root/debs"
for_arm apt-get download "${packages[@]}"
for deb in *.deb; do dpkg-deb -x "$deb" "$root"; done
rm -rf "$root"/{lists,cache,debs}
touch "$complete"
