# shellcheck shell=bash
# Sourced at the root of the tree, before CMake: compiles through ccache where there is one. An object
# that one folder has compiled is found by the others that compile alike: neither the folder nor
# whether warnings are errors makes it another.
if command -v ccache >/dev/null; then
  export CMAKE_CXX_COMPILER_LAUNCHER=${CMAKE_CXX_COMPILER_LAUNCHER:-ccache}
  export CCACHE_BASEDIR=${CCACHE_BASEDIR:-$PWD} CCACHE_IGNOREOPTIONS=${CCACHE_IGNOREOPTIONS:--Werror}
fi
