# Fails when BINARY needs a library whose name matches FORBIDDEN. Run by CTest on the control plane.
execute_process(COMMAND readelf --dynamic ${BINARY} OUTPUT_VARIABLE dynamic COMMAND_ERROR_IS_FATAL ANY)
if(NOT dynamic MATCHES "NEEDED")
  message(FATAL_ERROR "${BINARY} names no library at all: is it the program?")
endif()
if(dynamic MATCHES "NEEDED[^\n]*(${FORBIDDEN})")
  message(FATAL_ERROR "${BINARY} links ${CMAKE_MATCH_1}: the control plane must start without it")
endif()
