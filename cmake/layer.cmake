# With MUSTER_UNITY a target's sources are compiled eight at a time, in a quarter of the time: most of it is spent on headers.
# So names in anonymous namespaces are unique within a layer. The preset `control` compiles each source alone, which shows
# where one leans on another's includes.
function(compile_in_batches target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${MUSTER_UNITY} UNITY_BUILD_BATCH_SIZE 8
                        UNITY_BUILD_RELOCATABLE ON)  # the same text in every clone, for the compiler cache
endfunction()

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
  compile_in_batches(muster_${name})
endfunction()
