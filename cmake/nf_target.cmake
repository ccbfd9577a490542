# Functions that define the targets of this tree: the one place for flags, warnings and sanitizers.
#
#   nf_library(name sources...)   a static library nf_<name> in the layer of that name
#   nf_flags(target)              the flags alone, for executables
#   nf_precompile(target headers...)
#                                 precompiled headers in the sanitizer builds, which nf_library includes
#   nf_test(name libraries... [LABELS labels...])
#                                 a GoogleTest program built from <name>.cc and run by ctest
#   nf_label(label tests... [TARGETS targets...])
#                                 adds a label to tests, and the targets to tests_<label>
#
# The target tests_<label> builds what ctest -L <label> runs. docs/testing.md lists the labels.

function(nf_flags target)
  target_compile_features(${target} PUBLIC cxx_std_20)
  # A fused a * b + c rounds once, and whether the compiler fuses differs between machines. Formats
  # that need one rounding call std::fma (docs/simd.md).
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wconversion
                                           -ffp-contract=off)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # GCC 12 at -O3 reports false overlaps in concatenations of std::string (GCC bug 105651).
    target_compile_options(${target} PRIVATE -Wno-restrict)
  else()
    # In clang, -Wconversion includes changes of sign.
    target_compile_options(${target} PRIVATE -Wno-sign-conversion)
  endif()
  if(NF_WARNINGS_AS_ERRORS)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  if(NF_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${NF_SANITIZE} -fno-sanitize-recover=all
                                             -fno-omit-frame-pointer)
    target_link_options(${target} PUBLIC -fsanitize=${NF_SANITIZE})
  endif()
  if(NF_SANITIZE MATCHES undefined)
    # The address sanitizer reports accesses through such pointers. To check the pointers as well
    # doubles the compile time of vector code.
    target_compile_options(${target} PRIVATE -fno-sanitize=null,object-size,pointer-overflow)
  endif()
endfunction()

function(nf_library name)
  add_library(nf_${name} STATIC ${ARGN})
  add_library(neuron_fabric::${name} ALIAS nf_${name})
  set_target_properties(nf_${name} PROPERTIES EXPORT_NAME ${name}
                                              POSITION_INDEPENDENT_CODE ON)
  nf_flags(nf_${name})
  if(NF_BUILD_FUZZ)
    target_compile_options(nf_${name} PRIVATE -fsanitize=fuzzer-no-link)
  endif()
  target_include_directories(nf_${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
    $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include>
    $<INSTALL_INTERFACE:include>)
  target_include_directories(nf_${name} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  nf_precompile(nf_${name})
endfunction()

# Precompiles the headers that take a third of the compile time of a library, and the given ones. The
# builds without a sanitizer detect sources that do not include them.
function(nf_precompile target)
  if(NF_SANITIZE)
    target_precompile_headers(${target} PRIVATE
      <algorithm> <chrono> <condition_variable> <functional> <map> <memory> <mutex> <optional> <set> <span>
      <string> <thread> <vector> <fmt/format.h> ${ARGN})
  endif()
endfunction()

# The flags of a test program. To optimise a test takes longer than to run it, above all under the
# sanitizers.
function(nf_test_flags target)
  nf_flags(${target})
  if(NF_SANITIZE)
    target_compile_options(${target} PRIVATE -O0)
  else()
    target_compile_options(${target} PRIVATE -O1)
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # More false overlaps, which GCC reports in the test once headers are precompiled.
    target_compile_options(${target} PRIVATE -Wno-array-bounds -Wno-stringop-overflow)
  endif()
endfunction()

function(nf_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" LABELS)
  add_executable(${name} ${name}.cc)
  nf_test_flags(${name})
  target_precompile_headers(${name} REUSE_FROM nf_test_main)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src
                                             ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${name} PRIVATE ${arg_UNPARSED_ARGUMENTS} nf_test_main)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT 600)
  foreach(label IN LISTS arg_LABELS)
    nf_label(${label} ${name} TARGETS ${name})
  endforeach()
endfunction()

function(nf_label label)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" TARGETS)
  set_property(TEST ${arg_UNPARSED_ARGUMENTS} APPEND PROPERTY LABELS ${label})
  if(NOT TARGET tests_${label})
    add_custom_target(tests_${label})
  endif()
  if(arg_TARGETS)
    add_dependencies(tests_${label} ${arg_TARGETS})
  endif()
endfunction()
