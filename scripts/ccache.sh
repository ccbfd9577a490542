# shellcheck shell=bash
# Source this at the root of the tree before CMake: compiles through ccache if it is installed. Build
# folders share objects: neither the folder (CCACHE_BASEDIR) nor -Werror is part of the key.
# CCACHE_DEPEND takes the dependencies from the compiler, so that a cache miss does not run the
# preprocessor twice. ccache requires CCACHE_SLOPPINESS for precompiled headers.
if command -v ccache >/dev/null; then
  export CMAKE_CXX_COMPILER_LAUNCHER=${CMAKE_CXX_COMPILER_LAUNCHER:-ccache}
  export CMAKE_CUDA_COMPILER_LAUNCHER=${CMAKE_CUDA_COMPILER_LAUNCHER:-ccache}
  export CCACHE_BASEDIR=${CCACHE_BASEDIR:-$PWD} CCACHE_IGNOREOPTIONS=${CCACHE_IGNOREOPTIONS:--Werror}
  export CCACHE_DEPEND=${CCACHE_DEPEND:-1} CCACHE_SLOPPINESS=${CCACHE_SLOPPINESS:-pch_defines,time_macros}
fi
