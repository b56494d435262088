# PCRE2 where it lies, also without its -dev package's link: set PCRE2_INCLUDE and PCRE2_LIBRARY from outside.
find_path(PCRE2_INCLUDE pcre2.h DOC "The folder that holds pcre2.h")
find_library(PCRE2_LIBRARY NAMES pcre2-8 libpcre2-8.so.0 DOC "PCRE2's library for 8-bit text")
if(NOT PCRE2_INCLUDE OR NOT PCRE2_LIBRARY)
  message(FATAL_ERROR "PCRE2 was not found (Debian: libpcre2-dev): install it, or set PCRE2_INCLUDE and PCRE2_LIBRARY")
endif()
add_library(muster_pcre2 INTERFACE)
target_include_directories(muster_pcre2 SYSTEM INTERFACE ${PCRE2_INCLUDE})
target_link_libraries(muster_pcre2 INTERFACE ${PCRE2_LIBRARY})
