# Warnings are errors in muster's own code; sanitizers apply to every target.
add_library(muster_warnings INTERFACE)
target_compile_options(muster_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wnon-virtual-dtor -Wold-style-cast
  -Woverloaded-virtual -Wno-missing-field-initializers -Werror
  # g++ 13 and newer report these of standard and fmt headers that they have inlined
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_GREATER_EQUAL:$<CXX_COMPILER_VERSION>,13>>:-Wno-error=array-bounds>
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_GREATER_EQUAL:$<CXX_COMPILER_VERSION>,13>>:-Wno-error=stringop-overflow>
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_GREATER_EQUAL:$<CXX_COMPILER_VERSION>,13>>:-Wno-error=maybe-uninitialized>
  # harmless if several sources are compiled as one
  $<$<BOOL:$<TARGET_PROPERTY:UNITY_BUILD>>:-Wno-shadow> $<$<BOOL:$<TARGET_PROPERTY:UNITY_BUILD>>:-Wno-subobject-linkage>)

if(MUSTER_SANITIZER)
  add_compile_options(-fsanitize=${MUSTER_SANITIZER} -fno-omit-frame-pointer -g)
  add_link_options(-fsanitize=${MUSTER_SANITIZER})
endif()
