# Finds the Python of NF_PYTHON (a CMake or an environment variable), of .venv in the checkout, or
# python3, and the PyTorch that is installed in it: Python_FOUND, TorchPython_FOUND.
if(TorchPython_FOUND)
  return()
endif()
set(NF_PYTHON "$ENV{NF_PYTHON}" CACHE FILEPATH "The Python that the extension is for")
if(NOT Python_EXECUTABLE)  # scikit-build-core sets it to the interpreter that it runs in
  if(NF_PYTHON)
    set(Python_EXECUTABLE ${NF_PYTHON})
  elseif(EXISTS ${PROJECT_SOURCE_DIR}/.venv/bin/python)
    set(Python_EXECUTABLE ${PROJECT_SOURCE_DIR}/.venv/bin/python)
  endif()
endif()
find_package(Python 3.11 QUIET COMPONENTS Interpreter Development.Module)
if(Python_FOUND)
  find_package(TorchPython 2.11 QUIET)
endif()
