# Decides whether this build includes the CUDA targets: NF_HAS_CUDA. If it does, enables the language with
# CMAKE_CUDA_COMPILER and CMAKE_CUDA_ARCHITECTURES, and finds NCCL (NCCL_INCLUDE_DIR, NCCL_LIBRARY).
#
# If the extension is built, scripts/cuda_build.py decides: the CUDA toolkit must fit PyTorch. Otherwise ON
# uses the toolkit that CMake finds, and AUTO is OFF.
set(NF_CUDA AUTO CACHE STRING
    "Build the CUDA targets: ON, OFF, or AUTO (if PyTorch is built for CUDA and there is a device)")
set(NF_CUDA_ARCHITECTURES 80-real 90-real 90-virtual)  # without a device
set(NF_HAS_CUDA OFF)

# Queries scripts/cuda_build.py. Sets the result NF_HAS_CUDA, the compiler, the architectures and the hints
# for NCCL in the caller's scope.
function(nf_plan_cuda)
  set(links ${PROJECT_BINARY_DIR}/cuda_toolkit)
  set(options --mode ${NF_CUDA} --folder ${links})
  if(CMAKE_CUDA_ARCHITECTURES OR DEFINED ENV{CUDAARCHS})
    list(APPEND options --has-architectures)
  endif()
  set(environment)
  cmake_path(IS_PREFIX links "${CMAKE_CUDA_COMPILER}" is_linked)  # by an earlier configuration
  if(CMAKE_CUDA_COMPILER AND NOT is_linked)
    set(environment CUDACXX=${CMAKE_CUDA_COMPILER})
  endif()
  execute_process(
    COMMAND ${CMAKE_COMMAND} -E env ${environment}
            ${Python_EXECUTABLE} -B ${PROJECT_SOURCE_DIR}/scripts/cuda_build.py plan ${options}
    OUTPUT_VARIABLE plan ERROR_VARIABLE error RESULT_VARIABLE failed ERROR_STRIP_TRAILING_WHITESPACE)
  if(failed)
    message(FATAL_ERROR "${error}")
  endif()
  string(JSON why_not ERROR_VARIABLE has_cuda GET "${plan}" why_not)
  if(NOT has_cuda)
    string(JSON level GET "${plan}" level)
    message(${level} "The device path is left out: ${why_not}")
    return()
  endif()
  foreach(key IN ITEMS nvcc version architectures nccl)
    string(JSON ${key} GET "${plan}" ${key})
  endforeach()
  cmake_path(GET nvcc PARENT_PATH toolkit)
  cmake_path(GET toolkit PARENT_PATH toolkit)
  find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${nccl}/include ${toolkit}/include)
  find_library(NCCL_LIBRARY NAMES libnccl.so.2 nccl HINTS ${nccl}/lib ${toolkit}/lib64)
  if(NOT NCCL_INCLUDE_DIR OR NOT NCCL_LIBRARY)
    set(why_not "nccl.h or libnccl was not found; install the development files of NCCL")
    if(NF_CUDA STREQUAL "ON")
      message(FATAL_ERROR "NF_CUDA=ON, but the device path cannot be built: ${why_not}")
    endif()
    message(WARNING "The device path is left out: ${why_not}")
    return()
  endif()
  if(architectures)
    set(NF_CUDA_ARCHITECTURES ${architectures} PARENT_SCOPE)
  endif()
  set(CMAKE_CUDA_COMPILER ${nvcc} PARENT_SCOPE)
  set(NF_HAS_CUDA ON PARENT_SCOPE)
  message(STATUS "cuda: CUDA ${version}, ${nvcc}")
endfunction()

if(NF_CUDA STREQUAL "")  # an environment variable without a value
  set(NF_CUDA AUTO)
endif()
if(NOT NF_CUDA MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "NF_CUDA is '${NF_CUDA}'; expected one of AUTO, ON, OFF")
endif()
if(TorchPython_FOUND AND NOT NF_CUDA STREQUAL "OFF")
  nf_plan_cuda()
elseif(NF_CUDA STREQUAL "ON")
  set(NF_HAS_CUDA ON)
endif()
if(NF_HAS_CUDA)
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES AND NOT DEFINED ENV{CUDAARCHS})
    set(CMAKE_CUDA_ARCHITECTURES ${NF_CUDA_ARCHITECTURES})
  endif()
  enable_language(CUDA)
endif()
