# What reads the words of strangers, compiled once more with sanitizers and fed with damaged input: a bounded run in CTest, as
# much as you like with `PROGRAM --inputs N` (store_fuzz: --messages N).
add_library(sanitized INTERFACE)
target_include_directories(sanitized INTERFACE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/engine)
target_compile_options(sanitized INTERFACE -O1 -g1 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all)
target_link_options(sanitized INTERFACE -fsanitize=address,undefined)
target_link_libraries(sanitized INTERFACE yaml-cpp fmt::fmt nlohmann_json::nlohmann_json Threads::Threads ${CMAKE_DL_LIBS} muster_warnings)

# add_sanitized_layer(FOLDER LIBRARY...): sanitized_NAME, by the folder's last name.
function(add_sanitized_layer folder)
  cmake_path(GET folder FILENAME name)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*.cpp)
  list(FILTER sources EXCLUDE REGEX "/chat/(appended_turn|model_text|model_text_files|special_tokens)\\.cpp$")  # they are of models, not of templates
  add_library(sanitized_${name} STATIC ${sources})
  target_link_libraries(sanitized_${name} PUBLIC ${ARGN} sanitized)
  compile_in_batches(sanitized_${name})
endfunction()

add_sanitized_layer(src/base)
add_sanitized_layer(src/system sanitized_base)
add_sanitized_layer(src/json sanitized_system)
add_sanitized_layer(src/spec sanitized_json muster_pcre2)
add_sanitized_layer(src/gpu sanitized_system)
add_sanitized_layer(src/sweep sanitized_spec)
add_sanitized_layer(src/rendezvous sanitized_json)
add_sanitized_layer(engine/checkpoint sanitized_spec)
add_sanitized_layer(engine/convert sanitized_checkpoint muster::kernels)  # whose sources are compiled in ways of their own
add_sanitized_layer(engine/chat sanitized_json)
add_sanitized_layer(engine/tokenizer sanitized_system muster_pcre2)
add_sanitized_layer(engine/reward/math sanitized_base)

# add_fuzz(PROGRAM LAYERS layer... TEST name arguments...)
function(add_fuzz program)
  cmake_parse_arguments(fuzz "" "" "LAYERS;TEST" ${ARGN})
  list(POP_FRONT fuzz_TEST test)
  list(TRANSFORM fuzz_LAYERS PREPEND sanitized_)
  add_executable(${program} fuzz/${program}.cpp)
  target_include_directories(${program} PRIVATE ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR}
                             ${CMAKE_CURRENT_SOURCE_DIR}/unit/spec ${CMAKE_CURRENT_SOURCE_DIR}/unit/rendezvous)
  target_compile_definitions(${program} PRIVATE MUSTER_CORPUS="${CMAKE_CURRENT_SOURCE_DIR}")
  target_link_libraries(${program} PRIVATE ${fuzz_LAYERS})
  add_test(NAME ${test} COMMAND ${program} ${fuzz_TEST})
  set_tests_properties(${test} PROPERTIES TIMEOUT 600)
endfunction()

# Everything that a user can write.
add_fuzz(parser_fuzz LAYERS spec gpu sweep TEST ParserFuzz.SurvivesMutatedTexts --inputs 20000 --seed 1)
# Whole checkpoints, damaged anywhere, opened and read to the last tensor.
add_fuzz(checkpoint_fuzz LAYERS convert TEST CheckpointFuzz.ReadsDamagedCheckpointsWithoutHarm --inputs 4000 --seed 1)
# Checkpoints of quantised weights, of every method that is read.
add_fuzz(quantized_fuzz LAYERS checkpoint TEST QuantizedFuzz.DecodesDamagedCheckpointsWithoutHarm --inputs 4000 --seed 1)
# Low-rank adapters, opened and merged.
add_fuzz(adapter_fuzz LAYERS checkpoint TEST AdapterFuzz.OpensDamagedAdaptersWithoutHarm --inputs 2000 --seed 1)
# What listens on the port of a run: right and damaged messages.
add_fuzz(store_fuzz LAYERS rendezvous TEST StoreFuzz.AnswersRightMessagesAndSurvivesWrongOnes --messages 50000 --seed 1)
add_fuzz(template_fuzz LAYERS chat TEST TemplateFuzz.SurvivesMutatedTemplates --inputs 5000 --seed 1)
add_fuzz(tokenizer_fuzz LAYERS tokenizer TEST TokenizerFuzz.SurvivesMutatedFilesAndTexts --inputs 2000 --seed 1)
# Answers that models wrote, as the checker of mathematics reads them.
add_fuzz(answer_fuzz LAYERS math TEST AnswerFuzz.JudgesDamagedAnswersWithoutHarm --inputs 20000 --seed 1)
