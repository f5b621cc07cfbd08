# Helpers of the build: warnings, sanitizers, one library a folder, registries, tests.

add_library(esp_options INTERFACE)
target_include_directories(esp_options INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/generated)
target_compile_definitions(esp_options INTERFACE _GNU_SOURCE _FILE_OFFSET_BITS=64
                           ESP_VERSION="${PROJECT_VERSION}")
target_compile_options(esp_options INTERFACE
  -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith
  -Wwrite-strings -Wvla -Wformat=2 -Wno-format-nonliteral -Wno-format-truncation -Wundef -Wcast-align
  -fno-strict-aliasing $<$<C_COMPILER_ID:Clang>:-Wno-unknown-warning-option>)
if(ESP_SANITIZE)
  target_compile_options(esp_options INTERFACE -fsanitize=${ESP_SANITIZE} -fno-omit-frame-pointer
                         -fno-sanitize-recover=all -g)
  target_link_options(esp_options INTERFACE -fsanitize=${ESP_SANITIZE})
endif()

# esp_library(NAME SOURCES a.c b.c LINK x y): the static library of a folder.
function(esp_library name)
  cmake_parse_arguments(L "" "" "SOURCES;LINK;PRIVATE" ${ARGN})
  add_library(esp_${name} STATIC ${L_SOURCES})
  target_link_libraries(esp_${name} PUBLIC esp_options ${L_LINK} PRIVATE ${L_PRIVATE})
endfunction()

# esp_registry(FILE.def MACRO OUT_VAR): the sources named on the lines of a registry, the
# same lines that C reads to build its table.
function(esp_registry file macro out)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${file})
  file(STRINGS ${file} lines REGEX "^${macro}\\(")
  set(sources "")
  foreach(line IN LISTS lines)
    string(REGEX REPLACE "^${macro}\\([^,]+, *([^,)]+).*" "\\1" source "${line}")
    list(APPEND sources ${source})
  endforeach()
  set(${out} ${sources} PARENT_SCOPE)
endfunction()

# esp_test(NAME SOURCES a.c LINK libs [ARGS ...] [LABELS ...]): one cmocka program = one ctest entry.
function(esp_test name)
  cmake_parse_arguments(T "" "TIMEOUT" "SOURCES;LINK;ARGS;LABELS" ${ARGN})
  add_executable(${name} ${T_SOURCES})
  target_link_libraries(${name} PRIVATE esp_test_support ${T_LINK} cmocka)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  add_test(NAME ${name} COMMAND ${name} ${T_ARGS} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 300)
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT ${T_TIMEOUT} LABELS "${T_LABELS}"
                       SKIP_RETURN_CODE 77)
  if("threads" IN_LIST T_LABELS) # what `test.sh` runs under the thread sanitizer
    add_dependencies(threads_tests ${name})
  endif()
endfunction()
