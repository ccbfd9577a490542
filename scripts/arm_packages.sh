#!/usr/bin/env bash
# Unpacks the 64-bit Arm libraries of the core into build/arm_packages for the preset arm. Needs apt
# and a network, but not root, and does not change the packages of this system.
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
# Add the shared libraries that the symbolic links point to, and headers for all architectures.
packages+=($(for_arm apt-cache depends "${packages[@]}" |
  sed -n 's/^ *Depends: \(lib\(fmt\|hwy\|xxhash\)[0-9]*:arm64\)$/\1/p')
  nlohmann-json3-dev libcli11-dev)
cd "$root/debs"
for_arm apt-get download "${packages[@]}"
for deb in *.deb; do dpkg-deb -x "$deb" "$root"; done
rm -rf "$root"/{lists,cache,debs}
touch "$complete"
