# gRPC and protobuf where the distribution has them: sets MUSTER_GRPC, and makes muster_environment_protocol, the messages and the
# service of engine/environment_server/environment.proto.
find_program(MUSTER_PROTOC protoc)
find_program(MUSTER_GRPC_PLUGIN grpc_cpp_plugin)
find_path(MUSTER_GRPC_INCLUDE grpcpp/grpcpp.h)
find_path(MUSTER_PROTOBUF_INCLUDE google/protobuf/message_lite.h)
find_library(MUSTER_GRPC_LIBRARY grpc++)
find_library(MUSTER_GRPC_CORE_LIBRARY grpc)
find_library(MUSTER_GRPC_PORTABILITY_LIBRARY gpr)
find_library(MUSTER_PROTOBUF_LIBRARY protobuf)
set(MUSTER_GRPC OFF)
if(MUSTER_PROTOC AND MUSTER_GRPC_PLUGIN AND MUSTER_GRPC_INCLUDE AND MUSTER_PROTOBUF_INCLUDE AND MUSTER_GRPC_LIBRARY
   AND MUSTER_GRPC_CORE_LIBRARY AND MUSTER_GRPC_PORTABILITY_LIBRARY AND MUSTER_PROTOBUF_LIBRARY)
  set(MUSTER_GRPC ON)
endif()

function(add_environment_protocol)
  set(folder ${PROJECT_BINARY_DIR}/environment-protocol)
  set(generated ${folder}/environment.pb.cc ${folder}/environment.grpc.pb.cc)
  file(MAKE_DIRECTORY ${folder})
  add_custom_command(
    OUTPUT ${generated} ${folder}/environment.pb.h ${folder}/environment.grpc.pb.h
    COMMAND ${MUSTER_PROTOC} --proto_path=${CMAKE_CURRENT_SOURCE_DIR} --cpp_out=${folder} --grpc_out=${folder}
            --plugin=protoc-gen-grpc=${MUSTER_GRPC_PLUGIN} environment.proto
    DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/environment.proto VERBATIM)
  # Compiled as one source: most of the time is spent on gRPC's headers.
  add_library(muster_environment_protocol STATIC EXCLUDE_FROM_ALL ${generated})
  set_target_properties(muster_environment_protocol PROPERTIES UNITY_BUILD ON)
  target_compile_options(muster_environment_protocol PRIVATE -O1 -w)
  target_include_directories(muster_environment_protocol SYSTEM PUBLIC ${folder} ${MUSTER_GRPC_INCLUDE} ${MUSTER_PROTOBUF_INCLUDE})
  target_link_libraries(muster_environment_protocol PUBLIC ${MUSTER_GRPC_LIBRARY} ${MUSTER_GRPC_CORE_LIBRARY}
                                                           ${MUSTER_GRPC_PORTABILITY_LIBRARY} ${MUSTER_PROTOBUF_LIBRARY} Threads::Threads)
  # gRPC's headers call what is in libraries of its own (abseil): those are taken as it names them.
  target_link_options(muster_environment_protocol PUBLIC -Wl,--copy-dt-needed-entries)
endfunction()
