#!/usr/bin/env bash
# Copies the libraries and headers that the build needs from this Debian system into .deps, so that a
# machine without packages or network can build the tree: CMake searches .deps first. GoogleTest and
# MPI are not copied; targets that need them are left out if they are missing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

packages=(libfmt-dev nlohmann-json3-dev libhwy-dev libcli11-dev libxxhash-dev)
# Add the shared libraries that the symbolic links of the packages point to.
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
