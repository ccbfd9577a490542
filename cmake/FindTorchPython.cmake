# Finds PyTorch as a Python package. TorchPython::TorchPython provides the headers, the libraries and
# the ABI flag for an extension. The CMake package of a CUDA build of torch requires the CUDA toolkit,
# which an extension without device code does not need.
#
# Queries Python_EXECUTABLE; sets TorchPython_VERSION and TorchPython_ROOT.
set(_torch_query [[
import pathlib, re, torch
print(re.match(r"[0-9.]+", torch.__version__)[0], pathlib.Path(torch.__file__).parent,
      int(torch.compiled_with_cxx11_abi()), sep=";")
]])
# An isolated build hides the packages of its Python with PYTHONPATH. The extension will be loaded by
# the torch that is installed there, so the second query ignores the environment (-E).
foreach(_flag IN ITEMS -B -E)
  execute_process(COMMAND ${Python_EXECUTABLE} ${_flag} -c "${_torch_query}"
                  OUTPUT_VARIABLE _torch OUTPUT_STRIP_TRAILING_WHITESPACE
                  RESULT_VARIABLE _failed ERROR_QUIET)
  if(NOT _failed)
    list(GET _torch 0 TorchPython_VERSION)
    list(GET _torch 1 TorchPython_ROOT)
    list(GET _torch 2 _torch_abi)
    break()
  endif()
endforeach()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(TorchPython REQUIRED_VARS TorchPython_ROOT
                                  VERSION_VAR TorchPython_VERSION)
if(TorchPython_FOUND AND NOT TARGET TorchPython::TorchPython)
  add_library(TorchPython::TorchPython INTERFACE IMPORTED)
  target_include_directories(TorchPython::TorchPython SYSTEM INTERFACE
    ${TorchPython_ROOT}/include ${TorchPython_ROOT}/include/torch/csrc/api/include)
  target_compile_definitions(TorchPython::TorchPython INTERFACE
    TORCH_API_INCLUDE_EXTENSION_H _GLIBCXX_USE_CXX11_ABI=${_torch_abi})
  foreach(_library IN ITEMS torch_python torch torch_cpu c10)
    target_link_libraries(TorchPython::TorchPython INTERFACE
      ${TorchPython_ROOT}/lib/lib${_library}.so)
  endforeach()
endif()
