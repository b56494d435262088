# LibTorch as the target muster::torch, from the folder of a torch package (a PyPI wheel, CPU or CUDA build).
#
# The folder is MUSTER_TORCH where that is set, else what scripts/setup.sh wrote into .muster/torch-location. CMake's own
# package of torch is not used: it asks for a CUDA compiler, and takes seconds to configure.
set(MUSTER_TORCH "" CACHE PATH "Folder of the torch package; empty: what scripts/setup.sh found")

set(torch_folder ${MUSTER_TORCH})
if(NOT torch_folder)
  set(torch_record ${PROJECT_SOURCE_DIR}/.muster/torch-location)
  if(NOT EXISTS ${torch_record})
    message(FATAL_ERROR "MUSTER_ENGINE=ON needs LibTorch, and none is recorded: run scripts/setup.sh engine, "
                        "or configure with -DMUSTER_TORCH=FOLDER (python3 -c 'import torch; print(torch.__path__[0])')")
  endif()
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${torch_record})
  file(STRINGS ${torch_record} torch_folder LIMIT_COUNT 1)
endif()
if(NOT EXISTS ${torch_folder}/include/ATen/ATen.h OR NOT EXISTS ${torch_folder}/lib/libtorch_cpu.so)
  message(FATAL_ERROR "${torch_folder} holds no LibTorch (include/ATen/ATen.h and lib/libtorch_cpu.so): "
                      "delete .muster/torch-location and run scripts/setup.sh engine, or give another -DMUSTER_TORCH=FOLDER")
endif()

add_library(muster_torch INTERFACE)
add_library(muster::torch ALIAS muster_torch)
# Only torch's own of the wheel's headers: it also carries those of libraries it was built with, and its fmt is not the fmt
# that muster links.
set(torch_headers ${PROJECT_BINARY_DIR}/torch-headers)
file(MAKE_DIRECTORY ${torch_headers})
foreach(part ATen c10 caffe2 torch)
  file(CREATE_LINK ${torch_folder}/include/${part} ${torch_headers}/${part} SYMBOLIC)
endforeach()
target_include_directories(muster_torch SYSTEM INTERFACE ${torch_headers} ${torch_folder}/include/torch/csrc/api/include)
target_compile_definitions(muster_torch INTERFACE USE_C10D_GLOO)
# The C++ library that torch's libraries use, named before any other: a compiler that links its own statically would give
# programs a second one, and what one of them made the other would destroy.
target_link_libraries(muster_torch INTERFACE -l:libstdc++.so.6)
target_link_libraries(muster_torch INTERFACE ${torch_folder}/lib/libtorch_cpu.so ${torch_folder}/lib/libc10.so)

# Sets `variable` to the folder that holds `header`: in the toolkit of the CUDA compiler, beside the wheel (the nvidia-*
# packages, whose headers lack those of the compiler), or on the system.
function(find_cuda_header variable header)
  file(GLOB packaged ${torch_folder}/../nvidia/*/include)
  find_path(${variable} ${header} NO_DEFAULT_PATH
            PATHS ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES} $ENV{CUDA_HOME}/include $ENV{NCCL_HOME}/include ${packaged}
            PATH_SUFFIXES cccl)
  find_path(${variable} ${header} PATHS /usr/local/cuda/include PATH_SUFFIXES cccl)
  if(NOT ${variable})
    message(FATAL_ERROR "torch in ${torch_folder} is a CUDA build, and ${header} is neither in an nvidia-* package beside it "
                        "nor on the system: install the CUDA toolkit (set CUDA_HOME) and libnccl-dev, or a CPU build of torch")
  endif()
endfunction()

set(MUSTER_CUDA OFF)
if(EXISTS ${torch_folder}/lib/libtorch_cuda.so)
  set(MUSTER_CUDA ON)
  foreach(header cuda_runtime_api.h crt/host_config.h nv/target cublas_v2.h cusparse.h cusolverDn.h nccl.h)
    string(MAKE_C_IDENTIFIER "MUSTER_INCLUDE_${header}" variable)
    find_cuda_header(${variable} ${header})
    target_include_directories(muster_torch SYSTEM INTERFACE ${${variable}})
  endforeach()
  target_compile_definitions(muster_torch INTERFACE USE_C10D_NCCL MUSTER_CUDA)
  # The runtime that torch itself loads: beside the wheel, or on the system.
  file(GLOB cuda_runtimes ${torch_folder}/lib/libcudart*.so* ${torch_folder}/../nvidia/*/lib/libcudart.so.*)
  if(cuda_runtimes)
    list(GET cuda_runtimes 0 cuda_runtime)
  else()
    find_library(cuda_runtime cudart PATHS $ENV{CUDA_HOME}/lib64 /usr/local/cuda/lib64 REQUIRED)
  endif()
  # What libtorch_cuda needs in turn is found by its own path, when it is loaded.
  target_link_options(muster_torch INTERFACE -Wl,--allow-shlib-undefined)
  # libtorch_cuda registers its operations when it is loaded; nothing need name a symbol of it.
  target_link_libraries(muster_torch INTERFACE
    "-Wl,--push-state,--no-as-needed,${torch_folder}/lib/libtorch_cuda.so,--pop-state" ${torch_folder}/lib/libc10_cuda.so ${cuda_runtime})
  target_link_libraries(muster_cuda INTERFACE ${cuda_runtime})  # after the kernels that call it
endif()

# One precompiled header for all code that sees torch: a file that includes ATen alone would cost eight seconds.
file(WRITE ${PROJECT_BINARY_DIR}/precompiled_torch.cpp.new "")
file(COPY_FILE ${PROJECT_BINARY_DIR}/precompiled_torch.cpp.new ${PROJECT_BINARY_DIR}/precompiled_torch.cpp ONLY_IF_DIFFERENT)
add_library(muster_precompiled_torch OBJECT ${PROJECT_BINARY_DIR}/precompiled_torch.cpp)
target_link_libraries(muster_precompiled_torch PRIVATE muster_torch muster_warnings)
target_precompile_headers(muster_precompiled_torch PRIVATE <ATen/ATen.h>)

# Programs are compiled as libraries are, -fPIC and not -fPIE: the header holds for one of them only.
function(use_precompiled_torch target)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${target} PRIVATE -fPIC)
  target_link_libraries(${target} PRIVATE muster_torch)
  target_precompile_headers(${target} REUSE_FROM muster_precompiled_torch)
endfunction()

# A layer that sees torch.
function(add_torch_layer name)
  add_layer(${name} ${ARGN})
  target_link_libraries(muster_${name} PUBLIC muster::torch)
  use_precompiled_torch(muster_${name})
endfunction()
