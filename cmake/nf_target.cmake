# How every target of this tree is made: one place for flags, warnings and sanitizers.
#
#   nf_library(name sources...)   a static library nf_<name> in the layer of that name
#   nf_flags(target)              the flags alone, for executables
#   nf_test(name libraries... [LABELS labels...])
#                                 <name>.cc as a GoogleTest binary, run by ctest

function(nf_flags target)
  target_compile_features(${target} PUBLIC cxx_std_20)
  # Fusing a * b + c changes bits from one machine to the next; where a format wants one rounding
  # it says std::fma (docs/simd.md).
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wconversion
                                           -ffp-contract=off)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # GCC 12 at -O3 sees overlaps in concatenations of std::string that are none (its bug 105651).
    target_compile_options(${target} PRIVATE -Wno-restrict)
  else()
    # Clang counts changes of sign among the conversions.
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
    # Accesses through such pointers are what the address sanitizer reports; to check the pointers,
    # too, takes the compiler twice as long for vector code.
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
endfunction()

# The flags of a test program. The compiler takes longer than the test's own loops, and longest under
# the sanitizers.
function(nf_test_flags target)
  nf_flags(${target})
  if(NF_SANITIZE)
    target_compile_options(${target} PRIVATE -O0)
  else()
    target_compile_options(${target} PRIVATE -O1)
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # The same concatenations, which GCC takes for the test's own once headers are precompiled.
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
  set_tests_properties(${name} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT 600)
endfunction()
