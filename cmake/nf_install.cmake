# The installed package: find_package(neuron_fabric) provides neuron_fabric::neuron_fabric for all
# layers, and one target per layer, such as neuron_fabric::codec. find_package(neuron_fabric COMPONENTS
# mpi) adds neuron_fabric::mpi and the MPI that it was built with.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(layers nf_base nf_codec nf_transport nf_cxl nf_collective nf_runtime)
add_library(nf_neuron_fabric INTERFACE)
add_library(neuron_fabric::neuron_fabric ALIAS nf_neuron_fabric)
set_target_properties(nf_neuron_fabric PROPERTIES EXPORT_NAME neuron_fabric)
target_link_libraries(nf_neuron_fabric INTERFACE ${layers})

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/neuron_fabric)
install(TARGETS nf_neuron_fabric ${layers} EXPORT neuron_fabricTargets)
install(EXPORT neuron_fabricTargets NAMESPACE neuron_fabric:: DESTINATION ${package_dir})
install(TARGETS nf_mpi EXPORT neuron_fabricMpiTargets)
install(EXPORT neuron_fabricMpiTargets NAMESPACE neuron_fabric:: DESTINATION ${package_dir})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/neuron_fabric
                  ${PROJECT_BINARY_DIR}/include/neuron_fabric
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/neuron_fabricConfig.cmake.in
                              ${PROJECT_BINARY_DIR}/neuron_fabricConfig.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/neuron_fabricConfigVersion.cmake
                                 COMPATIBILITY SameMajorVersion)
install(FILES ${PROJECT_BINARY_DIR}/neuron_fabricConfig.cmake
              ${PROJECT_BINARY_DIR}/neuron_fabricConfigVersion.cmake
              ${CMAKE_CURRENT_LIST_DIR}/FindxxHash.cmake
        DESTINATION ${package_dir})

if(TARGET nf AND EXISTS ${PROJECT_SOURCE_DIR}/.deps)  # no loader searches there by default
  set_target_properties(nf PROPERTIES INSTALL_RPATH $<TARGET_FILE_DIR:fmt::fmt>)
endif()
if(NF_BUILD_TOOLS)
  install(TARGETS nf RUNTIME)
endif()
