# A layer is one static library whose headers are reachable only through its target: including a header of a layer that
# is not in DEPENDS fails with "No such file". Sources are found by rule, so none is forgotten.
function(add_layer name)
  cmake_parse_arguments(layer "" "" "DEPENDS;PRIVATE_DEPENDS" ${ARGN})
  set(root ${PROJECT_BINARY_DIR}/layers/${name})
  file(MAKE_DIRECTORY ${root})
  file(CREATE_LINK ${CMAKE_CURRENT_SOURCE_DIR} ${root}/${name} SYMBOLIC)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  add_library(muster_${name} STATIC ${sources})
  add_library(muster::${name} ALIAS muster_${name})
  target_include_directories(muster_${name} PUBLIC ${root})
  list(TRANSFORM layer_DEPENDS PREPEND muster::)
  target_link_libraries(muster_${name} PUBLIC ${layer_DEPENDS} PRIVATE ${layer_PRIVATE_DEPENDS} muster_warnings)
endfunction()
