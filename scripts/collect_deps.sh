#!/usr/bin/env bash
# Copies the libraries that the build needs from this Debian system into .deps, headers and all, so
# that a machine without packages or network can build the tree beside them: CMake looks there first.
# GoogleTest and MPI are not among them; what needs them is left out where they are missing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

packages=(libfmt-dev nlohmann-json3-dev libhwy-dev libcli11-dev libxxhash-dev)
# With the shared libraries that their links point to.
for package in "${packages[@]}"; do
  dpkg-query -W "$package" >/dev/null 2>&1 || { echo "$package is missing: run make setup" >&2; exit 1; }
  for needed in $(dpkg-query -W -f '${Depends}' "$package" | tr ',' '\n' | sed 's/(.*//'); do
    case $needed in libfmt* | libhwy* | libxxhash*) packages+=("$needed") ;; esac
  done
done

rm -rf .deps
for package in $(printf '%s\n' "${packages[@]}" | sort -u); do
  while read -r path; do
    [[ -d $path && ! -L $path ]] && continue
    case $path in */share/doc/* | */share/man/* | */share/lintian/*) continue ;; esac
    mkdir -p ".deps$(dirname "${path#/usr}")"
    cp -P "$path" ".deps${path#/usr}"
  done < <(dpkg-query -L "$package" | grep '^/usr/')
done
du -sh .deps
