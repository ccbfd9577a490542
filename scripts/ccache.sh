# shellcheck shell=bash
# Sourced at the root of the tree, before CMake: compiles through ccache where there is one. An object
# that one folder has compiled is found by the others that compile alike: neither the folder nor
# whether warnings are errors makes it another. CCACHE_DEPEND: what the compiler says it has read is
# the key, so that a first compilation does not run the preprocessor twice. CCACHE_SLOPPINESS: what
# ccache asks for to keep objects made with precompiled headers.
if command -v ccache >/dev/null; then
  export CMAKE_CXX_COMPILER_LAUNCHER=${CMAKE_CXX_COMPILER_LAUNCHER:-ccache}
  export CCACHE_BASEDIR=${CCACHE_BASEDIR:-$PWD} CCACHE_IGNOREOPTIONS=${CCACHE_IGNOREOPTIONS:--Werror}
  export CCACHE_DEPEND=${CCACHE_DEPEND:-1} CCACHE_SLOPPINESS=${CCACHE_SLOPPINESS:-pch_defines,time_macros}
fi
