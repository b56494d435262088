# With MUSTER_UNITY a target's sources are compiled eight at a time, in a quarter of the time: most of it is spent on headers.
# So names in anonymous namespaces are unique within a layer. The preset `control` compiles each source alone, which shows
# where one leans on another's includes.
function(compile_in_batches target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${MUSTER_UNITY} UNITY_BUILD_BATCH_SIZE 8
                        UNITY_BUILD_RELOCATABLE ON)  # the same text in every clone, for the compiler cache
endfunction()

# A layer is one static library. Its sources see the headers of the layers in DEPENDS and no others, not even those that
# these see in turn: including any other header fails with "No such file". Sources are found by rule, so none is
# forgotten: those of the layer's own folder and of its FOLDERS. With MUSTER_BUILT it is the library that lies in that
# build folder.
function(add_layer name)
  cmake_parse_arguments(layer "" "" "FOLDERS;DEPENDS;PRIVATE_DEPENDS" ${ARGN})
  set(root ${PROJECT_BINARY_DIR}/layers/${name})
  file(MAKE_DIRECTORY ${root})
  file(CREATE_LINK ${CMAKE_CURRENT_SOURCE_DIR} ${root}/${name} SYMBOLIC)
  set(targets ${layer_DEPENDS})
  list(TRANSFORM targets PREPEND muster::)
  if(MUSTER_BUILT)
    file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
    add_library(muster_${name} STATIC IMPORTED GLOBAL)
    set_target_properties(muster_${name} PROPERTIES IMPORTED_LOCATION ${MUSTER_BUILT}/${folder}/libmuster_${name}.a
                          IMPORTED_LINK_INTERFACE_LANGUAGES CXX)
    target_include_directories(muster_${name} INTERFACE ${root})
    foreach(needed ${targets} ${layer_PRIVATE_DEPENDS})
      target_link_libraries(muster_${name} INTERFACE $<LINK_ONLY:${needed}>)
    endforeach()
  else()
    set(patterns ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
    foreach(folder ${layer_FOLDERS})
      list(APPEND patterns ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.cpp)
    endforeach()
    file(GLOB sources CONFIGURE_DEPENDS ${patterns})
    add_library(muster_${name} STATIC ${sources})
    target_include_directories(muster_${name} PUBLIC ${root})
    # Privately: whoever links a layer also links what that needs, but sees its headers alone.
    target_link_libraries(muster_${name} PRIVATE ${targets} ${layer_PRIVATE_DEPENDS} muster_warnings)
    compile_in_batches(muster_${name})
  endif()
  add_library(muster::${name} ALIAS muster_${name})

  # The layers below, for tests; and the table of all layers, which a test compares with docs/architecture.md.
  set(below ${layer_DEPENDS})
  foreach(dependency ${layer_DEPENDS})
    get_target_property(further muster_${dependency} MUSTER_LAYERS_BELOW)
    list(APPEND below ${further})
  endforeach()
  list(REMOVE_DUPLICATES below)
  set_target_properties(muster_${name} PROPERTIES MUSTER_LAYERS_BELOW "${below}")
  list(JOIN layer_DEPENDS " " depends)
  set_property(GLOBAL APPEND_STRING PROPERTY MUSTER_LAYER_TABLE "${name}: ${depends}\n")
endfunction()

# The target sees the headers of these layers and of all layers below them.
function(link_layers_and_below target)
  foreach(layer ${ARGN})
    get_target_property(below muster_${layer} MUSTER_LAYERS_BELOW)
    foreach(further ${below})
      get_target_property(lower muster_${further} MUSTER_LAYERS_BELOW)
      list(APPEND below ${lower})
    endforeach()
    list(REMOVE_DUPLICATES below)
    list(TRANSFORM below PREPEND muster::)
    target_link_libraries(${target} PRIVATE muster::${layer} ${below})
  endforeach()
  set_target_properties(${target} PROPERTIES MUSTER_LAYERS_BELOW "${ARGN}")
endfunction()

function(write_layer_table)
  get_property(table GLOBAL PROPERTY MUSTER_LAYER_TABLE)
  file(WRITE ${PROJECT_BINARY_DIR}/layers.txt "${table}")
endfunction()
